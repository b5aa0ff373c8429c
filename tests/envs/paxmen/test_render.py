"""Pictures show all parts of a state."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from ratiosym.envs.paxmen import paxmen
from ratiosym.envs.paxmen.layouts import tables
from ratiosym.envs.paxmen.render import (
    AGENTS,
    CELL,
    DOT,
    FREE,
    WALL,
    contact_sheet,
    save_contact_sheet,
)

SHEET = Path(__file__).parents[3] / "docs" / "images" / "paxmen-layouts.png"


def middle(picture, position):
    row, column = CELL * np.asarray(position) + CELL // 2
    return tuple(int(x) for x in picture[row, column])


def test_a_moment():
    env = paxmen(4)
    state, _ = env.reset(jax.random.key(0))
    state = state._replace(
        agents=jnp.asarray([0, 8, 8, 4], jnp.int32), is_left=state.is_left.at[0, 0].set(False)
    )
    picture = env.draw(state)
    assert picture.shape == (41 * CELL, 41 * CELL, 3)
    assert picture.dtype == np.uint8
    at = tables(env.layouts).positions[int(state.layout)]
    assert middle(picture, at[0]) == AGENTS[0]
    assert middle(picture, at[4]) == AGENTS[3]
    assert middle(picture, at[state.dots[0, 0]]) == FREE  # eaten
    assert middle(picture, at[state.dots[0, 1]]) == DOT
    assert middle(picture, (0, 0)) == WALL
    row, column = CELL * at[8]
    shared = picture[row : row + CELL, column : column + CELL].reshape(-1, 3)
    assert {AGENTS[1], AGENTS[2]} <= {tuple(int(x) for x in pixel) for pixel in shared}
    corner = at[0] - 2  # a wall that only agent 0 sees
    assert middle(picture, corner) != WALL
    assert middle(picture, corner - 1) == WALL


def test_drawing_changes_with_the_state_alone():
    env = paxmen(6)
    state, _ = env.reset(jax.random.key(1))
    np.testing.assert_array_equal(env.draw(state), env.draw(jax.device_get(state)))
    moved = state._replace(agents=state.agents.at[0].set(100))
    assert (env.draw(moved) != env.draw(state)).any()


def test_contact_sheet(tmp_path):
    sheet = contact_sheet()
    assert sheet.shape == (3 * 46 * 4, 4 * 46 * 4, 3)
    num_free = sum((sheet[:, :, 0] == colour).sum() for colour in (236, 160, 242)) / 16
    assert num_free == 4 * (101 + 140 + 187)
    save_contact_sheet(tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), sheet)
    assert (tmp_path / "sheet.png").stat().st_size < 10_000


def test_the_sheet_in_the_documents_is_the_one_drawn():
    with Image.open(SHEET) as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), contact_sheet())
