"""The aircraft flies as the equations say: energy, trim, turns, glide, stall, against balances
solved by themselves.

All simulations but the last tests' run in float64 and share one compiled program: 64 aircraft, 600
substeps.
"""

from dataclasses import replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.aerojax.config import GRAVITY, Airframe, Config
from ratiosym.envs.aerojax.dynamics import (
    Controls,
    Flight,
    alpha_limits,
    angles,
    axes,
    fleet,
    fly,
    substep,
    trim,
)
from tests.envs.aerojax import oracle
from tests.envs.aerojax.oracle import RAD

NUM, LONG = 64, 600
CONFIG, FIGHTER = Config(), Airframe()
NO_FORCES = replace(
    FIGHTER, thrust=0.0, drag=0.0, induced_drag=0.0, wave_drag=0.0, stalled_drag=0.0
)


@lru_cache(maxsize=2)
def program(frame):
    @jax.jit
    def run(flight, aileron, elevator, throttle, dt):
        def body(flight, inputs):
            flight = substep(CONFIG, frame, flight, Controls(*inputs), dt)
            return flight, flight

        return jax.lax.scan(body, flight, (aileron, elevator, throttle))[1]

    return run


def simulate(flight, aileron=0.0, elevator=0.0, throttle=None, dt=0.1, frame=FIGHTER):
    """Simulate 64 aircraft for 600 substeps; return the flights, [600, 64, ...], as NumPy."""
    throttle = flight.throttle if throttle is None else throttle
    with jax.enable_x64(True):
        controls = [
            jnp.asarray(np.broadcast_to(np.asarray(c, float), (LONG, NUM)))
            for c in (aileron, elevator, throttle)
        ]
        flight = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), flight)
        return jax.tree.map(
            np.asarray, program(frame)(flight, *controls, jnp.asarray(dt, jnp.float64))
        )


def start(V, h=5000.0, alpha=0.0, throttle=0.0, gamma=0.0, bank=0.0):
    """Return a flight to the north, climbing and banked right; arguments are numbers or arrays of
    64.
    """
    V, h, alpha, throttle, gamma, bank = (
        np.broadcast_to(np.asarray(x, float), NUM) for x in (V, h, alpha, throttle, gamma, bank)
    )
    zero = np.zeros(NUM)
    vh = np.stack([zero, np.cos(gamma), np.sin(gamma)], -1)
    top = np.stack([zero, -np.sin(gamma), np.cos(gamma)], -1)
    right = np.cross(vh, top)
    lift = np.cos(bank)[:, None] * top + np.sin(bank)[:, None] * right
    return Flight(
        np.stack([zero, zero, h], -1), V[:, None] * vh, lift, alpha.copy(), throttle.copy()
    )


def energy(flight):
    return 0.5 * (flight.velocity**2).sum(-1) + GRAVITY * flight.position[..., 2]


def speed(flight):
    return np.linalg.norm(flight.velocity, axis=-1)


def wild_controls(seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (2, LONG, NUM))


def test_without_thrust_and_drag_energy_is_kept_to_rounding():
    flights = simulate(start(225.0), *wild_controls(), frame=NO_FORCES)
    e = energy(flights)
    assert np.abs(np.ptp(flights.alpha, axis=0)).min() > 0.1  # the aircraft did manoeuvre
    np.testing.assert_allclose(e, energy(start(225.0))[None].repeat(LONG, 0), rtol=1e-12)


def test_energy_changes_at_the_rate_of_the_excess_power():
    throttle = np.linspace(0, 1, NUM)
    aileron, elevator = 0.2 * wild_controls(1)
    first = start(250.0, throttle=throttle)
    flights = simulate(first, aileron, elevator, throttle)

    def power(flight):
        _, D, T = oracle.forces(
            flight.position[..., 2], speed(flight), flight.alpha, flight.throttle
        )
        return speed(flight) * (T * np.cos(flight.alpha) - D) / oracle.MASS

    gained = (energy(flights)[299] - energy(flights)[0]) / (299 * 0.1)
    Ps = power(flights)[:300]
    mean = 0.5 * (Ps[1:] + Ps[:-1]).mean(axis=0)
    assert np.abs(mean).max() > 50  # W/kg: energy was gained and lost
    assert (np.abs(gained - mean) < 0.01 * np.abs(Ps).mean(axis=0)).all()


def test_trim_holds_for_thirty_seconds_hands_off():
    h, V = np.linspace(1000, 9000, NUM), np.linspace(160, 260, NUM)
    with jax.enable_x64(True):
        alpha, throttle = (
            np.asarray(x) for x in trim(CONFIG, FIGHTER, jnp.asarray(h), jnp.asarray(V))
        )
    assert (throttle < 1).all()
    flights = simulate(start(V, h, alpha, throttle))
    assert np.abs(flights.position[:300, :, 2] - h).max() < 0.5
    assert np.abs(speed(flights)[:300] - V).max() < 0.05
    assert np.abs(flights.velocity[:300, :, 0]).max() < 1e-9


def test_level_turns_have_the_rate_of_their_load_factor():
    """Within 0.2% of g sqrt(n² - 1) / V with balanced thrust, for loads from 1.1 to the sustained
    one.
    """
    V = np.linspace(150, 280, NUM)
    most = np.array([oracle.sustained(5000.0, v)[0] for v in V])
    n = 1.1 + (0.98 * most - 1.1) * np.tile([0.2, 0.5, 0.8, 1.0], NUM // 4)
    throttle = np.full(NUM, 0.5)
    for _ in range(30):  # angle of attack and throttle that hold load and speed
        alpha = np.array(
            [oracle.alpha_for_load(5000.0, *x) for x in zip(V, n, throttle, strict=True)]
        )
        _, D, T = oracle.forces(5000.0, V, alpha, 1.0)
        throttle = D / (T * np.cos(alpha))
    assert (throttle <= 1).all()
    flights = simulate(start(V, 5000.0, alpha, throttle, bank=np.arccos(1 / n)))
    course = np.unwrap(np.arctan2(flights.velocity[..., 0], flights.velocity[..., 1]), axis=0)
    rate = (course[100] - course[0]) / 10.0
    np.testing.assert_allclose(rate, oracle.turn_rate(n, V), rtol=2e-3)
    assert np.abs(flights.position[:100, :, 2] - 5000).max() < 2.0
    np.testing.assert_allclose(speed(flights)[:100], V[None].repeat(100, 0), rtol=1e-3)


@pytest.mark.parametrize(
    ("height", "corner", "corner_rate", "V", "rate"),
    [(5000.0, 251, 20.0, 178, 13.3), (0.0, 192, 26.2, 163, 21.6)],
)
def test_corner_speed_and_sustained_turn(height, corner, corner_rate, V, rate):
    found = oracle.best_sustained(height)
    assert abs(found[0] - V) < 3
    assert abs(found[2] / RAD - rate) < 0.15
    # The same turn at full throttle holds speed and height at that rate.
    n, alpha = oracle.sustained(height, found[0])
    flights = simulate(start(found[0], height, alpha, 1.0, bank=np.arccos(1 / n)))
    course = np.unwrap(np.arctan2(flights.velocity[..., 0], flights.velocity[..., 1]), axis=0)
    np.testing.assert_allclose((course[100] - course[0]) / 10.0, found[2], rtol=5e-3)
    np.testing.assert_allclose(speed(flights)[100], found[0], rtol=5e-3)
    # Corner speed: the lowest speed at which the limiter's 9 g are reached.
    speeds = np.linspace(150, 330, 1801)
    pressure = oracle.density(height) * speeds**2 / 2
    _, high = alpha_limits(
        CONFIG, FIGHTER, jnp.asarray(pressure, jnp.float32), jnp.zeros(len(speeds))
    )
    high = np.minimum(np.asarray(high, float), oracle.MOST_LIFT_ALPHA)
    load = oracle.forces(height, speeds, high, 0.0)[0] / (oracle.MASS * GRAVITY)
    assert load.max() < 9.001
    rates = oracle.turn_rate(load, speeds) / RAD
    assert abs(speeds[rates.argmax()] - corner) < 3
    assert abs(rates.max() - corner_rate) < 0.2
    assert abs(oracle.stall_speed(height, 9.0) - corner) < 1


def test_a_hard_pull_stops_at_nine_g_and_a_push_at_minus_three():
    V = np.linspace(120, 420, NUM)
    pull = np.where(np.arange(NUM) % 2 == 0, 1.0, -1.0)
    flights = simulate(
        start(V, 6000.0, bank=np.where(pull > 0, 80 * RAD, 0.0)), 0.0, pull[None], 1.0
    )
    L, _, T = oracle.forces(
        flights.position[:60, :, 2], speed(flights)[:60], flights.alpha[:60], 1.0
    )
    load = (L + T * np.sin(flights.alpha[:60])) / (oracle.MASS * GRAVITY)
    assert load.max() < 9.0 * 1.02  # the limit lags by a substep
    assert load.max() > 8.9
    assert load.min() > -3.0 * 1.02
    assert load.min() < -2.9
    assert (flights.alpha <= 28.001 * RAD).all()
    assert (flights.alpha >= -10.001 * RAD).all()


def test_best_glide():
    """L/D is 9.45 at CL 0.38, and a glide at that angle of attack has that ratio."""
    a = np.linspace(0.02, 0.3, 2000)
    ratio = oracle.lift_coefficient(a) / oracle.drag_coefficient(a, 0.3)
    best = ratio.argmax()
    assert abs(ratio[best] - 9.45) < 0.05
    assert abs(oracle.lift_coefficient(a[best]) - 0.38) < 0.02
    slope = np.arctan(1 / ratio[best])
    V = np.sqrt(
        2
        * oracle.MASS
        * GRAVITY
        * np.cos(slope)
        / (oracle.density(5000.0) * oracle.AREA * oracle.lift_coefficient(a[best]))
    )
    flights = simulate(start(V, 5000.0, a[best], 0.0, gamma=-slope))
    way = flights.position[-1, 0, 1] - flights.position[0, 0, 1]
    # The glider slows down in denser air, so both height and speed are lost.
    spent = (energy(flights)[0, 0] - energy(flights)[-1, 0]) / GRAVITY
    np.testing.assert_allclose(way / spent, ratio[best], rtol=0.01)


def test_stall():
    """At 84 m/s (5 km, no thrust) the wing just carries the weight; below, it cannot."""
    V = oracle.stall_speed(5000.0)
    assert abs(V - 84) < 0.5
    speeds = np.where(np.arange(NUM) < 32, 0.97 * V, 1.05 * V)
    flights = simulate(start(speeds, 5000.0, oracle.MOST_LIFT_ALPHA, 0.0), frame=NO_FORCES)
    climb = flights.velocity[0, :, 2]  # after a tenth of a second, before the speed has changed
    assert (climb[:32] < 0).all()
    assert (climb[32:] > 0).all()
    assert oracle.lift_coefficient(28 * RAD) < 0.9 * oracle.MOST_LIFT


def test_top_speed_in_level_flight():
    V = oracle.top_speed(5000.0)
    assert abs(V / (340.3 - 0.0041 * 5000) - 1.28) < 0.01
    alpha = oracle.alpha_for_load(5000.0, V, 1.0, 1.0)
    flights = simulate(start(V, 5000.0, alpha, 1.0))
    np.testing.assert_allclose(speed(flights)[100], V, rtol=1e-3)
    assert abs(flights.position[100, 0, 2] - 5000) < 5


def test_induced_drag_grows_with_the_square_of_lift():
    a = np.array([2.0, 4.0, 8.0]) * RAD
    flights = [start(200.0, 5000.0, x) for x in a]
    lost = []
    for flight in flights:
        after = simulate(flight)
        lost.append(((energy(flight) - energy(after)[0]) / (200.0 * 0.1))[0])  # drag over mass
    q = oracle.density(5000.0) * 200**2 / 2 * oracle.AREA / oracle.MASS
    induced = np.array(lost) / q - 0.020
    np.testing.assert_allclose(induced / (3.6 * a) ** 2, 0.14, rtol=0.03)


def test_loops_and_a_zoom_through_rest_stay_finite():
    """Fly straight up until they stop and fall; half of them pull all the time."""
    gamma = np.where(np.arange(NUM) < 32, 90 * RAD, np.linspace(0, 89, NUM) * RAD)
    V = np.tile([40.0, 80.0, 200.0, 300.0], NUM // 4)
    pull = np.where(np.arange(NUM) % 8 < 4, 0.0, 1.0)
    flights = simulate(start(V, 3000.0, gamma=gamma), 0.0, pull[None], 0.0)
    assert speed(flights).min() < 1.0
    for leaf in flights:
        assert np.isfinite(leaf).all()
    np.testing.assert_allclose(np.linalg.norm(flights.lift, axis=-1), 1, atol=1e-9)
    cosine = (flights.lift * flights.velocity).sum(-1) / speed(flights)
    assert np.abs(cosine).max() < 1e-6


def test_a_loop_comes_back_around():
    flights = simulate(start(300.0, 3000.0, throttle=1.0), 0.0, 0.2, 1.0)
    climb = flights.velocity[:, 0, 2] / speed(flights)[:, 0]
    assert climb.max() > 0.99  # through the vertical up and down, always wings level
    assert climb.min() < -0.99
    assert np.abs(flights.velocity[..., 0]).max() < 1e-6


def smooth_controls():
    """Controls so gentle that no limiter acts."""
    phase = np.linspace(0, 2 * np.pi, NUM)
    return (
        lambda t: 0.5 * np.sin(0.8 * t + phase),
        lambda t: 0.08 * np.cos(0.7 * t + 2 * phase),
        lambda t: 0.5 + 0.5 * np.sin(0.5 * t + phase),
    )


def test_the_integrator_converges_to_runge_kutta_in_second_order():
    controls = smooth_controls()
    first = start(250.0, 5000.0, 6 * RAD)
    time = 5.0
    p, v, lh, a = oracle.rk4(
        (first.position, first.velocity, first.lift, first.alpha), *controls, time, 0.01
    )
    errors = []
    for dt in (0.2, 0.1, 0.05, 0.025):
        middles = (np.arange(LONG) + 0.5) * dt
        inputs = [np.stack([c(t) for t in middles]) for c in controls]
        flights = simulate(first, *inputs, dt=dt)
        last = round(time / dt) - 1
        errors.append(np.linalg.norm(flights.position[last] - p, axis=-1).mean())
    assert errors[1] < 1.0  # metres after 5 s and more than a kilometre, at the default step
    assert (np.array(errors[:-1]) / np.array(errors[1:]) > 3.0).all(), errors  # 4 for second order
    np.testing.assert_allclose(flights.lift[last], lh, atol=1e-3)
    np.testing.assert_allclose(flights.alpha[last], a, atol=1e-4)
    np.testing.assert_allclose(flights.velocity[last], v, atol=0.05)


def test_turning_the_world_turns_the_flight():
    controls = wild_controls(2)
    turn = 2.1
    R = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    first = start(225.0, throttle=0.6)
    turned = first._replace(velocity=first.velocity @ R.T, lift=first.lift @ R.T)
    one, other = simulate(first, *controls), simulate(turned, *controls)
    np.testing.assert_allclose(one.position[300] @ R.T, other.position[300], atol=1e-5)
    np.testing.assert_allclose(one.lift[300] @ R.T, other.lift[300], atol=1e-7)


def test_mirrored_controls_mirror_the_flight():
    aileron, elevator = wild_controls(3)
    first = start(225.0, throttle=0.6)
    one, other = simulate(first, aileron, elevator), simulate(first, -aileron, elevator)
    mirror = np.array([-1.0, 1.0, 1.0])
    np.testing.assert_allclose(one.position[300] * mirror, other.position[300], atol=1e-5)
    np.testing.assert_allclose(one.lift[300] * mirror, other.lift[300], atol=1e-7)


def test_signs_of_roll_pitch_and_path():
    """Right aileron lowers the right wing; pulling raises the nose above the path."""
    flights = simulate(start(225.0, alpha=5 * RAD), 0.3, 0.0)
    early = jax.tree.map(lambda leaf: jnp.asarray(leaf[5, :1], jnp.float32), flights)
    roll, pitch, gamma = (float(x[0]) for x in angles(early))
    np.testing.assert_allclose(roll, 0.3 * 150 * RAD * 0.6, atol=0.05)
    assert pitch - gamma > 3 * RAD
    nose, right, up = (np.asarray(axis.array())[0] for axis in axes(early))
    np.testing.assert_allclose(np.cross(nose, up), right, atol=1e-5)
    assert right[2] < 0
    assert right[0] > 0  # flying north, east is right


def test_extreme_states_stay_finite_in_float32():
    """Take a decision from any speed, height, attitude and angle of attack, with full controls."""
    rng = np.random.default_rng(4)
    num = 4096
    direction = rng.normal(size=(num, 3))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    lift = np.cross(direction, rng.normal(size=(num, 3)))
    lift /= np.linalg.norm(lift, axis=-1, keepdims=True)
    V = 10 ** rng.uniform(-4, 3, num)
    V[:50] = 0.0
    place = np.stack(
        [*rng.uniform(-1e4, 1e4, (2, num)), rng.choice([-100.0, 0.0, 6000.0, 12e3, 20e3], num)], -1
    )
    flight = Flight(
        place, V[:, None] * direction, lift, rng.uniform(-0.2, 0.5, num), rng.uniform(0, 1, num)
    )
    flight = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), flight)
    controls = Controls(
        *(jnp.asarray(rng.choice([-1.0, 0.0, 1.0], num), jnp.float32) for _ in range(2)),
        jnp.ones(num),
    )
    step = jax.jit(partial(fly, CONFIG, FIGHTER))
    for _ in range(20):
        flight = step(flight, controls)
    for leaf in flight:
        assert np.isfinite(leaf).all()
    np.testing.assert_allclose(np.linalg.norm(flight.lift, axis=-1), 1, atol=1e-5)
    assert (
        np.abs(
            np.sum(np.asarray(flight.lift * flight.velocity), -1) / np.maximum(speed(flight), 1.0)
        ).max()
        < 1e-3
    )


def test_types_differ_and_mix():
    frame = fleet(CONFIG.airframes)
    h, V = jnp.full(3, 5000.0), jnp.full(3, 230.0)
    alpha, throttle = trim(CONFIG, frame, h, V)
    for i, single in enumerate(CONFIG.airframes):
        one = trim(CONFIG, single, h[:1], V[:1])
        np.testing.assert_allclose([alpha[i], throttle[i]], [one[0][0], one[1][0]], rtol=1e-5)
    assert len({round(float(a), 4) for a in alpha}) == 3
    assert fleet([FIGHTER] * 4).mass == 9300.0  # a plain number if all are equal
