"""JaxNav's adapter matches the library, and distinguishes termination from truncation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jaxmarl import jaxnav
from ratiosym.envs.adapters.jaxmarl.jaxnav import can_reach
from ratiosym.types import Continuous
from tests.envs.adapters.jaxmarl.episodes import (
    episode_length,
    joined,
    library_rollout,
    play,
    same_types,
)

NUM_BEAMS = 200

# The library's own LiDAR sets a boolean to 1.
library_warns = pytest.mark.filterwarnings(
    "ignore:scatter inputs have incompatible types:FutureWarning"
)


@library_warns
@pytest.mark.parametrize(
    ("size", "num_agents", "num_episodes"),
    [
        (8, 2, 1),
        pytest.param(8, 2, 3, marks=pytest.mark.slow),
        pytest.param(9, 3, 3, marks=pytest.mark.slow),
        pytest.param(11, 4, 3, marks=pytest.mark.slow),
    ],
)
def test_episodes_are_the_librarys(size, num_agents, num_episodes):
    env = jaxnav(size, num_agents)
    num_readings = num_other = 0
    for seed in range(num_episodes):
        key = jax.random.key(seed)
        first, actions, steps = play(env, key, env.spec.time_limit)
        states, local, rewards, ends = library_rollout(env.library, key, actions)
        length = episode_length(steps)
        assert length > 50
        ours = joined(first, steps.observation, length)
        local = local[: length + 1]
        close(ours.local[..., NUM_BEAMS:], local[..., NUM_BEAMS:])
        is_other = np.abs(ours.local - local)[..., :NUM_BEAMS] > 1e-6
        num_readings, num_other = num_readings + is_other.size, num_other + is_other.sum()
        close(steps.reward[:length], rewards[:length])
        np.testing.assert_array_equal((steps.terminated | steps.truncated)[:length], ends[:length])
        close(ours.state, library_rows(env.library, states)[: length + 1])
    assert (
        num_other <= 1e-4 * num_readings
    )  # rounding where a sample lies on a grid line: see test_lidar.py


def library_rows(library, states):
    """Return the library's world state, [T + 1, ...], without agent id and observation."""
    with jax.numpy_rank_promotion("allow"):
        rows = jax.jit(jax.vmap(library.get_world_state))(states)
    return rows[:, 0, library.num_agents : -(NUM_BEAMS + 5)]


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "num_agents", "state_size"), [(11, 4, 110), (9, 3, 71), (8, 2, 51)]
)
def test_sizes(size, num_agents, state_size):
    spec = jaxnav(size, num_agents).spec
    assert spec.num_agents == num_agents
    assert spec.observation_size == 205
    assert spec.state_size == state_size
    assert spec.action == Continuous(2)
    assert spec.time_limit == 500


def test_settings_are_those_of_the_environments_paper():
    env = jaxnav(11, 4)
    for library in (env.library, env.world):
        rewards = (
            library.goal_rew,
            library.coll_rew,
            library.weight_g,
            library.dt_rew,
            library.lidar_rew,
        )
        assert rewards == (4, -4, 0.25, -0.01, -0.1)
        assert (library.goal_radius, library.lidar_thresh, library.rad, library.rew_lambda) == (
            0.3,
            0.1,
            0.3,
            0.5,
        )
        assert (library.max_v, library.max_w, library.lidar_num_beams, library.lidar_max_range) == (
            1,
            0.6,
            200,
            6,
        )
        assert (library.map_obj.fill, library.map_obj.sample_test_case_type.name) == (0.6, "GRID")


@pytest.fixture
def start(key):
    """An open 8 x 8 field with robots at (2, 2) and (6, 6) facing goals 3 m and 1 m to the east."""
    state, _ = jaxnav(8, 2).reset(key)
    walls = jnp.ones((8, 8), jnp.int32).at[1:-1, 1:-1].set(0)
    positions, goals = jnp.array([[2.0, 2.0], [5.0, 6.0]]), jnp.array([[5.0, 2.0], [6.0, 6.0]])
    return state.replace(map_data=walls, pos=positions, theta=jnp.zeros(2), goal=goals)


@jax.jit
def step(state, action=((0.0, 0.0), (0.0, 0.0))):
    return jaxnav(8, 2).step(jax.random.key(0), state, jnp.array(action))


def flags(*values):
    return jnp.array(values)


def count(number):
    return jnp.asarray(number, jnp.int32)


def test_rewards_are_half_ones_own_and_half_the_teams(start):
    moving = start.replace(vel=jnp.array([[1.0, 0.0], [0.0, 0.0]]))
    _, result = step(moving, ((1.0, 0.0), (0.0, 0.0)))
    own = np.array([0.25 * 0.1 - 0.01, -0.01])  # the first moves 0.1 m closer
    close(result.reward, 0.5 * own + 0.5 * own.mean())


def test_the_goal_ends_it_when_all_have_finished(start):
    at_goal = start.replace(pos=start.goal - jnp.array([[0.0, 0.0], [0.31, 0.0]]))
    state, result = step(at_goal)
    assert not result.terminated
    assert {name: float(value) for name, value in result.metrics.items()} == {
        "success": 0.5,
        "collision": 0.0,
        "timeout": 0.5,
        "reachable": 1.0,
    }
    np.testing.assert_array_equal(
        result.observation.active, [True, True]
    )  # robots at their goal keep driving
    close(result.reward, [0.5 * 3.99 + 0.5 * 1.99, 0.5 * -0.01 + 0.5 * 1.99])
    _, result = step(state.replace(pos=state.goal))
    assert result.terminated
    assert not result.truncated
    assert result.metrics["success"] == 1


def test_robots_that_collide_stop_and_are_not_active(start):
    at_wall = start.replace(pos=start.pos.at[0].set(jnp.array([1.2, 2.0])))
    state, result = step(at_wall)
    np.testing.assert_array_equal(result.observation.active, [False, True])
    assert result.metrics["collision"] == 0.5
    own = np.array([-4 - 0.01 - 0.1, -0.01])  # its LiDAR also reads less than 0.4 m
    close(result.reward, 0.5 * own + 0.5 * own.mean())
    later, result = step(state, ((1.0, 0.0), (1.0, 0.0)))
    np.testing.assert_array_equal(later.pos[0], state.pos[0])
    assert later.pos[1, 0] > state.pos[1, 0]
    assert not result.terminated


def test_the_clock_truncates_at_step_500_and_not_before(start):
    state, result = step(start.replace(step=count(498)))
    assert not (result.terminated | result.truncated)
    _, result = step(state)
    assert result.truncated
    assert not result.terminated
    assert result.metrics["timeout"] == 1
    assert not result.observation.active.any()


def test_robots_that_all_finish_at_the_last_step_terminate(start):
    _, result = step(start.replace(step=count(499), pos=start.goal))
    assert result.terminated
    assert not result.truncated


def test_actions_are_passed_as_they_are_unless_stretched(start, key):
    action = jnp.array([[-0.9, 0.05], [0.06, -0.9]])
    state, _ = jaxnav(8, 2).step(key, start, action)
    close(state.vel, [[0.0, 0.05], [0.06, -0.1]])  # each changes by 0.1 at most
    fast = start.replace(vel=jnp.array([[0.0, 0.03], [0.5, -0.6]]))
    state, _ = jaxnav(8, 2, affine_actions=True).step(
        key, fast, jnp.array([[-0.9, 0.1], [0.02, -1.0]])
    )
    close(state.vel, [[0.05, 0.06], [0.51, -0.6]])


def test_starts_are_in_the_middle_of_free_cells(key):
    states, _ = jax.vmap(jaxnav(11, 4).reset)(jax.random.split(key, 64))
    for state_places in (states.pos, states.goal):
        places = np.asarray(state_places)
        np.testing.assert_array_equal(places % 1, 0.5)
        cells = places.astype(int)
        for walls, (x, y) in zip(
            np.asarray(states.map_data), cells.transpose(0, 2, 1), strict=True
        ):
            assert not walls[y, x].any()
            assert len(set(zip(x, y, strict=True))) == 4
    share = np.asarray(states.map_data)[:, 1:-1, 1:-1].mean()
    assert 0.2 < share < 0.4  # uniform between 0 and 0.6


def test_goals_behind_walls_are_not_reachable(start):
    """A wall separates the first robot from its goal: closed, with a gap, or with a corner gap."""
    wall = start.map_data.at[:, 3].set(1)
    gap = wall.at[6, 3].set(0)
    corner = gap.at[6, 4].set(1)
    for walls, share in ((wall, 0.5), (gap, 1.0), (corner, 0.5)):
        _, result = step(start.replace(map_data=walls))
        assert result.metrics["reachable"] == share


def test_three_goals_in_four_are_reachable(key):
    """The fraction among the task's own starts, compared to a plain search."""
    states, _ = jax.jit(jax.vmap(jaxnav(8, 2).reset))(jax.random.split(key, 512))
    ours = np.asarray(jax.jit(jax.vmap(can_reach))(states.map_data, states.pos, states.goal))
    levels = zip(*(np.asarray(x) for x in (states.map_data, states.pos, states.goal)), strict=True)
    expected = [
        [leads(walls, place, goal) for place, goal in zip(places, goals, strict=True)]
        for walls, places, goals in levels
    ]
    np.testing.assert_array_equal(ours, expected)
    assert 0.72 < ours.mean() < 0.83


def leads(walls, place, goal):
    todo, seen = [tuple(place.astype(int))], set()
    while todo:
        x, y = cell = todo.pop()
        if cell not in seen and not walls[y, x]:
            seen.add(cell)
            todo += [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
    return tuple(goal.astype(int)) in seen


@pytest.mark.parametrize("affine_actions", [False, True])
def test_steps_compile_once(affine_actions, key):
    same_types(jaxnav(8, 2, affine_actions), key)
