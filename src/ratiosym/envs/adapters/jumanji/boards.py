"""Connector's boards and moves with the library's numbers, on whole boards at once.

The library looks at one cell of one agent at a time. Under ``vmap`` that becomes hundreds of small
loops, in each of the programs of a run; compiling them took longer than compiling the learner.

Cells have the library's codes: 0 empty; 3 i + 1 path, 3 i + 2 position, 3 i + 3 target of agent i.
A board is flat, row by row, while it is generated.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ratiosym.types import Key, Keys

NOWHERE = -1  # instead of a cell
# Row and column of a move, by action: stay, up, right, down, left.
MOVES = np.array([(0, 0), (-1, 0), (0, 1), (1, 0), (0, -1)], np.int32)
REWARD_CONNECTED, REWARD_STEP = 1.0, -0.03


class Agents(NamedTuple):
    """All agents, [A]; places are rows and columns."""

    id: Int[Array, "A"]
    start: Int[Array, "A 2"]
    target: Int[Array, "A 2"]
    position: Int[Array, "A 2"]

    @property
    def connected(self) -> Bool[Array, "*batch A"]:
        """Whether each agent is at its target."""
        return (self.position == self.target).all(-1)


class Board(NamedTuple):
    """State of an episode, with the names of the library's."""

    grid: Int[Array, "s s"]
    step_count: Int[Array, ""]
    agents: Agents
    key: Key  # as in the library; nothing uses it
    action_mask: Bool[Array, "A 5"]


class Walk(NamedTuple):
    """Random walks in progress."""

    key: Key
    grid: Int[Array, "C"]
    cells: Int[Array, "A"]  # where each walk has arrived
    options: Int[Array, "A 4"]  # where it can continue, or NOWHERE


def generate(key: Key, size: int, num_agents: int) -> Board:
    """Draw a board that can be solved: targets are the ends of random walks that do not cross.

    The result is that of the library's ``LegacyRandomWalkGenerator``, also where an agent has no
    room for a first move: its walk then begins in the last cell of the board.
    """
    key, board_key = jax.random.split(key)
    place_key, walk_key = jax.random.split(board_key)
    grid, starts, cells = _place(place_key, size, num_agents)
    walk = Walk(walk_key, grid, cells, _options(grid, cells, size))
    walk = jax.lax.while_loop(lambda w: (w.options != NOWHERE).any(), _continue_walks, walk)

    ids = jnp.arange(num_agents)
    start, target = (jnp.stack(jnp.divmod(x, size), axis=1) for x in (starts, walk.cells))
    agents = Agents(ids, start, target, position=start)
    grid = jnp.zeros_like(grid).at[starts].set(3 * ids + 2).at[walk.cells].set(3 * ids + 3)
    grid = grid.reshape(size, size)
    return Board(grid, jnp.zeros((), jnp.int32), agents, key, legal_actions(agents, grid))


def move(board: Board, action: Int[Array, "A"]) -> tuple[Board, Float[Array, "A"]]:
    """Move all agents at once; also return the reward of each.

    If two enter the same cell, the one with the higher number moves and the other stays.
    """
    agents, size = board.agents, board.grid.shape[0]
    is_legal = jnp.take_along_axis(board.action_mask, action[:, None], axis=1)
    position = jnp.where(is_legal, agents.position + jnp.asarray(MOVES)[action], agents.position)

    cells = position[:, 0] * size + position[:, 1]
    is_later = agents.id[None, :] > agents.id[:, None]
    collides = ((cells[:, None] == cells[None, :]) & is_later).any(1)
    position = jnp.where(collides[:, None], agents.position, position)
    moves = (position != agents.position).any(-1)

    # A position becomes a path, and a free cell or a target becomes a position. Added, not set: on
    # the few boards where two agents share a cell, the library's numbers come out.
    before, now = (tuple(place.T) for place in (agents.position, position))
    entered = board.grid[now]
    is_target = (entered > 0) & (entered % 3 == 0)
    head = jnp.where(is_target, -1, 3 * agents.id + 2)
    grid = board.grid.at[before].add(-moves.astype(jnp.int32)).at[now].add(head * moves)

    after = agents._replace(position=position)
    was_apart = ~agents.connected
    reward = REWARD_CONNECTED * (was_apart & after.connected).astype(jnp.float32)
    reward = reward + REWARD_STEP * was_apart.astype(jnp.float32)
    state = Board(grid, board.step_count + 1, after, board.key, legal_actions(after, grid))
    return state, reward


def legal_actions(agents: Agents, grid: Int[Array, "s s"]) -> Bool[Array, "A 5"]:
    """Agents may stay, or move into a free cell or their own target until they have reached it."""
    size = grid.shape[0]
    places = agents.position[:, None] + jnp.asarray(MOVES)[None]  # [A, 5, 2]
    is_inside = ((places >= 0) & (places < size)).all(-1)
    value = grid[jnp.clip(places[..., 0], 0, size - 1), jnp.clip(places[..., 1], 0, size - 1)]
    is_open = (value == 0) | (value == 3 * agents.id[:, None] + 3)
    can_move = is_inside & is_open & ~agents.connected[:, None]
    return can_move | (jnp.arange(len(MOVES)) == 0)[None]


def _place(
    key: Key, size: int, num_agents: int
) -> tuple[Int[Array, "C"], Int[Array, "A"], Int[Array, "A"]]:
    """Draw start and first move of every agent; return the board and both."""

    def place(
        before: tuple[Key, Int[Array, "C"]], number: Int[Array, ""]
    ) -> tuple[tuple[Key, Int[Array, "C"]], tuple[Int[Array, ""], Int[Array, ""]]]:
        key, grid = before
        key = jax.random.split(key)[0]
        start = _choose(key, grid == 0)
        grid = grid.at[start].set(3 * number + 3)
        options = _options(grid, start[None], size)[0]
        first = options[_choose(key, options != NOWHERE)]  # the library uses the key twice
        return (key, grid.at[first].set(3 * number + 2)), (start, first)

    empty = jnp.zeros(size * size, jnp.int32)
    (_, grid), (starts, cells) = jax.lax.scan(place, (key, empty), jnp.arange(num_agents))
    return grid, starts, cells


def _continue_walks(walk: Walk) -> Walk:
    """Continue every walk by one cell, where it can."""
    num_agents, num_cells = walk.cells.shape[0], walk.grid.shape[0]
    key, next_key = jax.random.split(walk.key)
    keys: Keys = jax.random.split(key, num_agents)
    index = jax.vmap(_choose)(keys, walk.options != NOWHERE)
    chosen = jnp.take_along_axis(walk.options, index[:, None], axis=1)  # [A, 1]

    # Each agent's own cells after its move. Where two meet, the higher number covers the other,
    # which then stays where it was.
    number, cells = jnp.arange(num_agents)[:, None], jnp.arange(num_cells)[None]
    head, grid = 3 * number + 2, walk.grid[None]
    moves = chosen != NOWHERE
    is_here = cells == walk.cells[:, None] % num_cells
    own = jnp.where(_owner(grid) == number, grid, 0)  # [A, C]
    own = jnp.where(moves & (cells == chosen), head, own)
    own = jnp.where(moves & is_here, head - 1, own)
    joined = own.max(0)
    is_covered = ~(joined[None] == head).any(1, keepdims=True)
    joined = joined + ((grid == head) & is_covered).sum(0, dtype=jnp.int32)
    arrived = jnp.where(moves & ~is_covered, chosen, walk.cells[:, None])[:, 0]
    size = round(num_cells**0.5)
    return Walk(next_key, joined, arrived, _options(joined, arrived, size))


def _options(grid: Int[Array, "C"], cells: Int[Array, "A"], size: int) -> Int[Array, "A 4"]:
    """Return the free neighbours of each cell that touch the cell's own path only once."""
    table = jnp.asarray(neighbours(size))
    near = table[cells]  # [A, 4]
    around = table[near]  # [A, 4, 4]
    owner = _owner(grid[cells])[:, None, None]
    num_own = ((around != NOWHERE) & (_owner(grid[around]) == owner)).sum(-1)
    return jnp.where((near != NOWHERE) & (grid[near] == 0) & (num_own <= 1), near, NOWHERE)


def _owner(code: Int[Array, "*n"]) -> Int[Array, "*n"]:
    """Return the number of the agent that a code belongs to, -1 for an empty cell."""
    return jax.lax.div(code + 2, 3) - 1


def _choose(key: Key, is_allowed: Bool[Array, "n"]) -> Int[Array, ""]:
    """Draw one of the allowed indices as ``jax.random.choice`` does, or 0 if there is none."""
    below = jnp.cumsum(is_allowed.astype(jnp.float32))
    draw = below[-1] * (1 - jax.random.uniform(key))
    return (below < draw).sum(dtype=jnp.int32)


@cache
def neighbours(size: int) -> np.ndarray:
    """Return the cells above, below, left and right of each, int32 ``[C + 1, 4]``.

    The last row is that of ``NOWHERE``, which index -1 selects: for the library, that is a cell
    above the last one of the first row.
    """
    table = []
    for cell in (*range(size * size), NOWHERE):
        row, column = divmod(cell, size)
        places = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
        table.append(
            [r * size + c if 0 <= r < size and 0 <= c < size else NOWHERE for r, c in places]
        )
    return np.array(table, np.int32)
