"""Functions from an environment to an environment."""

from dataclasses import dataclass, replace

import jax.numpy as jnp

from ratiosym.envs.protocol import Action, Env
from ratiosym.types import EnvSpec, Key, Observation, State, Step


def with_agent_ids(env: Env) -> Env:
    """Put the one-hot agent id in front of what each agent sees; the critic's state stays as it
    is.
    """
    return _AgentIds(env)


@dataclass(frozen=True)
class _AgentIds:
    env: Env

    @property
    def spec(self) -> EnvSpec:
        spec = self.env.spec
        return replace(spec, observation_size=spec.num_agents + spec.observation_size)

    def reset(self, key: Key) -> tuple[State, Observation]:
        state, observation = self.env.reset(key)
        return state, _add_ids(observation)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        state, step = self.env.step(key, state, action)
        return state, step._replace(observation=_add_ids(step.observation))


def _add_ids(observation: Observation) -> Observation:
    local = observation.local
    ids = jnp.eye(local.shape[0], dtype=local.dtype)
    return observation._replace(local=jnp.concatenate([ids, local], axis=1))  # [A, A + F]
