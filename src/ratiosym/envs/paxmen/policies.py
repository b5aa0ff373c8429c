"""Scripted teams and their mean returns."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from ratiosym.envs.paxmen.layouts import EAT, ROOM_CELLS, VIEW, Layout, tables
from ratiosym.envs.protocol import Action
from ratiosym.envs.teams import Memory, Team
from ratiosym.types import Key, Observation, State

# Mean returns of the teams below by number of agents, measured over 16,384 episodes each; standard
# errors are at most 0.06. The returns of ``idle`` and ``room_missed`` are constant. The normalised
# score is 0 for ``random`` and 1 for ``oracle``.
REFERENCE_RETURNS: dict[int, dict[str, float]] = {
    4: {
        "idle": -10.0,
        "random": -9.27,
        "room_missed": -0.775,
        "one_idle": 23.57,
        "local": 89.85,
        "oracle": 94.07,
    },
    5: {
        "idle": -14.375,
        "random": -13.70,
        "room_missed": -2.075,
        "one_idle": 29.10,
        "local": 126.94,
        "oracle": 133.52,
    },
    6: {
        "idle": -19.5,
        "random": -18.61,
        "room_missed": -4.125,
        "one_idle": 41.12,
        "local": 169.00,
        "oracle": 178.53,
    },
}

# Room that each agent is to empty; NO_ROOM for an agent that stays in place.
Roles = Int[Array, "N"]
NO_ROOM = -1
FAR = 10_000  # larger than any distance


def scripted_teams(layouts: tuple[Layout, ...]) -> dict[str, Team]:
    """Return the scripted teams, weakest first.

    Rooms are assigned to the nearest free agent, those with the longest corridor first.
    """
    num_agents = len(layouts[0].arms)
    all_play, all_but_one = (
        partial(_roles, layouts, num_agents),
        partial(_roles, layouts, num_agents - 1),
    )
    looks_around = partial(_act, layouts, sees_all=False)
    knows_all = partial(_act, layouts, sees_all=True)
    helps_out = partial(_act, layouts, sees_all=True, helps=True)
    return {
        "idle": Team("nobody moves", lambda key, state: (), _stay),
        "room_missed": Team(
            "one agent idle, the nearest room never visited", all_but_one, knows_all
        ),
        "one_idle": Team("one agent idle, the others empty its room too", all_but_one, helps_out),
        "local": Team("one agent per room, sees its 5x5 window", all_play, looks_around),
        "oracle": Team("one agent per room, sees everything", all_play, knows_all),
    }


def _stay(
    key: Key, state: State, observation: Observation, memory: Memory
) -> tuple[Action, Memory]:
    return jnp.full(state.agents.shape, EAT, jnp.int32), memory  # there are no dots in the hub


def _roles(layouts: tuple[Layout, ...], num_playing: int, key: Key, state: State) -> Roles:
    """Assign rooms to the nearest free agent, the farthest room first, to be complete sooner."""
    distance = _distance(layouts)[state.layout]
    rooms = _rooms_by_length(layouts)[state.layout]
    middles = _middles(layouts, state.layout)
    roles = jnp.full(state.agents.shape, NO_ROOM, jnp.int32)
    is_free = jnp.arange(roles.size) < num_playing
    for room in rooms[:num_playing]:
        agent = jnp.argmin(jnp.where(is_free, distance[state.agents, middles[room]], FAR))
        roles = roles.at[agent].set(room)
        is_free = is_free.at[agent].set(False)
    return roles


def _act(
    layouts: tuple[Layout, ...],
    key: Key,
    state: State,
    observation: Observation,
    roles: Roles,
    sees_all: bool,
    helps: bool = False,
) -> tuple[Action, Roles]:
    """Move each agent to a dot of its room, or to the middle of the room if it sees none."""
    if helps:
        roles = _send_help(layouts, state, roles)
    position = jnp.asarray(tables(layouts).positions, jnp.int32)[state.layout]
    distance = _distance(layouts)[state.layout]

    def target(
        cell: Int[Array, ""], room: Int[Array, ""], middle: Int[Array, ""]
    ) -> Int[Array, ""]:
        dots, is_seen = state.dots[room], state.is_left[room]
        if not sees_all:
            is_seen &= jnp.abs(position[dots] - position[cell][None]).max(1) <= VIEW // 2
        # Planning with only some dots in sight can oscillate forever, so agents with a limited view
        # take the nearest dot.
        cost = _tours(distance, cell, dots, is_seen) if sees_all else distance[cell, dots]
        return jnp.where(is_seen.any(), dots[jnp.argmin(jnp.where(is_seen, cost, FAR))], middle)

    targets = jax.vmap(target)(state.agents, roles, _middles(layouts, state.layout)[roles])
    moves = jnp.asarray(tables(layouts).moves, jnp.int32)[
        state.layout, state.agents, :EAT
    ]  # [N, 4]
    step = jnp.argmin(distance[moves, targets[:, None]], 1).astype(jnp.int32)
    return jnp.where((state.agents == targets) | (roles == NO_ROOM), EAT, step), roles


def _tours(
    distance: Int[Array, "C C"],
    cell: Int[Array, ""],
    dots: Int[Array, "3"],
    is_left: Bool[Array, "3"],
) -> Int[Array, "3"]:
    """Return the steps needed to collect all remaining dots, by which one is collected first."""

    def tour(first: int) -> Int[Array, ""]:
        a, b = (first + 1) % 3, (first + 2) % 3
        to_a, to_b = distance[dots[first], dots[a]], distance[dots[first], dots[b]]
        both = jnp.minimum(to_a, to_b) + distance[dots[a], dots[b]]
        one = jnp.where(is_left[a], to_a, jnp.where(is_left[b], to_b, 0))
        return distance[cell, dots[first]] + jnp.where(is_left[a] & is_left[b], both, one)

    return jnp.stack([tour(first) for first in range(3)])


def _send_help(layouts: tuple[Layout, ...], state: State, roles: Roles) -> Roles:
    """Assign a room that nobody has to the nearest agent whose own is empty, if it has dots."""
    has_dots = state.is_left.any(1)
    is_taken = (jnp.arange(roles.size)[:, None] == roles[None]).any(1)
    room = jnp.argmin(is_taken).astype(jnp.int32)
    is_free = (roles != NO_ROOM) & ~has_dots[roles]
    steps = _distance(layouts)[state.layout][state.agents, _middles(layouts, state.layout)[room]]
    helper = jnp.argmin(jnp.where(is_free, steps, FAR))
    goes = is_free & (jnp.arange(roles.size) == helper) & has_dots[room]
    return jnp.where(goes, room, roles)


def _middles(layouts: tuple[Layout, ...], layout: Int[Array, ""]) -> Int[Array, "N"]:
    """Return the middle cell of each room, from which the whole room is visible."""
    return jnp.asarray(tables(layouts).room_starts, jnp.int32)[layout] + ROOM_CELLS // 2


def _rooms_by_length(layouts: tuple[Layout, ...]) -> Int[Array, "L N"]:
    """Return the rooms of each map, the one with the longest corridor first."""
    lengths = np.array([[arm.length for arm in layout.arms] for layout in layouts])
    return jnp.asarray(np.argsort(-lengths, axis=1, kind="stable"), jnp.int32)


def _distance(layouts: tuple[Layout, ...]) -> Int[Array, "L C C"]:
    return jnp.asarray(_distance_table(layouts), jnp.int32)


@cache
def _distance_table(layouts: tuple[Layout, ...]) -> Int[np.ndarray, "L C C"]:
    """Compute the number of steps between all pairs of cells."""
    result = []
    for moves in tables(layouts).moves:
        steps = np.where(np.eye(len(moves), dtype=bool), 0, FAR)
        while True:
            closer = np.minimum(steps, 1 + steps[moves].min(1))  # [C, 5, C]
            if (closer == steps).all():
                break
            steps = closer
        result.append(steps)
    return np.stack(result)
