"""Scripted teams, as baselines for learned policies.

An environment may provide its own in an attribute ``teams`` (a dict from name to ``Team``), and
their mean returns in ``references``. The team ``random`` is always available.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ratiosym.envs.protocol import Action, Env, random_action
from ratiosym.errors import InputError
from ratiosym.types import Key, Observation, State

Memory = Any  # a team's memory within an episode: any pytree, () for none


@dataclass(frozen=True)
class Team:
    """Joint behaviour of all agents, as two traceable functions of a single episode.

    Unlike a learned policy, a script may read the full state of the environment.
    """

    about: str  # one-line description for tables
    start: Callable[[Key, State], Memory]  # memory at the start of an episode
    act: Callable[[Key, State, Observation, Memory], tuple[Action, Memory]]


def teams_of(env: Env) -> dict[str, Team]:
    """Return the scripted teams of an environment, by name."""

    def act(
        key: Key, state: State, observation: Observation, memory: Memory
    ) -> tuple[Action, Memory]:
        return random_action(env.spec, key, observation), memory

    random = Team("uniform among the legal actions", lambda key, state: (), act)
    return {"random": random} | getattr(env, "teams", {})


def references_of(env: Env) -> dict[str, float]:
    """Return the known mean returns of an environment's teams (its ``references``)."""
    return dict(getattr(env, "references", {}))


def get_team(env: Env, name: str) -> Team:
    """Return a scripted team by name."""
    teams = teams_of(env)
    if name not in teams:
        raise InputError(
            f"Task {env.spec.name!r} has no scripted team {name!r}. It has: {', '.join(teams)}."
        )
    return teams[name]
