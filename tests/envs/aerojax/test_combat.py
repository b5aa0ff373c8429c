"""Locks, damage, collisions, and the credit for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.aerojax.combat import (
    COLLIDED,
    CRASHED,
    LEFT,
    SHOT,
    Locks,
    collides,
    damage,
    update_locks,
)
from ratiosym.envs.aerojax.vectors import Vec
from tests.envs.aerojax.scenes import ENV, FAR, hands_off, scene, step_2v2

CONFIG = ENV.config


def play(state, num_steps, action=None):
    """Play a scene whose pilots hold their course; return states and steps."""
    states, steps = [state], []
    for i in range(num_steps):
        held = hands_off(states[0]) if action is None else action
        state, step = step_2v2()(jax.random.key(i), state, held)
        states.append(state)
        steps.append(step)
    return states, steps


def tail_chase(distance):
    return scene(
        [[0, 0, 5000], [0, FAR, 5000], [distance, 0, 5000], [0, -FAR, 5000]], [0, 180, 0, 180]
    )


def test_a_tail_chase_at_400_m_kills_in_1_8_seconds():
    states, steps = play(tail_chase(400.0), 14)
    died = next(i for i, s in enumerate(states) if s.fate[2] == SHOT)
    first_lock = next(i for i, s in enumerate(states) if s.locks.target[0, 0] == 0)
    assert abs((died - first_lock) * CONFIG.decision - 1.8) < 0.2 + 1e-6
    np.testing.assert_allclose(steps[died - 1].reward, [0.5, 0.5])
    assert float(steps[died - 1].metrics["kills"]) == 1
    assert float(steps[-1].metrics["kills"]) == 1
    assert states[-1].locks.target[0, 0] == -1  # nothing left in the cone
    assert not bool(steps[-1].terminated)


def test_far_shots_do_less():
    """At the maximum range of 1200 m, 30% of the effect is left."""
    locks = Locks(jnp.array([[0, -1], [-1, -1]], jnp.int32), jnp.array([[5.0, 0.0], [0.0, 0.0]]))
    for distance, effect in ((100.0, 1.0), (500.0, 1.0), (850.0, 0.65), (1200.0, 0.3)):
        loss = damage(CONFIG, locks, jnp.full((2, 2, 2), distance))
        np.testing.assert_allclose(loss, [[0, 0], [0.2 * effect, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("time", "rate"), [(0.0, 0.0), (0.4, 0.0), (0.8, 0.5), (1.2, 1.0), (9.0, 1.0)]
)
def test_damage_ramps_up_with_the_lock(time, rate):
    locks = Locks(jnp.array([[1, 1], [-1, -1]], jnp.int32), jnp.array([[time, time], [0.0, 0.0]]))
    loss = damage(CONFIG, locks, jnp.full((2, 2, 2), 300.0))
    np.testing.assert_allclose(
        loss, [[0, 0], [0, 2 * 0.2 * rate]], atol=1e-6
    )  # two shooters add up


def test_locks_hold_switch_and_drop():
    none = jnp.zeros((2, 2, 2), bool)
    distance = jnp.array([[[300.0, 200.0], [300.0, 200.0]]] * 2)
    locks = Locks(jnp.full((2, 2), -1, jnp.int32), jnp.zeros((2, 2)))
    both = none.at[0, 0].set(True)
    locks = update_locks(CONFIG, locks, both, distance)
    np.testing.assert_array_equal(locks.target, [[1, -1], [-1, -1]])  # the nearest
    for _ in range(3):
        locks = update_locks(CONFIG, locks, both, distance.at[0, 0, 0].set(50.0))
    assert locks.target[0, 0] == 1  # kept, although another one is nearer now
    np.testing.assert_allclose(locks.time[0, 0], 0.6, rtol=1e-6)
    locks = update_locks(CONFIG, locks, none.at[0, 0, 0].set(True), distance)
    assert locks.target[0, 0] == 0
    assert locks.time[0, 0] == 0  # a new target restarts the timer
    locks = update_locks(CONFIG, locks, none, distance)
    assert locks.target[0, 0] == -1


def test_head_on_both_can_die_at_once():
    state = scene(
        [[0, 0, 5000], [0, FAR, 5000], [700, 30, 5000], [0, -FAR, 5000]], [0, 180, 180, 180]
    )
    state = state._replace(
        health=jnp.array([0.05, 1.0, 0.05, 1.0]),
        locks=Locks(jnp.array([[0, -1], [0, -1]], jnp.int32), jnp.array([[2.0, 0.0], [2.0, 0.0]])),
    )
    states, steps = play(state, 1)
    np.testing.assert_array_equal(states[-1].fate, [SHOT, 0, SHOT, 0])
    np.testing.assert_allclose(steps[0].reward, 0.5 - 0.25)


def test_there_is_no_friendly_fire():
    state = scene([[0, 0, 5000], [400, 0, 5000], [0, FAR, 5000], [0, -FAR, 5000]], [0, 0, 180, 180])
    states, _ = play(state, 12)
    np.testing.assert_array_equal(states[-1].locks.target, -1)
    np.testing.assert_array_equal(states[-1].health, 1)


@pytest.mark.parametrize(("miss", "expected"), [(15.0, True), (25.0, False)])
def test_collisions_are_swept(miss, expected):
    """Two aircraft meeting at 500 m/s are 100 m apart before and after a decision, but collide."""
    before = jnp.array([[-50.0, 0, 0], [50.0, miss, 0], [0.0, 5000, 0]])
    after = jnp.array([[50.0, 0, 0], [-50.0, miss, 0], [0.0, 5000, 0]])
    found = collides(CONFIG, Vec.of(before), Vec.of(after), jnp.ones(3, bool))
    np.testing.assert_array_equal(found, [expected, expected, False])
    found = collides(CONFIG, Vec.of(before), Vec.of(after), jnp.array([True, False, True]))
    assert not found.any()  # wrecks are not obstacles


def test_colliding_kills_both_and_is_no_kill():
    state = scene(
        [[-50, 0, 5000], [0, FAR, 5000], [50, 10, 5000], [0, -FAR, 5000]],
        [0, 180, 180, 180],
        speed=250.0,
    )
    states, steps = play(state, 1)
    np.testing.assert_array_equal(states[-1].fate, [COLLIDED, 0, COLLIDED, 0])
    np.testing.assert_allclose(steps[0].reward, -0.25)
    assert float(steps[0].metrics["kills"]) == 0
    assert float(steps[0].metrics["deaths_collision"]) == 1
    assert float(steps[0].metrics["opponents_self_inflicted"]) == 1


@pytest.mark.parametrize(
    ("place", "velocity", "fate", "metric"),
    [
        ([0, 0, 20], [100, 0, -200], CRASHED, "deaths_ground"),
        ([7990, 0, 5000], [225, 0, 0], LEFT, "deaths_bounds"),
        ([0, 0, 11990], [100, 0, 200], LEFT, "deaths_bounds"),
    ],
)
def test_ground_wall_and_ceiling_kill(place, velocity, fate, metric):
    state = scene([place, [0, FAR, 5000], [0, 0, 8000], [0, -FAR, 5000]], [0, 180, 0, 180])
    flight = state.flight
    lift = np.cross([0, 1.0, 0], np.array(velocity) / np.linalg.norm(velocity))
    state = state._replace(
        flight=flight._replace(
            velocity=flight.velocity.at[0].set(jnp.array(velocity, jnp.float32)),
            lift=flight.lift.at[0].set(jnp.asarray(-lift, jnp.float32)),
        )
    )
    states, steps = play(state, 3)
    assert states[1].fate[0] == fate
    np.testing.assert_array_equal(states[1].flight.position, states[1].flight.position)
    np.testing.assert_array_equal(
        states[1].flight.position[0], states[3].flight.position[0]
    )  # the dead stay
    np.testing.assert_allclose([float(s.reward[0]) for s in steps], [-0.25, 0, 0])
    assert float(steps[0].metrics[metric]) == 1


def test_the_last_one_flying_wins():
    state = tail_chase(400.0)._replace(
        health=jnp.array([1.0, 1.0, 0.01, 1.0]),
        fate=jnp.array([0, CRASHED, 0, CRASHED], jnp.int32),
        locks=Locks(jnp.array([[0, -1], [-1, -1]], jnp.int32), jnp.array([[2.0, 0.0], [0.0, 0.0]])),
    )
    _, steps = play(state, 1)
    assert bool(steps[0].terminated)
    assert not bool(steps[0].truncated)
    np.testing.assert_allclose(steps[0].reward, 0.5 + 1.0)
    assert float(steps[0].metrics["won"]) == 1
    assert float(steps[0].metrics["lost"]) == 0


def test_the_clock_is_an_end_where_the_win_is_judged():
    state = tail_chase(3000.0)._replace(
        time=jnp.array(499, jnp.int32), fate=jnp.array([0, 0, 0, 1], jnp.int32)
    )
    _, steps = play(state, 1)
    assert bool(steps[0].terminated)
    np.testing.assert_allclose(steps[0].reward, 1.0)
    even = tail_chase(3000.0)._replace(time=jnp.array(499, jnp.int32))
    _, steps = play(even, 1)
    assert bool(steps[0].terminated)
    np.testing.assert_allclose(steps[0].reward, 0.0)
    assert float(steps[0].metrics["won"]) == float(steps[0].metrics["lost"]) == 0
