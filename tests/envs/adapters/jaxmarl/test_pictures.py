"""Pictures show everything at its place."""

import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jaxmarl import jaxnav, mpe_spread, smax
from ratiosym.envs.adapters.jaxmarl.pictures import BLACK, BLUE, RED, ROBOTS, SIDE, WHITE


def pixel(picture, x, y, low, high):
    """Return the colour at a point of the plane, with y pointing up."""
    column, row = (int((value - low) / (high - low) * SIDE) for value in (x, high + low - y))
    return tuple(picture[row, column].tolist())


@pytest.mark.parametrize(
    ("factory", "settings"), [(smax, ("2s3z",)), (mpe_spread, (3,)), (jaxnav, (8, 2))]
)
def test_pictures_have_one_form(factory, settings, key):
    env = factory(*settings)
    picture = env.draw(env.reset(key)[0])
    assert (picture.shape, picture.dtype) == ((SIDE, SIDE, 3), np.uint8)


def test_agents_and_landmarks(key):
    state, _ = mpe_spread(3).reset(key)
    places = jnp.array(
        [[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [0.0, -1.0], [1.0, -1.0]]
    )
    picture = mpe_spread(3).draw(state._replace(world=state.world.replace(p_pos=places)))
    for x, y in places:
        assert pixel(picture, x, y, -1.6, 1.6) == (BLUE if y > 0 else BLACK)


def test_the_living_are_shown_and_the_dead_are_not(key):
    state, _ = smax("2s3z").reset(key)
    places = jnp.stack([jnp.arange(10) * 3.0 + 2, jnp.full(10, 20.0)], axis=1)
    world = state.world.replace(
        unit_positions=places, unit_alive=state.world.unit_alive.at[2].set(False)
    )
    picture = smax("2s3z").draw(state._replace(world=world))
    colours = [pixel(picture, x, y, 0, 32) for x, y in places]
    assert colours == [BLUE, BLUE, WHITE, BLUE, BLUE, *[RED] * 5]


def test_walls_and_robots(key):
    state, _ = jaxnav(8, 2).reset(key)
    walls = jnp.ones((8, 8), jnp.int32).at[1:-1, 1:-1].set(0).at[2, 5].set(1)
    state = state.replace(
        map_data=walls, pos=jnp.array([[2.5, 2.5], [4.5, 6.5]]), theta=jnp.array([0.0, 3.0])
    )
    picture = jaxnav(8, 2).draw(state.replace(goal=jnp.full((2, 2), 3.5)))
    assert pixel(picture, 5.5, 2.5, 0, 8) == BLACK
    assert pixel(picture, 2.5, 5.5, 0, 8) == WHITE
    assert pixel(picture, 2.4, 2.6, 0, 8) == ROBOTS[0]
    assert pixel(picture, 4.6, 6.6, 0, 8) == ROBOTS[1]
