"""Pictures in plain NumPy: states of an episode, and a contact sheet of all maps."""

from pathlib import Path

import numpy as np
from jaxtyping import Bool, UInt8

from ratiosym.envs.paxmen.layouts import (
    LAYOUTS,
    VIEW,
    Cell,
    Layout,
    corridor_cells,
    hub_cells,
    room_cells,
    tables,
)
from ratiosym.types import State

Picture = UInt8[np.ndarray, "H W 3"]

CELL = 12  # pixels per side
SHEET_CELL = 4
WALL, FREE, DOT = (38, 42, 51), (236, 234, 226), (178, 134, 0)
HUB, CORRIDOR, ROOM = (236, 234, 226), (160, 190, 214), (242, 196, 120)  # on the sheet of maps
# Okabe and Ito's palette, suitable for colour-blind readers.
AGENTS = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (230, 159, 0),
)
SHADE = 0.25  # weight of an agent's colour on the cells it sees


def draw(layouts: tuple[Layout, ...], state: State) -> Picture:
    """Draw walls, dots and agents, and shade what each agent sees."""
    number = int(state.layout)
    positions = tables(layouts).positions[number]
    picture = _ground(layouts[number], positions)
    seats: dict[Cell, list[int]] = {}
    for agent, cell in enumerate(np.asarray(state.agents)):
        row, column = positions[cell]
        reach = VIEW // 2
        _shade(picture, int(row) - reach, int(column) - reach, AGENTS[agent % len(AGENTS)])
        seats.setdefault((int(row), int(column)), []).append(agent)
    for row, column in positions[np.asarray(state.dots)[np.asarray(state.is_left)]]:
        _square(picture, row, column)[_disc(0.28)] = DOT
    for (row, column), agents in seats.items():
        colours = [AGENTS[agent % len(AGENTS)] for agent in agents]
        # agents in the same cell share it as stripes
        stripes = np.array(colours, np.uint8)[np.arange(CELL) * len(colours) // CELL]
        cell = _square(picture, row, column)
        cell[_disc(0.45)] = np.broadcast_to(stripes, (CELL, CELL, 3))[_disc(0.45)]
    return picture


def contact_sheet() -> Picture:
    """Draw the twelve training maps, one row per task, with hub, corridors and rooms coloured."""
    side = max(layout.size for layouts in LAYOUTS.values() for layout in layouts) + 1
    rows = [
        np.concatenate([_map(layout, side) for layout in layouts], axis=1)
        for layouts in LAYOUTS.values()
    ]
    return np.concatenate(rows).repeat(SHEET_CELL, 0).repeat(SHEET_CELL, 1)


def save_contact_sheet(path: Path) -> None:
    """Save the contact sheet as a PNG."""
    from PIL import Image

    Image.fromarray(contact_sheet()).quantize(8).save(path, optimize=True)


def _map(layout: Layout, side: int) -> Picture:
    """Draw a map with one pixel per cell, centred in a white square."""
    picture = np.full((side, side, 3), 255, np.uint8)
    margin = (side - layout.size) // 2
    grid = picture[margin : margin + layout.size, margin : margin + layout.size]
    grid[:] = WALL
    grid[tuple(np.transpose(hub_cells(layout)))] = HUB
    for arm in layout.arms:
        grid[tuple(np.transpose(corridor_cells(layout, arm)))] = CORRIDOR
        grid[tuple(np.transpose(room_cells(layout, arm)))] = ROOM
    return picture


def _ground(layout: Layout, positions: np.ndarray) -> Picture:
    cells = np.full((layout.size, layout.size, 3), WALL, np.uint8)
    cells[tuple(positions.T)] = FREE
    return cells.repeat(CELL, 0).repeat(CELL, 1)


def _shade(picture: Picture, row: int, column: int, colour: tuple[int, int, int]) -> None:
    seen = _square(picture, row, column, VIEW)
    seen[:] = np.round((1 - SHADE) * seen + SHADE * np.array(colour))


def _square(
    picture: Picture, row: int, column: int, num_cells: int = 1
) -> UInt8[np.ndarray, "h w 3"]:
    """Return a view of the pixels of some cells, to paint on."""
    return picture[
        CELL * row : CELL * (row + num_cells), CELL * column : CELL * (column + num_cells)
    ]


def _disc(radius: float) -> Bool[np.ndarray, "cell cell"]:
    """Return the pixels of a cell within a radius of its middle, as a fraction of its side."""
    offset = np.arange(CELL) - (CELL - 1) / 2
    return np.hypot(offset[:, None], offset[None]) <= radius * CELL
