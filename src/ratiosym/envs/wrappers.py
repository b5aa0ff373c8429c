"""Environment wrappers.

A wrapper forwards whatever it does not change: ``draw``, ``references`` and all other attributes.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from ratiosym.envs.protocol import Action, Env
from ratiosym.envs.teams import Memory, Team
from ratiosym.types import EnvSpec, Key, Observation, State, Step


def with_agent_ids(env: Env) -> Env:
    """Prepend the one-hot agent id to each agent's observation; leave the state unchanged."""
    return _AgentIds(env)


def without_agent_ids(env: Env) -> Env:
    """Undo ``with_agent_ids``; return any other environment unchanged."""
    return env.env if isinstance(env, _AgentIds) else env


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

    @property
    def teams(self) -> dict[str, Team]:
        """Scripted teams, which receive observations without ids."""
        return {name: _without_ids(team) for name, team in getattr(self.env, "teams", {}).items()}

    def __getattr__(self, name: str) -> Any:
        if name == "env" or name.startswith("__"):  # absent while being copied or unpickled
            raise AttributeError(name)
        return getattr(self.env, name)


def _without_ids(team: Team) -> Team:
    def act(
        key: Key, state: State, observation: Observation, memory: Memory
    ) -> tuple[Action, Memory]:
        num_agents = observation.local.shape[0]
        plain = observation._replace(local=observation.local[:, num_agents:])
        return team.act(key, state, plain, memory)

    return replace(team, act=act)


def _add_ids(observation: Observation) -> Observation:
    local = observation.local
    ids = jnp.eye(local.shape[0], dtype=local.dtype)
    return observation._replace(local=jnp.concatenate([ids, local], axis=1))  # [A, A + F]
