"""Our environments as JaxMARL environments."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ratiosym.envs.adapters.jaxmarl.library import load
from ratiosym.envs.exports import agent_names, environment, require
from ratiosym.envs.protocol import Action, Env
from ratiosym.types import Discrete, EnvSpec, Key, Observation, State, Step

require("jaxmarl")
MultiAgentEnv: Any = load("JaxMarlEnv", "multi_agent_env", "MultiAgentEnv")
Box, Choice = (load("JaxMarlEnv", "spaces", name) for name in ("Box", "Discrete"))

ByAgent = dict[str, Array]


class JaxMarlState(NamedTuple):
    """An environment's state, with what JaxMARL reads from a state: observation, step, done."""

    env_state: State
    observation: Observation
    step: Int[Array, ""]
    done: Bool[Array, ""]


class JaxMarlEnv(MultiAgentEnv):  # type: ignore[misc]
    """One of our environments as a JaxMARL environment: ``JaxMarlEnv("paxmen-4a")``.

    - Observation: a dict with ``[F]`` per agent, and ``world_state`` ``[S]`` for a centralised
      critic, as in SMAX; it has no observation space.
    - Action: a dict with an integer, or ``[size]`` numbers in [-1, 1], per agent.
      ``get_avail_actions`` returns the masks, of width 0 for continuous actions.
    - Reward: a dict, per agent.
    - End: ``dones["__all__"]``. An agent is done at the end of the episode, or once it no longer
      acts. ``step`` starts the next episode, as everywhere in JaxMARL; ``step_env`` does not.
    - Info: the metrics and ``truncated``, which ``dones`` cannot express, each ``[A]``.
    """

    def __init__(self, env: str | Env) -> None:
        self.env = environment(env)
        spec = self.env.spec
        super().__init__(num_agents=spec.num_agents)
        self.agents = agent_names(self.env)
        self.max_steps = spec.time_limit
        self.state_size = spec.state_size
        self.observation_spaces = dict.fromkeys(
            self.agents, Box(-jnp.inf, jnp.inf, (spec.observation_size,))
        )
        self.action_spaces = dict.fromkeys(self.agents, _action_space(spec))

    @partial(jax.jit, static_argnums=0)
    def reset(self, key: Key) -> tuple[ByAgent, JaxMarlState]:
        """Start an episode."""
        env_state, observation = self.env.reset(key)
        state = JaxMarlState(
            env_state, observation, step=jnp.zeros((), jnp.int32), done=jnp.zeros((), bool)
        )
        return self.get_obs(state), state

    @partial(jax.jit, static_argnums=0)
    def step_env(
        self, key: Key, state: JaxMarlState, actions: ByAgent
    ) -> tuple[ByAgent, JaxMarlState, ByAgent, ByAgent, ByAgent]:
        """Take one step without starting a new episode."""
        env_state, step = self.env.step(key, state.env_state, self._joint(actions))
        is_over = step.terminated | step.truncated
        state = JaxMarlState(env_state, step.observation, state.step + 1, is_over)
        dones = self._by_agent(is_over | ~step.observation.active) | {"__all__": is_over}
        return self.get_obs(state), state, self._by_agent(step.reward), dones, self._info(step)

    def get_obs(self, state: JaxMarlState) -> ByAgent:
        """Return the agents' observations and the critic's."""
        return self._by_agent(state.observation.local) | {
            "world_state": self.get_world_state(state)
        }

    def get_world_state(self, state: JaxMarlState) -> Array:
        """Return the input of a centralised critic, ``[S]``."""
        return state.observation.state

    def get_avail_actions(self, state: JaxMarlState) -> ByAgent:
        """Return each agent's action mask, ``[n]``."""
        return self._by_agent(state.observation.legal)

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.env.spec.name

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        """A single class, as all agents are alike."""
        return {"agents": self.agents}

    def _joint(self, actions: ByAgent) -> Action:
        dtype = jnp.int32 if isinstance(self.env.spec.action, Discrete) else jnp.float32
        return jnp.stack([jnp.asarray(actions[agent], dtype) for agent in self.agents])  # [A, ...]

    def _by_agent(self, values: Array) -> ByAgent:
        return {agent: values[index] for index, agent in enumerate(self.agents)}

    def _info(self, step: Step) -> ByAgent:
        # Repeat numbers per agent, as JaxMARL's training scripts reshape every info to [A].
        facts = step.metrics | {"truncated": step.truncated}
        return {name: jnp.full(self.num_agents, fact) for name, fact in facts.items()}


def _action_space(spec: EnvSpec) -> Any:
    if isinstance(spec.action, Discrete):
        return Choice(spec.action.num_actions)
    return Box(-1.0, 1.0, (spec.action.size,))
