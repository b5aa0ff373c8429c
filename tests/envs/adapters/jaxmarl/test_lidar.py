"""Our LiDAR matches the library's, replaces it, and is computed once per step."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jaxmarl import jaxnav
from ratiosym.envs.adapters.jaxmarl.lidar import Beams, first_in_wall
from tests.envs.adapters.jaxmarl.test_jaxnav import library_warns

LAST = 6.0
SPACING = 6 / 119


@partial(jax.jit, static_argnums=0)
def readings(library, states):
    """Return the readings of all robots in all states, [N, A, beams]."""

    def of_one(state):
        return jax.vmap(lambda index: library._lidar_sense(index, state).reshape(-1))(
            library.agent_range
        )

    with jax.numpy_rank_promotion("allow"):
        return jax.lax.map(of_one, states, batch_size=64)


@partial(jax.jit, static_argnums=(0, 2))
def random_states(library, key, num_states):
    """Draw random maps with robots in free cells, in every other state three of them near the
    first.
    """

    def one(key, is_crowded):
        start_key, shift_key, near_key = jax.random.split(key, 3)
        state = library.sample_test_case(start_key)
        apart = state.pos + jax.random.uniform(shift_key, state.pos.shape, minval=-0.5, maxval=0.5)
        near = apart[:1] + jax.random.uniform(
            near_key, state.pos.shape, minval=-1.0, maxval=1.0
        ).at[0].set(0.0)
        return state.replace(pos=jnp.where(is_crowded, near, apart))

    with jax.numpy_rank_promotion("allow"):
        return jax.vmap(one)(jax.random.split(key, num_states), jnp.arange(num_states) % 2 == 0)


@library_warns
def test_readings_are_the_librarys(key):
    env = jaxnav(11, 4)
    states = random_states(env.library, key, 256)
    theirs, ours = (
        np.asarray(readings(env.library, states)),
        np.asarray(readings(env.world, states)),
    )
    num_other = (np.abs(ours - theirs) > 1e-5).sum()
    assert num_other <= 5e-5 * theirs.size, f"{num_other} of {theirs.size} differ"
    # The poses cover all cases: near and far walls, robots, and being inside a wall or robot.
    alone = states.replace(pos=states.pos.at[:, 1:].set(jnp.array([1e3, 1e3])))
    sees_robot = np.asarray(readings(env.world, alone))[:, 0] > ours[:, 0] + 1e-5
    assert 0.05 < sees_robot.mean() < 0.5
    assert (ours == 0).any()
    assert (ours > 5.9).any()


@library_warns
def test_beams_that_meet_nothing_read_the_full_range(key):
    env = jaxnav(15, 1)
    state, _ = env.reset(key)
    walls = jnp.ones((15, 15), jnp.int32).at[1:-1, 1:-1].set(0)
    state = state.replace(map_data=walls, pos=jnp.array([[7.5, 7.5]]))
    states = jax.tree.map(lambda leaf: leaf[None], state)
    np.testing.assert_array_equal(readings(env.world, states), np.full((1, 1, 200), LAST))
    np.testing.assert_array_equal(readings(env.library, states), np.full((1, 1, 200), LAST))


@pytest.mark.parametrize(
    ("start", "angle", "distance"),
    [
        ((2.6, 2.7), 0.0, 3.4),  # the cell at (6, 2)
        ((2.6, 2.7), np.pi / 2, 1.3),  # (2, 4)
        ((2.6, 2.7), np.pi, 0.6),  # (1, 2)
        ((2.6, 2.7), -np.pi / 2, 1.7),  # the border
        ((2.7, 2.7), np.pi / 4, 0.3 * 2**0.5),  # (3, 3), through its corner
    ],
)
def test_walls_are_met_at_the_first_sample_behind_their_face(start, angle, distance):
    walls = jnp.ones((8, 8), jnp.int32).at[1:-1, 1:-1].set(0)
    walls = walls.at[2, 6].set(1).at[4, 2].set(1).at[2, 1].set(1).at[3, 3].set(1)
    direction = jnp.array([np.cos(angle)], jnp.float32), jnp.array([np.sin(angle)], jnp.float32)
    first = first_in_wall(Beams(jnp.array(start), *direction), walls, 120, 6.0)
    assert first[0] == np.ceil(distance / SPACING)


def test_a_beam_that_starts_in_a_wall_reads_nothing():
    walls = jnp.ones((5, 5), jnp.int32).at[1:-1, 1:-1].set(0).at[2, 3].set(1)
    angles = jnp.linspace(-3.0, 3.0, 16)
    beams = Beams(jnp.array([3.4, 2.5]), jnp.cos(angles), jnp.sin(angles))
    np.testing.assert_array_equal(first_in_wall(beams, walls, 120, 6.0), np.zeros(16))


def equations(jaxpr):
    """Yield all equations of a jaxpr, including nested ones."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def sizes_and_turns(step, *arguments):
    """Return the largest array of a step, and how often the beams' cosines are computed."""
    with jax.numpy_rank_promotion("allow"):
        all_equations = list(equations(jax.make_jaxpr(step)(*arguments).jaxpr))
    sizes = [output.aval.size for equation in all_equations for output in equation.outvars]
    is_turn = [
        e.primitive.name == "cos" and e.outvars[0].aval.size >= 4 * 200 for e in all_equations
    ]
    return max(sizes), sum(is_turn)


@library_warns
def test_the_lidar_is_computed_once_and_the_librarys_never(key):
    env = jaxnav(11, 4)
    state, _ = jax.eval_shape(env.reset, key)
    action = jnp.zeros((4, 2))
    largest, num_turns = sizes_and_turns(env.step, key, state, action)
    assert largest < 200 * 120
    assert num_turns == 1
    theirs = dict.fromkeys(env.library.agents, action[0])
    largest, _ = sizes_and_turns(env.library.step_env, key, state, theirs)
    assert largest >= 4 * 200 * 120
