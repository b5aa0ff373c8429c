"""Shared data types: observations, steps, transitions and environment specifications.

Axes always appear in this order: T time, E environments, A agents. ``*b`` stands for any leading
batch dimensions.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree
from jaxtyping import Key as KeyArray

Key = PRNGKeyArray
Keys = KeyArray[Array, "..."]  # an array of keys


class Observation(NamedTuple):
    """Inputs of the agents and the critic at one time step."""

    local: Float[Array, "*b A F"]  # each agent's own observation
    legal: Bool[Array, "*b A actions"]  # action mask; width 0 for continuous actions
    active: Bool[Array, "*b A"]  # whether the agent still acts (not dead, not finished)
    state: Float[Array, "*b S"]  # global state for the centralised critic, one row per team


class Step(NamedTuple):
    """Result of an environment step. At most one of ``terminated`` and ``truncated`` is true."""

    observation: Observation  # after the step; at the end, the episode's last observation
    reward: Float[Array, "*b A"]  # equal for all agents where the task shares its reward
    terminated: Bool[Array, "*b"]  # the task itself ended the episode
    truncated: Bool[Array, "*b"]  # the time limit ended the episode
    metrics: dict[str, Array]  # such as won or collisions; read at an episode's last step


class Transition(NamedTuple):
    """A rollout in the layout of the update, [T, E, ...]."""

    observation: Observation  # before the action
    is_start: Bool[Array, "T E"]  # whether the observation is the first of an episode
    action: PyTree  # as sampled: the index, or the value before tanh
    log_prob: Float[Array, "T E A"]  # under the behaviour policy
    reward: Float[Array, "T E A"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    last_observation: Observation  # after the step, before a new episode starts


@dataclass(frozen=True)
class Discrete:
    """``num_actions`` choices per agent; ``Observation.legal`` says which are currently legal."""

    num_actions: int


@dataclass(frozen=True)
class Continuous:
    """A vector of ``size`` numbers per agent. Policies output tanh values, in (-1, 1)."""

    size: int


@dataclass(frozen=True)
class EnvSpec:
    """Sizes of an environment, which determine the shapes of networks and rollouts."""

    name: str
    num_agents: int
    observation_size: int
    state_size: int
    action: Discrete | Continuous
    time_limit: int  # maximum episode length in steps
    metrics: tuple[str, ...] = ()  # names in Step.metrics
    # Typical episode length, if most end well before the limit. Sizes the pool of initial states.
    usual_length: int | None = None

    @property
    def num_actions(self) -> int:
        """Width of ``Observation.legal``."""
        return self.action.num_actions if isinstance(self.action, Discrete) else 0

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON."""
        data = dataclasses.asdict(self)
        data["action"] = {"kind": type(self.action).__name__.lower(), **data["action"]}
        data["metrics"] = list(self.metrics)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "EnvSpec":
        """Restore from the output of ``to_dict``."""
        action = {k: v for k, v in data["action"].items() if k != "kind"}
        kind = Discrete if data["action"]["kind"] == "discrete" else Continuous
        return cls(**{**data, "action": kind(**action), "metrics": tuple(data["metrics"])})


State = Any  # an environment's internal state: any pytree
