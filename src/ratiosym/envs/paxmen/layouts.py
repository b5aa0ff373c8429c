"""Maps: their layouts, their validation, and the constant tables that the environment uses.

A map has a square hub in the middle of a square grid. Each arm leaving it consists of a straight
corridor one cell wide and a room 5 deep and 3 wide, centred on the corridor. Everything else is
wall.
"""

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from ratiosym.errors import InputError

DEPTH, WIDTH = 5, 3  # of a room
ROOM_CELLS = DEPTH * WIDTH
DOTS_PER_ROOM = 3
LONGEST = 12  # maximum length of a corridor
VIEW = 5  # side of the square that an agent sees
BORDER = LONGEST + DEPTH + VIEW // 2  # from grid edge to hub, so that no window leaves the grid
SIDES = {
    "N": (-1, 0),
    "S": (1, 0),
    "E": (0, 1),
    "W": (0, -1),
}  # row and column of one step away from the hub
MOVES = ((-1, 0), (1, 0), (0, 1), (0, -1), (0, 0))  # by action: up, down, right, left, eat
EAT = 4


class Arm(NamedTuple):
    """A corridor and its room."""

    side: str  # of the hub: N, S, E or W
    offset: int  # from the middle of that side; negative is north or west
    length: int  # of the corridor


class Layout(NamedTuple):
    """One map."""

    hub: int  # cells per side, odd
    arms: tuple[Arm, ...]

    @property
    def size(self) -> int:
        """Cells per side of the whole grid."""
        return self.hub + 2 * BORDER


def _crosses(lengths: tuple[str, ...]) -> tuple[Layout, ...]:
    """Build maps with one arm per side, from strings of lengths in the order N, S, E, W."""
    return tuple(
        Layout(3, tuple(Arm(side, 0, int(n)) for side, n in zip(SIDES, word.split(), strict=True)))
        for word in lengths
    )


def _doubled(hub: int, doubled: dict[str, tuple[int, int]], others: dict[str, int]) -> Layout:
    """Build a map with two arms on each doubled side, at offsets -2 and +2, and one elsewhere."""
    pairs = [
        Arm(side, o, n)
        for side, lengths in doubled.items()
        for o, n in zip((-2, 2), lengths, strict=True)
    ]
    return Layout(hub, (*pairs, *(Arm(side, 0, others[side]) for side in SIDES if side in others)))


def _five(
    side: str, pair: tuple[int, int] = (12, 4), others: tuple[int, int, int] = (8, 8, 8)
) -> Layout:
    return _doubled(
        5, {side: pair}, dict(zip((s for s in SIDES if s != side), others, strict=True))
    )


def _six(sides: str, pair: tuple[int, int] = (12, 8)) -> Layout:
    return _doubled(7, dict.fromkeys(sides, pair), {side: 4 for side in SIDES if side not in sides})


# Four maps per number of agents, of which each episode draws one.
LAYOUTS: dict[int, tuple[Layout, ...]] = {
    4: _crosses(("12 4 8 8", "4 12 8 8", "8 8 12 4", "8 8 4 12")),
    5: (_five("N"), _five("S"), _five("E"), _five("W")),
    6: (_six("NS"), _six("EW"), _six("NE"), _six("SW")),
}

# Four more maps of the same size, with the same corridors on other sides of the hub.
HELD_OUT: dict[int, tuple[Layout, ...]] = {
    4: _crosses(("12 8 4 8", "8 12 8 4", "8 4 12 8", "4 8 8 12")),
    5: tuple(_five(side, (8, 8), (12, 8, 4)) for side in SIDES),
    6: (_six("NS", (8, 12)), _six("EW", (8, 12)), _six("SE"), _six("NW")),
}

Cell = tuple[int, int]  # row, column


def hub_cells(layout: Layout) -> list[Cell]:
    """Return the hub's cells, row by row."""
    inside = range(BORDER, BORDER + layout.hub)
    return [(row, column) for row in inside for column in inside]


def corridor_cells(layout: Layout, arm: Arm) -> list[Cell]:
    """Return a corridor's cells, row by row."""
    return _strip(layout, arm, range(1, arm.length + 1), 0)


def room_cells(layout: Layout, arm: Arm) -> list[Cell]:
    """Return a room's cells, row by row."""
    return _strip(layout, arm, range(arm.length + 1, arm.length + DEPTH + 1), WIDTH // 2)


def _strip(layout: Layout, arm: Arm, distances: range, reach: int) -> list[Cell]:
    """Return cells at these distances from the hub, up to ``reach`` beside the centre line."""
    step, middle = np.array(SIDES[arm.side]), layout.size // 2
    beside = np.abs(step[::-1])  # east for arms to the north and south, south for the others
    edge = middle + layout.hub // 2 * step + arm.offset * beside
    cells = [edge + d * step + b * beside for d in distances for b in range(-reach, reach + 1)]
    return sorted((int(row), int(column)) for row, column in cells)


def free_cells(layout: Layout) -> list[Cell]:
    """Return the free cells in the critic's order: hub, then each arm's corridor and room.

    Each part is listed row by row on the grid, whichever way the arm points.
    """
    cells = hub_cells(layout)
    for arm in layout.arms:
        cells += corridor_cells(layout, arm) + room_cells(layout, arm)
    return cells


def walls(layout: Layout) -> Bool[np.ndarray, "size size"]:
    """Return the grid's walls."""
    grid = np.ones((layout.size, layout.size), bool)
    grid[tuple(np.transpose(free_cells(layout)))] = False
    return grid


class Tables(NamedTuple):
    """Constants of a task's maps. Cells are indices of the free cells, in the critic's order.

    There are L maps, C free cells and N arms. An arm's cells are contiguous, the corridor's before
    the room's.
    """

    positions: Int[np.ndarray, "L C 2"]  # row and column on the grid
    moves: Int[np.ndarray, "L C 5"]  # cell that each action leads to
    windows: Int[np.ndarray, "L C 25"]  # cells seen from each cell, row by row; C for wall
    corridor_starts: Int[np.ndarray, "L N"]  # first cell of each corridor
    room_starts: Int[np.ndarray, "L N"]  # first cell of each room


@cache
def tables(layouts: tuple[Layout, ...]) -> Tables:
    """Build the tables of a task's maps."""
    validate(layouts)
    return Tables(*(np.stack(parts) for parts in zip(*map(_tables_of, layouts), strict=True)))


def _tables_of(layout: Layout) -> Tables:
    cells = free_cells(layout)
    index = {cell: i for i, cell in enumerate(cells)}
    reach = range(-(VIEW // 2), VIEW // 2 + 1)
    return Tables(
        np.array(cells),
        np.array(
            [[index.get((r + y, c + x), i) for y, x in MOVES] for i, (r, c) in enumerate(cells)]
        ),
        np.array(
            [
                [index.get((r + y, c + x), len(cells)) for y in reach for x in reach]
                for r, c in cells
            ]
        ),
        np.array([index[corridor_cells(layout, arm)[0]] for arm in layout.arms]),
        np.array([index[room_cells(layout, arm)[0]] for arm in layout.arms]),
    )


# All ways to put three dots on a room's cells: [455, 3].
DOT_SETS = np.array(list(combinations(range(ROOM_CELLS), DOTS_PER_ROOM)))


def validate(layouts: tuple[Layout, ...]) -> None:
    """Raise ``InputError`` unless the maps form a task: each one valid, all of the same size."""
    if not layouts:
        raise InputError("There are no layouts; a task needs at least one.")
    for number, layout in enumerate(layouts):
        _validate_sizes(f"Layout {number}", layout)
        _validate_ways(f"Layout {number}", layout)
    first = layouts[0]
    for number, layout in enumerate(layouts):
        for what, size, expected in (
            ("a hub of side", layout.hub, first.hub),
            ("a number of arms of", len(layout.arms), len(first.arms)),
            ("a number of free cells of", len(free_cells(layout)), len(free_cells(first))),
        ):
            if size != expected:
                raise InputError(
                    f"Layout {number} has {what} {size}, layout 0 {expected}; a task's maps must "
                    f"agree."
                )


def _validate_sizes(name: str, layout: Layout) -> None:
    hub, arms = layout
    if not isinstance(hub, int) or hub < 1 or hub % 2 == 0:
        raise InputError(
            f"{name}: its hub has the side {hub!r}; it must be an odd int of at least 1."
        )
    if not 1 <= len(arms) <= hub**2:
        raise InputError(
            f"{name}: it has {len(arms)} arms; at least 1, and at most the {hub**2} cells of its "
            f"hub."
        )
    for arm in arms:
        if arm.side not in SIDES:
            raise InputError(f"{name}: {arm} has an unknown side; choose from {', '.join(SIDES)}.")
        if not isinstance(arm.offset, int) or abs(arm.offset) > hub // 2:
            raise InputError(
                f"{name}: {arm} does not touch the hub; offset must be an int of at most "
                f"+-{hub // 2}."
            )
        if not isinstance(arm.length, int) or not 1 <= arm.length <= LONGEST:
            raise InputError(
                f"{name}: {arm} has a corridor of {arm.length!r}; it must be an int from 1 to "
                f"{LONGEST}."
            )


def _validate_ways(name: str, layout: Layout) -> None:
    """Check that arms are connected only through the hub, by one door each."""
    owner: dict[Cell, Arm | str] = dict.fromkeys(hub_cells(layout), "the hub")
    for arm in layout.arms:
        corridor, room = corridor_cells(layout, arm), room_cells(layout, arm)
        door = corridor[-1 if arm.side in "NW" else 0]
        for row, column in corridor + room:
            around = [(row + y, column + x) for y, x in MOVES]  # including the cell itself
            met = {owner[cell] for cell in around if cell in owner} - (
                {"the hub"} if (row, column) == door else set()
            )
            if met:
                raise InputError(
                    f"{name}: {arm} meets {met.pop()} at row {row}, column {column}; keep a wall "
                    f"between."
                )
        owner |= dict.fromkeys(corridor + room, arm)


for _layouts in (*LAYOUTS.values(), *HELD_OUT.values()):
    validate(_layouts)
