"""The flight model: a point mass with lift, drag, thrust and an angle of attack.

``vh`` is the direction of flight, ``lh`` the unit lift vector perpendicular to it, and ``a`` the
angle of attack between ``vh`` and the nose, in the plane of ``vh`` and ``lh``. There is no
sideslip, and no Euler angles are used, so flying straight up or down is not a special case.

    m dv/dt = m g + (T cos a - D) vh + (L + T sin a) lh
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ratiosym.envs.aerojax.config import GRAVITY, Airframe, Config
from ratiosym.envs.aerojax.vectors import Vec, cross, dot, norm, unit, where

Scalar = Float[Array, "*b"]
_SLOWEST = 1e-3  # m/s, so that the direction of flight is defined


class Flight(NamedTuple):
    """Position and motion of aircraft."""

    position: Float[Array, "*b 3"]  # m, z up
    velocity: Float[Array, "*b 3"]  # m/s
    lift: Float[Array, "*b 3"]  # unit, perpendicular to the velocity
    alpha: Scalar  # rad, angle of attack
    throttle: Scalar  # 0 to 1


class Controls(NamedTuple):
    """Pilot inputs."""

    aileron: Scalar  # -1 to 1, fraction of the roll rate, right wing down
    elevator: Scalar  # -1 to 1, fraction of the angle of attack's rate
    throttle: Scalar  # 0 to 1


class Axes(NamedTuple):
    """Body axes in world coordinates."""

    nose: Vec
    right: Vec
    up: Vec


class Air(NamedTuple):
    """Properties of the air around a moving aircraft."""

    pressure: Scalar  # Pa, dynamic
    mach: Scalar
    thrust_share: Scalar  # fraction of the thrust at sea level


def fleet(airframes: Sequence[Airframe]) -> Any:
    """Merge airframes into one, with arrays for parameters that differ and numbers otherwise."""
    columns = {f.name: [getattr(frame, f.name) for frame in airframes] for f in fields(Airframe)}
    same = {
        name: values[0] if len(set(values)) == 1 else np.array(values, np.float32)
        for name, values in columns.items()
    }
    return Airframe(**same)  # type: ignore[arg-type]


def air(config: Config, height: Scalar, speed: Scalar) -> Air:
    """Evaluate the atmosphere: exponential density, linear speed of sound."""
    thinning = -height / config.scale_height
    pressure = 0.5 * config.density * jnp.exp(thinning) * speed * speed
    mach = speed / jnp.maximum(config.speed_of_sound - config.speed_of_sound_slope * height, 100.0)
    return Air(pressure, mach, jnp.exp(config.thrust_exponent * thinning))


def sin_cos(angle: Scalar) -> tuple[Scalar, Scalar]:
    """Sine and cosine of an angle below 1 rad, with an error below 3e-8.

    All angles in flight are small. JAX's own functions cover all angles, and would take most of the
    time to compile this module.
    """
    square = angle * angle
    sine, cosine = jnp.ones_like(angle), jnp.ones_like(angle)
    for k in (8, 6, 4, 2):
        sine = 1 - sine * square * (1 / (k * (k + 1)))
    for k in (10, 8, 6, 4, 2):
        cosine = 1 - cosine * square * (1 / (k * (k - 1)))
    return angle * sine, cosine


def _separation(config: Config, alpha: Scalar) -> Scalar:
    return jax.nn.sigmoid(config.stall_sharpness * (jnp.abs(alpha) - config.stall_angle))


def lift_coefficient(config: Config, frame: Airframe, alpha: Scalar) -> Scalar:
    """CL = (1 - s) c a + s sin 2a, where s is the fraction of separated flow."""
    s = _separation(config, alpha)
    sine, cosine = sin_cos(alpha)
    return (1 - s) * frame.lift_slope * alpha + s * 2 * sine * cosine


def drag_coefficient(config: Config, frame: Airframe, alpha: Scalar, mach: Scalar) -> Scalar:
    """CD = CD0 + (1 - s) k (c a)² + s d sin² a + wave drag, which rises from Mach 0.8 to 1.1."""
    s = _separation(config, alpha)
    attached = frame.induced_drag * (frame.lift_slope * alpha) ** 2
    rise = jnp.clip((mach - 0.8) / 0.3, 0.0, 1.0)
    wave = frame.wave_drag * rise * rise * (3 - 2 * rise)
    return frame.drag + (1 - s) * attached + s * frame.stalled_drag * sin_cos(alpha)[0] ** 2 + wave


def alpha_for(
    config: Config, frame: Airframe, force: Scalar, pressure: Scalar, thrust: Scalar
) -> Scalar:
    """Return the angle of attack at which L + T sin a equals ``force`` (N, positive).

    Takes one Newton step from the linear solution. Up to the stall, the force is at most 0.5% too
    low. The angle is limited to ``config.most_alpha``.
    """
    qs = jnp.maximum(pressure, 1.0) * frame.wing_area
    a = jnp.minimum(force / (frame.lift_slope * qs + thrust), config.most_alpha)
    s, (sine, cosine) = _separation(config, a), sin_cos(a)
    attached, separated = frame.lift_slope * a, 2 * sine * cosine
    reached = qs * ((1 - s) * attached + s * separated) + thrust * sine
    slope = (1 - s) * frame.lift_slope + s * (4 * cosine * cosine - 2)
    slope = slope - config.stall_sharpness * s * (1 - s) * (attached - separated)
    return jnp.minimum(
        a + (force - reached) / (qs * jnp.maximum(slope, 1.0) + thrust * cosine), config.most_alpha
    )


def alpha_limits(
    config: Config, frame: Airframe, pressure: Scalar, thrust: Scalar
) -> tuple[Scalar, Scalar]:
    """Return the limits of the angle of attack that keep the load within bounds."""
    weight = frame.mass * GRAVITY
    linear = (
        frame.lift_slope * jnp.maximum(pressure, 1.0) * frame.wing_area + thrust
    )  # no stall at negative angles
    low = jnp.maximum(frame.least_g * weight / linear, config.least_alpha)
    full = jnp.full_like(pressure, 1.0) * (frame.most_g * weight)
    return low, alpha_for(config, frame, full, pressure, thrust)


def axes(flight: Flight) -> Axes:
    """nose = cos a vh + sin a lh, up = cos a lh - sin a vh, right = vh x lh."""
    vh, lh = unit(Vec.of(flight.velocity), _SLOWEST), Vec.of(flight.lift)
    sine, cosine = sin_cos(flight.alpha)
    return Axes(vh * cosine + lh * sine, cross(vh, lh), lh * cosine - vh * sine)


def angles(flight: Flight) -> tuple[Scalar, Scalar, Scalar]:
    """Roll, pitch and flight-path angle (rad)."""
    nose, right, up = axes(flight)
    climb = Vec.of(flight.velocity).z / jnp.maximum(norm(Vec.of(flight.velocity)), _SLOWEST)
    return (
        jnp.arctan2(-right.z, up.z),
        jnp.arcsin(jnp.clip(nose.z, -1, 1)),
        jnp.arcsin(jnp.clip(climb, -1, 1)),
    )


def fly(config: Config, frame: Airframe, flight: Flight, controls: Controls) -> Flight:
    """Fly one decision: ``config.num_substeps`` substeps with constant controls."""

    def body(index: Int[Array, ""], flight: Flight) -> Flight:
        return substep(config, frame, flight, controls, config.substep)

    return jax.lax.fori_loop(0, config.num_substeps, body, flight)


def substep(
    config: Config, frame: Airframe, flight: Flight, controls: Controls, dt: float
) -> Flight:
    """Half a roll, half a kick, an exact rotation, half a kick, half a roll.

    The forces are evaluated only once. Lift does no work: it rotates (vh, lh). The position changes
    by the mean of the four intermediate velocities, so that gravity's work matches the change of
    height up to rounding. The forces' change with speed within a substep is included to first
    order, which makes the whole scheme second order in dt without further evaluations.
    """
    half = 0.5 * dt
    p, v, lh = Vec.of(flight.position), Vec.of(flight.velocity), Vec.of(flight.lift)
    speed = jnp.maximum(norm(v), _SLOWEST)
    vh = v * (1 / speed)
    around = air(config, p.z, speed)
    thrust = controls.throttle * frame.thrust * around.thrust_share
    authority = _authority(config, around.pressure) * half
    low, high = alpha_limits(config, frame, around.pressure, thrust)
    turn = controls.aileron * (frame.roll_rate * authority)
    roll_sine, roll_cosine = sin_cos(turn)
    pull = controls.elevator * (frame.alpha_rate * authority)

    lh = lh * roll_cosine + cross(vh, lh) * roll_sine
    alpha = jnp.clip(flight.alpha + pull, low, high)
    per_mass = around.pressure * (frame.wing_area / frame.mass)
    lift = per_mass * lift_coefficient(config, frame, alpha)
    drag = per_mass * drag_coefficient(config, frame, alpha, around.mach)
    alpha_sine, alpha_cosine = sin_cos(alpha)
    # Drag at mid-substep, where this force and gravity have changed the speed for half the time.
    stiffness = dt * drag / speed
    along = (thrust / frame.mass * alpha_cosine - drag + stiffness * GRAVITY * vh.z) / (
        1 + stiffness
    )

    v1, speed1, vh1, lh = _kick(v, vh, lh, along, half)
    growth = speed1 / speed  # of the speed until mid-substep; lift grows with its square
    across = lift * growth * growth + thrust / frame.mass * alpha_sine
    bend = (
        across * dt / jnp.maximum(speed1, 1.0)
    )  # at most half a radian, from thrust alone and nearly at rest
    sine, cosine = sin_cos(bend)
    vh2, lh = vh1 * cosine + lh * sine, lh * cosine - vh1 * sine
    v2 = vh2 * speed1
    v3, _, vh3, lh = _kick(v2, vh2, lh, along, half)

    lh = unit(lh * roll_cosine + cross(vh3, lh) * roll_sine)
    alpha = jnp.clip(alpha + pull, low, high)
    p = p + (v + v1 + v2 + v3) * (0.25 * dt)
    return Flight(p.array(), v3.array(), lh.array(), alpha, controls.throttle)


def _authority(config: Config, pressure: Scalar) -> Scalar:
    """Return the effectiveness of control surfaces at this dynamic pressure, from 0 to 1."""
    full = 0.5 * config.density * config.control_speed**2
    return jnp.clip(pressure / full, config.least_control, 1.0)


def _kick(v: Vec, vh: Vec, lh: Vec, along: Scalar, dt: float) -> tuple[Vec, Scalar, Vec, Vec]:
    """Apply gravity and the force along the path for ``dt``, and transport lh with vh."""
    v = v + vh * (along * dt)
    v = Vec(v.x, v.y, v.z - GRAVITY * dt)
    speed = norm(v)
    is_moving = speed > _SLOWEST
    new = where(is_moving, v * (1 / jnp.maximum(speed, _SLOWEST)), vh)
    speed = jnp.maximum(speed, _SLOWEST)
    # Parallel transport: the smallest rotation from vh to new. On lh, perpendicular to vh, it is
    # the reflection in the plane perpendicular to their sum. If that sum vanishes (passing through
    # V = 0 straight up), lh stays.
    total = vh + new
    square = dot(total, total)
    share = jnp.where(square > 1e-8, 2 * dot(lh, total) / jnp.maximum(square, 1e-8), 0.0)
    lh = lh - total * share
    return where(is_moving, v, new * _SLOWEST), speed, new, unit(lh - new * dot(lh, new))


def trim(config: Config, frame: Airframe, height: Scalar, speed: Scalar) -> tuple[Scalar, Scalar]:
    """Return angle of attack and throttle for straight and level flight."""
    around = air(config, height, speed)
    weight = jnp.full_like(speed, 1.0) * (frame.mass * GRAVITY)

    def body(index: Int[Array, ""], guess: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        alpha = alpha_for(config, frame, weight, around.pressure, guess[1])
        drag = (
            around.pressure * frame.wing_area * drag_coefficient(config, frame, alpha, around.mach)
        )
        return alpha, drag / sin_cos(alpha)[1]

    start = jnp.zeros_like(speed), jnp.zeros_like(speed)
    alpha, thrust = jax.lax.fori_loop(
        0, 6, body, start
    )  # each iteration reduces the error tenfold or more
    return alpha, jnp.clip(thrust / (frame.thrust * around.thrust_share), 0.0, 1.0)
