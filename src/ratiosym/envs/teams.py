"""Scripted teams: what plays when nothing has been learned.

An environment may offer its own as an attribute ``teams`` (a dict from name to ``Team``), and their
mean returns as ``references``. The team ``random`` exists everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ratiosym.envs.protocol import Action, Env, random_action
from ratiosym.errors import InputError
from ratiosym.types import Key, Observation, State

Memory = Any  # what a team remembers in an episode: any pytree, () for nothing


@dataclass(frozen=True)
class Team:
    """How all agents of one environment act. Both functions can be traced; under ``vmap``, one team
    per episode.

    Unlike a learned policy, a script may read the environment's whole state.
    """

    about: str  # one line for tables
    start: Callable[[Key, State], Memory]  # the memory at an episode's start
    act: Callable[[Key, State, Observation, Memory], tuple[Action, Memory]]


def teams_of(env: Env) -> dict[str, Team]:
    """The scripted teams of an environment, by name."""

    def act(
        key: Key, state: State, observation: Observation, memory: Memory
    ) -> tuple[Action, Memory]:
        return random_action(env.spec, key, observation), memory

    random = Team("uniform among the legal actions", lambda key, state: (), act)
    return {"random": random} | getattr(env, "teams", {})


def references_of(env: Env) -> dict[str, float]:
    """Returns that are known of an environment's teams (its ``references``), for tables."""
    return dict(getattr(env, "references", {}))


def get_team(env: Env, name: str) -> Team:
    """A scripted team by name."""
    teams = teams_of(env)
    if name not in teams:
        raise InputError(
            f"Task {env.spec.name!r} has no scripted team {name!r}. It has: {', '.join(teams)}."
        )
    return teams[name]
