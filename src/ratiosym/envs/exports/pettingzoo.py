"""Our environments as PettingZoo environments: NumPy outside, compiled inside."""

import secrets
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from ratiosym.envs.exports import agent_names, environment, require
from ratiosym.envs.protocol import Action, Env
from ratiosym.errors import InputError
from ratiosym.types import Discrete, EnvSpec, Key, Observation, State, Step

require("pettingzoo")
import gymnasium  # noqa: E402
import pettingzoo  # noqa: E402
from gymnasium import spaces  # noqa: E402

ByAgent = dict[str, Any]


class _Moment(NamedTuple):
    """Snapshot of an episode."""

    key: Key  # for the next step
    state: State
    observation: Observation


class PettingZooEnv(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """One of our environments as a PettingZoo environment: ``parallel_env("paxmen-4a")``.

    - Observation: float32 ``[F]`` per agent; ``state()`` returns float32 ``[S]`` for a centralised
      critic.
    - Action: an integer below ``n``, or ``[size]`` numbers in [-1, 1].
      ``infos[agent]["action_mask"]`` (int8 ``[n]``) is the mask of legal actions; it is in the
      infos so that observations stay plain boxes.
    - Reward: per agent.
    - End: ``terminations`` if the task ended or the agent no longer acts, ``truncations`` at the
      time limit. An agent that is done leaves ``agents``.
    - Infos: the mask and, after a step, the metrics.

    ``render_mode="rgb_array"`` is available if the environment has ``draw``.
    """

    def __init__(self, env: str | Env, render_mode: str | None = None) -> None:
        self.env = environment(env)
        spec = self.env.spec
        modes = ["rgb_array"] if hasattr(self.env, "draw") else []
        if render_mode not in (None, *modes):
            raise InputError(
                f"{spec.name!r}: render_mode is {render_mode!r}, expected one of {[None, *modes]}."
            )
        self.metadata = {
            "name": spec.name,
            "render_modes": modes,
            "render_fps": 5,
            "is_parallelizable": True,
        }
        self.render_mode = render_mode
        self.possible_agents = agent_names(self.env)
        self.agents: list[str] = []
        # One space per agent, as each has its own random generator.
        self.observation_spaces = {
            agent: _box(spec.observation_size) for agent in self.possible_agents
        }
        self.action_spaces = {agent: _action_space(spec) for agent in self.possible_agents}
        self.state_space = _box(spec.state_size)
        self._rows = {agent: row for row, agent in enumerate(self.possible_agents)}
        self._moment: _Moment | None = None

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ByAgent, ByAgent]:
        """Start an episode. Without a seed, continue the last random stream, or seed randomly."""
        del options  # there are none
        if seed is not None:
            key = jax.random.key(seed)
        else:
            key = jax.random.key(secrets.randbits(31)) if self._moment is None else self._moment.key
        self._moment = _start(self.env, key)
        observation = jax.device_get(self._moment.observation)
        self.agents = [agent for agent, row in self._rows.items() if observation.active[row]]
        return self._observations(observation), self._infos(observation, {})

    def step(self, actions: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Take one step with an action for each of ``agents``.

        Returns observations, rewards, terminations, truncations and infos.
        """
        if not self.agents:
            raise InputError(f"{self.env.spec.name!r}: no episode is running. Call reset() first.")
        moment = self._now()
        self._moment, result = _advance(self.env, moment, self._joint(moment, actions))
        step: Step = jax.device_get(result)
        is_out = step.terminated | ~step.observation.active  # [A]
        rewards = {agent: float(step.reward[self._rows[agent]]) for agent in self.agents}
        terminations = {agent: bool(is_out[self._rows[agent]]) for agent in self.agents}
        truncations = dict.fromkeys(self.agents, bool(step.truncated))
        observations, infos = (
            self._observations(step.observation),
            self._infos(step.observation, step.metrics),
        )
        self.agents = [
            agent for agent in self.agents if not (terminations[agent] or truncations[agent])
        ]
        return observations, rewards, terminations, truncations, infos

    def state(self) -> Float[np.ndarray, "S"]:
        """Return the input of a centralised critic."""
        return np.array(self._now().observation.state)

    def render(self) -> UInt8[np.ndarray, "H W 3"] | None:
        """Draw the current state, in the render mode ``rgb_array``."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() needs a render mode: pass render_mode='rgb_array' at construction."
            )
            return None
        return np.asarray(self.env.draw(self._now().state))  # type: ignore[attr-defined]  # checked in __init__

    def observation_space(self, agent: str) -> spaces.Box:
        """Return an agent's observation space."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space:
        """Return an agent's action space."""
        return self.action_spaces[agent]

    def _now(self) -> _Moment:
        if self._moment is None:
            raise InputError(
                f"{self.env.spec.name!r}: no episode has been started. Call reset() first."
            )
        return self._moment

    def _joint(
        self, moment: _Moment, actions: ByAgent
    ) -> Int[np.ndarray, "A"] | Float[np.ndarray, "A size"]:
        """Stack the actions; agents that have left take their first legal action, or zeros."""
        if not set(self.agents) <= set(actions):
            raise InputError(
                f"actions are for {list(actions)}, expected one for each of {self.agents}."
            )
        spec = self.env.spec
        if isinstance(spec.action, Discrete):
            joint = np.asarray(moment.observation.legal).argmax(axis=1).astype(np.int32)  # [A]
            low, high = 0, spec.num_actions - 1
        else:
            joint = np.zeros((spec.num_agents, spec.action.size), np.float32)
            low, high = -1, 1
        for agent in self.agents:
            action, row = actions[agent], self._rows[agent]
            joint[row] = action
            if isinstance(spec.action, Discrete) and joint[row] != action:
                raise InputError(f"the action of {agent} is {action!r}, expected a whole number.")
        if not ((joint >= low) & (joint <= high)).all():
            raise InputError(f"actions are {joint.tolist()}, expected all from {low} to {high}.")
        return joint

    def _observations(self, observation: Observation) -> ByAgent:
        return {agent: observation.local[self._rows[agent]].copy() for agent in self.agents}

    def _infos(self, observation: Observation, metrics: dict[str, Array]) -> ByAgent:
        facts = {name: float(value) for name, value in metrics.items()}
        if isinstance(self.env.spec.action, Discrete):
            masks = observation.legal.astype(np.int8)  # [A, n], as gymnasium's masks
            return {
                agent: {"action_mask": masks[self._rows[agent]], **facts} for agent in self.agents
            }
        return {agent: dict(facts) for agent in self.agents}


parallel_env = PettingZooEnv  # the name used by PettingZoo's own modules


# The environment is a static argument, so that equal ones share compiled programs.
@partial(jax.jit, static_argnums=0)
def _start(env: Env, key: Key) -> _Moment:
    key, reset_key = jax.random.split(key)
    return _Moment(key, *env.reset(reset_key))


@partial(jax.jit, static_argnums=0)
def _advance(env: Env, moment: _Moment, action: Action) -> tuple[_Moment, Step]:
    key, step_key = jax.random.split(moment.key)
    state, step = env.step(step_key, moment.state, action)
    return _Moment(key, state, step.observation), step


def _box(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _action_space(spec: EnvSpec) -> spaces.Space:
    if isinstance(spec.action, Discrete):
        return spaces.Discrete(spec.action.num_actions)
    return spaces.Box(-1.0, 1.0, (spec.action.size,), np.float32)
