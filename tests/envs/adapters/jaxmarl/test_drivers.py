"""JaxNav's scripted teams: where they turn, when they drive, and how many arrive."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jaxmarl import jaxnav
from ratiosym.envs.adapters.jaxmarl.drivers import View, clear, direct, read
from ratiosym.learning.evaluate import run_episodes

LIBRARY = jaxnav(8, 2).world
BEHIND, LEFT = 0, 149  # beams: 200 all around, counted against the clock


def view(bearing=0.0, distance=3.0, walls=None):
    """One robot in the open, or with walls: readings by angle off the nose."""
    angles = read(LIBRARY, jnp.zeros((1, 205))).angles
    readings = jnp.full(200, 6.0) if walls is None else walls(angles)
    return View(readings[None], angles, jnp.array([distance]), jnp.array([bearing]))


def wall_ahead(angles):
    """A straight wall 0.8 m ahead, on both sides without end."""
    cos = jnp.cos(angles)
    return jnp.where(cos > 0.15, 0.8 / jnp.maximum(cos, 0.15), 6.0)


@pytest.mark.parametrize("driver", [direct, clear])
def test_they_turn_to_the_goal_on_the_spot_and_drive_when_they_face_it(driver):
    for bearing in (2.0, -2.0):
        (speed, turn), *_ = driver(LIBRARY, view(bearing))
        assert speed == 0
        np.testing.assert_allclose(turn, 0.6 * np.sign(bearing))
    (speed, turn), *_ = driver(LIBRARY, view())
    assert speed == 1
    assert abs(turn) < 0.05


def test_before_a_wall_one_brakes_and_the_other_turns_away():
    (speed, turn), *_ = direct(LIBRARY, view(walls=wall_ahead))
    np.testing.assert_allclose(speed, 0.8 - 0.45, atol=0.01)
    assert turn == 0
    (speed, turn), *_ = clear(LIBRARY, view(walls=wall_ahead))
    assert speed == 0
    assert abs(turn) > 0.5
    (speed, _), *_ = clear(LIBRARY, view(distance=0.5, walls=wall_ahead))  # the goal is before it
    np.testing.assert_allclose(speed, 0.8 - 0.45, atol=0.01)


def test_observations_are_read_in_metres_and_radians(key):
    state, observation = jaxnav(8, 2).reset(key)
    seen = read(LIBRARY, observation.local)
    away = np.asarray(state.goal - state.pos)
    bearing = np.arctan2(away[:, 1], away[:, 0]) - np.asarray(state.theta)
    distance = np.minimum(np.linalg.norm(away, axis=1), 6.0)
    np.testing.assert_allclose(seen.distance, distance, atol=1e-4)
    np.testing.assert_allclose(np.cos(seen.bearing), np.cos(bearing), atol=1e-4)
    np.testing.assert_allclose(np.sin(seen.bearing), np.sin(bearing), atol=1e-4)
    assert (np.asarray(seen.readings) >= 0).all()
    np.testing.assert_allclose(
        seen.angles[jnp.array([BEHIND, LEFT])], [-np.pi, np.pi / 2], atol=0.04
    )


@pytest.mark.parametrize("affine_actions", [False, True])
def test_teams_ask_for_velocities_whatever_the_actions_mean(affine_actions):
    env = jaxnav(8, 2, affine_actions)
    wanted = jnp.array([[0.25, -0.6], [1.0, 0.3]])
    np.testing.assert_allclose(env._velocities(env._action(wanted)), wanted, atol=1e-6)


@pytest.mark.slow
def test_the_clear_way_leads_to_most_goals_that_can_be_reached():
    env, keys = jaxnav(8, 2), jax.random.split(jax.random.key(0), 64)
    episodes = jax.jit(lambda keys: run_episodes(env, env.teams["clear"], keys))(keys)
    shares = {name: float(values.mean()) for name, values in episodes.metrics.items()}
    assert shares["success"] > 0.5 * shares["reachable"]
    assert shares["collision"] < 0.4
