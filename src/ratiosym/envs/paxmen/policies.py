"""Scripted teams, and what they are known to reach."""

from typing import NamedTuple


class References(NamedTuple):
    """Mean returns of teams that need no learning."""

    idle: float
    random: float
    room_missed: float  # one room never visited, otherwise perfect
    one_idle: float  # all but one agent play
    local: float  # one agent a room, seeing no more than an agent sees
    oracle: float  # one agent a room, seeing everything


# By number of agents. The normalised score is 0 at ``random`` and 1 at ``oracle``.
REFERENCE_RETURNS: dict[int, References] = {
    4: References(-10.0, -9.20, -0.8, 23.7, 89.2, 93.7),
    5: References(-14.375, -13.67, -2.1, 29.0, 125.3, 132.3),
    6: References(-19.5, -18.37, -4.1, 36.1, 167.9, 178.5),
}
