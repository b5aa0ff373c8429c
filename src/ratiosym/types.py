"""What flows through the system: observations, steps, transitions, and what an environment says of
itself.

Axes, in this order wherever they occur: T time, E environments, A agents. ``*b`` is any batch in
front.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree
from jaxtyping import Key as KeyArray

Key = PRNGKeyArray
Keys = KeyArray[Array, "..."]  # many


class Observation(NamedTuple):
    """What the agents and the critic see of one moment."""

    local: Float[Array, "*b A F"]  # what each agent sees
    legal: Bool[Array, "*b A actions"]  # which actions it may take; width 0 for continuous actions
    active: Bool[Array, "*b A"]  # whether it still acts (not dead, not finished)
    state: Float[Array, "*b S"]  # what the centralised critic sees: one row for the team


class Step(NamedTuple):
    """What one step of an environment gives. Exactly one of the two ends can be true."""

    observation: Observation  # after the step; at an end, the episode's last observation
    reward: Float[Array, "*b A"]  # equal for all agents where the task shares its reward
    terminated: Bool[Array, "*b"]  # the task ended
    truncated: Bool[Array, "*b"]  # the clock ended it
    metrics: dict[
        str, Array
    ]  # facts of the moment (won, collisions ...); read at an episode's last step


class Transition(NamedTuple):
    """A rollout as the update reads it, [T, E, ...]."""

    observation: Observation  # before the action
    is_start: Bool[Array, "T E"]  # the observation is the first of an episode
    action: PyTree  # as sampled: the index, or the value before tanh
    log_prob: Float[Array, "T E A"]  # under the policy that acted
    reward: Float[Array, "T E A"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    last_observation: Observation  # after the step, before a new episode starts


@dataclass(frozen=True)
class Discrete:
    """``num_actions`` choices for every agent, of which ``Observation.legal`` says which are
    open.
    """

    num_actions: int


@dataclass(frozen=True)
class Continuous:
    """A vector of ``size`` numbers for every agent. The policy gives tanh values, in (-1, 1)."""

    size: int


@dataclass(frozen=True)
class EnvSpec:
    """The sizes of an environment: everything that shapes the networks and the rollout."""

    name: str
    num_agents: int
    observation_size: int
    state_size: int
    action: Discrete | Continuous
    time_limit: int  # the longest an episode can last, in steps
    metrics: tuple[str, ...] = ()  # names in Step.metrics
    usual_length: int | None = (
        None  # of an episode, where most end well before the limit: sizes the pool of starts
    )

    @property
    def num_actions(self) -> int:
        """The width of ``Observation.legal``."""
        return self.action.num_actions if isinstance(self.action, Discrete) else 0

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        data = dataclasses.asdict(self)
        data["action"] = {"kind": type(self.action).__name__.lower(), **data["action"]}
        data["metrics"] = list(self.metrics)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "EnvSpec":
        """From plain data."""
        action = {k: v for k, v in data["action"].items() if k != "kind"}
        kind = Discrete if data["action"]["kind"] == "discrete" else Continuous
        return cls(**{**data, "action": kind(**action), "metrics": tuple(data["metrics"])})


State = Any  # an environment's own state: any pytree
