"""Cones, detection, sharing, and observations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.aerojax.config import Cone
from ratiosym.envs.aerojax.dynamics import Flight, axes
from ratiosym.envs.aerojax.sensing import Bearing, bearings, in_cone, share_sight
from ratiosym.envs.aerojax.vectors import Vec
from tests.envs.aerojax.scenes import ENV, FAR, observe_2v2, rows_of, scene, watch_2v2

CONFIG = ENV.config


@pytest.mark.parametrize("cone", [CONFIG.view, CONFIG.weapon], ids=["view", "weapon"])
def test_cones_are_what_angles_say_on_100_000_attitudes(cone):
    """Compared to the angles off and around the nose, by arctangents in float64."""
    rng = np.random.default_rng(0)
    num = 100_000
    vh = rng.normal(size=(num, 3))
    vh /= np.linalg.norm(vh, axis=-1, keepdims=True)
    lift = np.cross(vh, rng.normal(size=(num, 3)))
    lift /= np.linalg.norm(lift, axis=-1, keepdims=True)
    alpha = rng.uniform(-0.17, 0.48, num)
    nose = np.cos(alpha)[:, None] * vh + np.sin(alpha)[:, None] * lift
    up = np.cos(alpha)[:, None] * lift - np.sin(alpha)[:, None] * vh
    right = np.cross(vh, lift)
    away = nose + 1.2 * rng.normal(size=(num, 3))  # mostly ahead
    away *= (rng.uniform(0, 1.3, num) * cone.depth / np.linalg.norm(away, axis=-1))[:, None]

    f, r, u = ((away * axis).sum(-1) for axis in (nose, right, up))
    off_nose, clock = np.arctan2(np.hypot(r, u), f), np.arctan2(u, r)
    tangents = np.tan(np.radians([cone.width / 2, cone.height / 2]))
    limit = np.arctan(1 / np.hypot(np.cos(clock) / tangents[0], np.sin(clock) / tangents[1]))
    distance = np.linalg.norm(away, axis=-1)
    expected = (off_nose <= limit) & (distance <= cone.depth)
    is_clear = (np.abs(off_nose - limit) > 1e-4) & (np.abs(distance / cone.depth - 1) > 1e-4)

    zero = np.zeros((num, 3))
    flight = Flight(*(jnp.asarray(x, jnp.float32) for x in (zero, 200 * vh, lift, alpha, alpha)))
    body = jax.tree.map(lambda part: part[:, None], axes(flight))  # one watcher and one target each
    bearing = bearings(
        body, Vec.of(jnp.zeros((num, 1, 3))), Vec.of(jnp.asarray(away[:, None], jnp.float32))
    )
    found = np.asarray(in_cone(cone, bearing))[:, 0, 0]
    assert 0.03 < expected.mean() < 0.95
    np.testing.assert_array_equal(found[is_clear], expected[is_clear])
    assert is_clear.mean() > 0.999


def sees(state, watcher, target, num_keys=64):
    """Return how often a watcher knows about another aircraft, identified by its distance."""
    keys = jax.random.split(jax.random.key(0), num_keys)
    local = np.asarray(watch_2v2()(state, keys).local)[:, watcher, 15:].reshape(num_keys, -1, 12)
    places = np.asarray(state.flight.position)
    distance = np.linalg.norm(places[target] - places[watcher])
    apart = 1000 * np.exp(local[..., 5])
    return ((local[..., 0] == 1) & (np.abs(apart - distance) < 0.5)).any(axis=1).mean()


def at_angle(degrees, distance):
    """Return a place to the right of an aircraft that flies east through the origin at 5000 m."""
    angle = np.radians(degrees)
    return [distance * np.cos(angle), -distance * np.sin(angle), 5000.0]


@pytest.mark.parametrize(("bank", "expected"), [(0.0, True), (90.0, False)])
def test_a_target_sixty_degrees_right_is_seen_wings_level_only(bank, expected):
    target = at_angle(60.0, 600.0)
    state = scene(
        [[0, 0, 5000], [0, FAR, 5000], target, [0, -FAR, 5000]], [0, 0, 0, 0], [bank, 0, 0, 0]
    )
    assert (sees(state, 0, 2) > 0.9) == expected
    assert (sees(state, 0, 2) > 0.0) == expected


@pytest.mark.parametrize(
    "distance", [500.0, 1150.0, 1300.0, 2000.0, 3000.0, 4000.0, 5000.0, 5900.0]
)
def test_detection_is_as_frequent_as_its_probability(distance):
    """Straight ahead: certain in the weapon cone, 1 - (d/D)² beyond, within 3.5 standard errors."""
    num = 4000
    state = scene(
        [[0, 0, 5000], [-FAR, 0, 5000], [distance, 0, 5000], [0, -FAR, 5000]], [0, 180, 0, 0]
    )
    p = 1.0 if distance <= 1200 else 1 - (distance / 6000) ** 2
    error = 3.5 * np.sqrt(p * (1 - p) / num) + 1e-9
    assert abs(sees(state, 0, 2, num) - p) <= error


def test_nothing_is_seen_beyond_the_view():
    state = scene([[0, 0, 5000], [-FAR, 0, 5000], [6010, 0, 5000], [0, -FAR, 5000]], [0, 180, 0, 0])
    assert sees(state, 0, 2) == 0


@pytest.mark.parametrize(("apart", "is_shared"), [(4999.0, True), (5001.0, False)])
def test_allies_share_within_radio_range(apart, is_shared):
    """The second ally has the opponent in its weapon cone; the first looks away from both."""
    state = scene(
        [[0, 0, 5000], [apart, 0, 5000], [apart + 500, 0, 5000], [0, FAR, 5000]],
        [180, 0, 0, 0],
    )
    assert sees(state, 1, 2) == 1.0
    assert sees(state, 0, 2) == float(is_shared)
    assert sees(state, 0, 1) == float(is_shared)


def test_sharing_is_one_hop():
    """Of three in a row, the last one's detections reach the second, but not the first."""
    between = jnp.array([[0.0, 4000, 8000], [4000, 0, 4000], [8000, 4000, 0]])
    seen = jnp.zeros((3, 6), bool).at[2, 4].set(True)
    known = share_sight(CONFIG, seen, between, jnp.ones(3, bool))
    np.testing.assert_array_equal(known[:, 4], [False, True, True])
    np.testing.assert_array_equal(known[0, :3], [True, True, False])  # itself, and allies in range


def test_the_dead_neither_share_nor_appear():
    places = [[0, 0, 5000], [3000, 0, 5000], [3500, 0, 5000], [0, FAR, 5000]]
    state = scene(places, [180, 0, 0, 0])
    assert sees(state, 0, 2) == 1.0
    dead_ally = state._replace(fate=jnp.array([0, 1, 0, 0], jnp.int32))
    assert sees(dead_ally, 0, 2) == 0.0
    assert sees(dead_ally, 0, 1) == 0.0
    dead_foe = state._replace(fate=jnp.array([0, 0, 1, 0], jnp.int32))
    assert sees(dead_foe, 1, 2) == 0.0


def test_what_is_unseen_leaves_no_trace(key):
    """Changes to unseen aircraft do not affect the team's observations, only the critic's."""
    state = scene([[0, 0, 5000], [0, 800, 5000], [2500, 0, 5000], [-4000, 0, 5000]], [0, 0, 0, 0])
    before = observe_2v2()(state, key)
    assert (rows_of(before, 0)[:, 0] == [1, 1, 0]).all()
    flight = state.flight
    moved = flight._replace(
        position=flight.position.at[3].add(jnp.array([-500.0, 300.0, 200.0])),
        velocity=flight.velocity.at[3].mul(1.2),
        alpha=flight.alpha.at[3].set(0.1),
    )
    for other in (
        state._replace(flight=moved),
        state._replace(health=state.health.at[3].set(0.3)),
        state._replace(fate=state.fate.at[3].set(1)),
        state._replace(skill=state.skill.at[1].set(0.9)),
    ):
        after = observe_2v2()(other, key)
        np.testing.assert_array_equal(before.local, after.local)
    assert not np.array_equal(before.state, observe_2v2()(state._replace(flight=moved), key).state)


def test_rows_are_sorted_by_distance_and_padded_with_zeros(key):
    state = scene(
        [[0, 0, 5000], [2000, 100, 5000], [900, 0, 5000], [600, 0, 5000]], [0, 0, 90, 180]
    )
    state = state._replace(health=jnp.array([1.0, 0.9, 0.8, 0.7]))
    observation = observe_2v2()(state, key)
    rows = rows_of(observation, 0)
    np.testing.assert_allclose(rows[:, 10], [0.7, 0.8, 0.9], rtol=1e-6)  # identified by health
    np.testing.assert_array_equal(rows[:, 1], [-1, -1, 1])  # team
    distance = [600, 900, np.hypot(2000, 100)]
    np.testing.assert_allclose(1000 * np.exp(rows[:, 5]), distance, rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(rows[:, 2:5], axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows[:, 6:9], axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(rows[:, 9], 225 / 300, rtol=1e-5)
    # The nearest one is below the nose by our angle of attack. It flies towards us, so in our body
    # axes it flies backwards.
    alpha = float(state.flight.alpha[0])
    np.testing.assert_allclose(rows[0, 2:5], [np.cos(alpha), 0, -np.sin(alpha)], atol=1e-5)
    np.testing.assert_allclose(rows[0, 6:9], [-np.cos(alpha), 0, np.sin(alpha)], atol=1e-5)
    hidden = observe_2v2()(state._replace(fate=jnp.array([0, 0, 1, 0], jnp.int32)), key)
    rows = rows_of(hidden, 0)
    np.testing.assert_array_equal(rows[:, 0], [1, 1, 0])
    assert (rows[2] == 0).all()


def test_the_ego_part(key):
    state = scene(
        [[1000, 2000, 6000], [0, 0, 5000], [0, FAR, 5000], [0, -FAR, 5000]],
        [0, 0, 0, 0],
        [30, 0, 0, 0],
    )
    state = state._replace(
        health=state.health.at[0].set(0.6),
        locks=state.locks._replace(
            target=state.locks.target.at[0, 0].set(1), time=state.locks.time.at[0, 0].set(0.6)
        ),
    )
    ego = np.asarray(observe_2v2()(state, key).local[0, :15])
    a = float(state.flight.alpha[0])
    bank = np.radians(30)
    np.testing.assert_allclose(
        ego[:3], [np.sin(a) * np.cos(bank), -np.sin(bank), np.cos(a) * np.cos(bank)], atol=1e-5
    )
    np.testing.assert_allclose(ego[3:8], [a / np.radians(28), 0, 1, 225 / 300, 0.5], atol=1e-5)
    # The axis is 1000 m behind, and 2000 m to the right (south, flying east) seen from a banked
    # aircraft.
    lift_side = np.sin(a) * np.sin(bank)
    np.testing.assert_allclose(ego[8], (-1000 * np.cos(a) + 2000 * lift_side) / 8000, atol=1e-5)
    np.testing.assert_allclose(ego[9], 2000 * np.cos(bank) / 8000, atol=1e-5)
    throttle = float(state.flight.throttle[0])
    np.testing.assert_allclose(ego[10:], [0.6, 0.0, 0.5, 1.0, throttle], atol=1e-6)
    dead = observe_2v2()(state._replace(fate=state.fate.at[0].set(2)), key)
    assert (np.asarray(dead.local[0]) == 0).all()
    np.testing.assert_array_equal(dead.active, [False, True])


def test_the_critics_state(key):
    state = scene(
        [[1000, 2000, 6000], [0, 0, 5000], [500, 0, 5000], [0, -FAR, 5000]], [0, 0, 0, 90]
    )
    state = state._replace(
        time=jnp.array(125, jnp.int32),
        fate=jnp.array([0, 0, 0, 3], jnp.int32),
        locks=state.locks._replace(target=jnp.array([[-1, 0], [-1, -1]], jnp.int32)),
    )
    critic = np.asarray(observe_2v2()(state, key).state)
    rows, rest = critic[:-3].reshape(4, 19), critic[-3:]
    np.testing.assert_allclose(rest, [0.25, 1.0, 0.5])
    np.testing.assert_allclose(rows[:, 0], [1, 1, 1, 0])
    np.testing.assert_allclose(rows[:, 1], [1, 1, -1, -1])
    np.testing.assert_allclose(rows[0, 2:8], [1 / 8, 2 / 8, 0.5, 0.75, 0, 0], atol=1e-6)
    assert (rows[3, 2:] == 0).all()
    np.testing.assert_allclose(
        rows[:3, 17], [0, 0, 0.5]
    )  # one of two has locked the first opponent
    np.testing.assert_allclose(np.linalg.norm(rows[:3, 8:11], axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose((rows[:3, 8:11] * rows[:3, 11:14]).sum(1), 0, atol=1e-6)


def test_the_edge_of_a_cone():
    def bearing(forward, right, up):
        parts = [jnp.full((1, 1), x) for x in (forward, right, up)]
        return Bearing(*parts, jnp.sqrt(sum(p * p for p in parts)))

    cone = Cone(90.0, 60.0, 1000.0)
    assert bool(in_cone(cone, bearing(100.0, 99.0, 0.0))[0, 0])
    assert not bool(in_cone(cone, bearing(100.0, 0.0, 99.0))[0, 0])
    assert not bool(in_cone(cone, bearing(-100.0, 0.0, 0.0))[0, 0])
    assert not bool(in_cone(cone, bearing(1001.0, 0.0, 0.0))[0, 0])
