"""The heuristic pilots. They see the true state, remember nothing, and fly with the same limits as everyone.

A pilot wishes for a direction of flight: at its target, away from a collision, away from the arena's edge. A tracker
turns the wish into aileron, elevator and throttle. What it may use depends on its skill, from 0 to 1.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.envs.aerojax.config import GRAVITY, Airframe, Config
from ratiosym.envs.aerojax.dynamics import Axes, Flight, air, alpha_for, axes
from ratiosym.envs.aerojax.vectors import Vec, cross, dot, norm, unit, where

LEVELS: dict[str, float] = {"straight": 0.0, "L1": 0.2, "L2": 0.5, "L3": 0.75, "L4": 1.0}
_MOST_LIFT = 1.309  # 1, the largest lift coefficient of the attached flow

Each = Float[Array, "n"]


class Pilot(NamedTuple):
    """What a pilot knows of its own aircraft, [n]."""

    place: Vec
    velocity: Vec
    heading: Vec  # unit
    body: Axes
    speed: Each
    load: Each  # g, the most it may pull: its skill's, or what the wing carries


class Wish(NamedTuple):
    """Where a pilot wants to go."""

    direction: Vec  # unit
    throttle: Each
    urgency: Each  # 1/s, wanted turn rate for each radian of error


def decide(
    config: Config,
    frame: Airframe,
    own: Flight,
    foes: Flight,
    alive: tuple[Bool[Array, "n"], Bool[Array, "n"]],
    skill: Each,
    noise: Float[Array, "n 3"],
) -> Float[Array, "n 3"]:
    """Actions of one team. ``alive`` is of (own, foes); ``noise`` is uniform in (-1, 1)."""
    velocity = Vec.of(own.velocity)
    speed = jnp.maximum(norm(velocity), 1.0)
    around = air(config, own.position[:, 2], speed)
    thrust = frame.thrust * around.thrust_share
    carried = around.pressure * frame.wing_area * _MOST_LIFT / (frame.mass * GRAVITY)
    load = jnp.minimum(frame.most_g * (0.35 + 0.65 * skill), carried)
    me = Pilot(Vec.of(own.position), velocity, velocity * (1 / speed), axes(own), speed, load)

    wish, is_evading = _fight(me, foes, alive[1], skill)
    stray = Vec.of(noise) * (_NOISE * (1 - skill) * (skill > 0))
    wish = _calm(config, me, wish._replace(direction=unit(wish.direction + stray)), skill)
    wish, is_saving, is_clear = _protect(config, me, wish)
    wish = _avoid(me, wish, Vec.of(foes.position), Vec.of(foes.velocity), alive, is_clear)

    # Energy: a slow aircraft that is not in danger turns no harder than it can without slowing down.
    corner = jnp.sqrt(frame.most_g / jnp.maximum(carried, 0.1)) * speed
    drag_left = thrust / jnp.maximum(around.pressure * frame.wing_area, 1.0) - frame.drag
    sustained = jnp.sqrt(jnp.maximum(drag_left, 0.0) / frame.induced_drag) / _MOST_LIFT * carried
    is_thrifty = (skill >= LEVELS["L4"]) & (speed < 0.75 * corner) & ~is_evading & ~is_saving
    me = me._replace(load=jnp.where(is_thrifty, jnp.minimum(load, jnp.maximum(sustained, 1.5)), load))
    return _track(config, frame, own, me, wish, around.pressure, thrust)


_NOISE = 0.35  # rad, aiming error of a pilot without skill


def _fight(me: Pilot, foes: Flight, alive: Bool[Array, "n"], skill: Each) -> tuple[Wish, Bool[Array, "n"]]:
    """Pursue the nearest foe that is in front; break into a foe that has me before its nose."""
    away = Vec.of(foes.position)[None, :] - me.place[:, None]
    distance = jnp.maximum(norm(away), 1.0)
    sight = away * (1 / distance)
    facing = dot(me.body.nose[:, None], sight)
    score = jnp.where(alive[None, :], distance * (1.5 - facing), jnp.inf)
    threat = -dot(axes(foes).nose[None, :], sight)  # cosine of the angle from its nose to me
    is_threat = (distance < 2500.0) & (threat > 0.82) & (facing < 0.5) & alive[None, :]
    is_skilled = skill >= LEVELS["L3"]
    is_evading = jnp.any(is_threat, axis=1) & is_skilled
    score = jnp.where(is_evading[:, None], jnp.where(is_threat, distance, jnp.inf), score)

    chosen = jnp.argmin(score, axis=1)[:, None] == jnp.arange(alive.shape[0])[None, :]
    away, distance = _pick(chosen, away), jnp.sum(jnp.where(chosen, distance, 0.0), axis=1)
    course = _pick(chosen, Vec.of(foes.velocity)[None, :])
    closing = -dot(course - me.velocity, away) / distance
    is_behind = dot(course, me.heading) > 0.5 * norm(course)
    is_overshooting = is_behind & (distance < 900.0) & (closing > 0.12 * distance) & ~is_evading
    leads = is_skilled & (distance > 700.0) & ~is_evading
    ahead = jnp.where(is_overshooting, -0.6, jnp.where(leads, jnp.minimum(distance / 700.0, 2.0), 0.0))
    pursuit = unit(away + course * ahead)

    level = unit(Vec(me.heading.x, me.heading.y, jnp.zeros_like(me.speed)), 1e-3)
    is_fighting = skill > 0
    direction = where(is_fighting, pursuit, level)
    wanted = norm(course) + 0.1 * (distance - 350.0)
    chase = jnp.clip(0.5 + (wanted - me.speed) / 40.0, 0.0, 1.0)
    throttle = jnp.where(is_behind & (distance < 900.0) & ~is_evading, chase, 1.0)
    throttle = jnp.where(is_fighting, throttle, jnp.clip(0.2 + (220.0 - me.speed) / 40.0, 0.0, 1.0))
    return Wish(direction, throttle, jnp.where(is_evading, 3.0, 1.0 + 1.5 * skill)), is_evading & is_fighting


def _pick(chosen: Bool[Array, "n m"], vectors: Vec) -> Vec:
    return Vec(*(jnp.sum(jnp.where(chosen, part, 0.0), axis=1) for part in (vectors.x, vectors.y, vectors.z)))


def _avoid(
    me: Pilot,
    wish: Wish,
    place: Vec,
    velocity: Vec,
    alive: tuple[Bool[Array, "n"], Bool[Array, "n"]],
    is_clear: Bool[Array, "n"],
) -> Wish:
    """Turn away from whoever would come too close within the next seconds, friend or foe."""
    n = me.speed.shape[0]
    away = _join(me.place, place)[None, :] - me.place[:, None]
    drift = _join(me.velocity, velocity)[None, :] - me.velocity[:, None]
    when = jnp.clip(-dot(away, drift) / jnp.maximum(dot(drift, drift), 1.0), 0.0, 3.0)
    closest = away + drift * when
    miss = norm(closest)
    is_close = (miss < 100.0 + 30.0 * when) & (norm(away) < 1500.0) & jnp.concatenate(alive)[None, :]
    is_close = is_close & ~jnp.eye(n, 2 * n, dtype=bool)
    weight = jnp.where(is_close, 1.0 / (0.3 + when), 0.0)
    # Away from where the other will be. Straight at each other both turn right.
    right = me.body.right[:, None]
    escape = (closest * (-1.0 / jnp.maximum(miss, 1.0)) + right * jnp.exp(-miss / 30.0)) * weight
    total = Vec(*(jnp.sum(part, axis=1) for part in (escape.x, escape.y, escape.z)))
    is_avoiding = jnp.any(is_close, axis=1) & is_clear
    sideways = unit(total - me.heading * dot(total, me.heading), 1e-3)
    direction = where(is_avoiding, unit(me.heading + sideways), wish.direction)
    return wish._replace(direction=direction, urgency=jnp.where(is_avoiding, 4.0, wish.urgency))


def _join(own: Vec, foes: Vec) -> Vec:
    return Vec(*(jnp.concatenate(pair) for pair in ((own.x, foes.x), (own.y, foes.y), (own.z, foes.z))))


def _calm(config: Config, me: Pilot, wish: Wish, skill: Each) -> Wish:
    """No more speed and no steeper dive than the pilot can recover from, less so near ground, wall and ceiling."""
    room = jnp.clip((config.radius - jnp.sqrt(me.place.x**2 + me.place.y**2)) / 3000.0, 0.2, 1.0)
    steepest = -(0.3 + 0.4 * skill) * room * jnp.clip((me.place.z - 500.0) / 2500.0, 0.0, 1.0)
    highest = jnp.clip((config.ceiling - 800.0 - me.place.z) / 2500.0, 0.0, 1.0)
    direction = Vec(wish.direction.x, wish.direction.y, jnp.clip(wish.direction.z, steepest, highest))
    excess = (me.speed - 220.0 - 130.0 * skill) / 30.0
    return wish._replace(direction=unit(direction), throttle=jnp.minimum(wish.throttle, jnp.clip(1 - excess, 0.0, 1.0)))


def _protect(config: Config, me: Pilot, wish: Wish) -> tuple[Wish, Bool[Array, "n"], Bool[Array, "n"]]:
    """Away from ground, ceiling and wall while a turn at the allowed load still suffices.

    Also says who is doing so, and who is clear of the ground and the ceiling.
    """
    load = jnp.maximum(0.8 * me.load, 1.3)
    radius = me.speed * me.speed / GRAVITY  # of a turn at 1 g
    climb = me.heading.z
    across = jnp.sqrt(jnp.maximum(1 - climb * climb, 0.0))
    pull_up = radius / (load - 1)
    bend = jnp.where(climb < 0, 1 - across, 0.0) * pull_up
    sinks = me.place.z < 400.0 + bend - 2.5 * jnp.minimum(me.velocity.z, 0.0)
    crest = jnp.where(climb > 0, 1 - across, 0.0) * radius / load
    zooms = me.place.z > config.ceiling - (500.0 + crest + 2.5 * jnp.maximum(me.velocity.z, 0.0))

    reach = jnp.maximum(jnp.sqrt(me.place.x**2 + me.place.y**2), 1.0)
    outward = Vec(me.place.x / reach, me.place.y / reach, jnp.zeros_like(reach))
    out = dot(me.heading, outward)
    sweep = radius / jnp.sqrt(load * load - 1) * (1 - jnp.sqrt(jnp.maximum(1 - out * out, 0.0)))
    # A dive is left first, and that takes room too.
    need = 300.0 + sweep + jnp.maximum(out, 0.0) * (2.0 * me.speed - pull_up * jnp.minimum(climb, 0.0))
    strays = (out > -0.1) & (reach > config.radius - need)
    sinks = sinks | (strays & (climb < -0.3))

    along = me.heading - outward * out
    inward = unit(Vec(along.x, along.y, jnp.zeros_like(reach)) - outward * 0.7, 1e-3)
    direction = where(strays, inward, wish.direction)
    # Straight up or down, with next to no turn, which would cost load.
    level = Vec(me.heading.x, me.heading.y, jnp.zeros_like(reach)) - outward * jnp.where(strays, 0.3, 0.0)
    level = unit(level, 1e-3)
    direction = where(sinks, unit(Vec(level.x, level.y, jnp.full_like(reach, 0.4))), direction)
    direction = where(zooms, unit(Vec(level.x, level.y, jnp.full_like(reach, -0.4))), direction)
    throttle = jnp.where(sinks & (me.speed > 200.0), 0.0, wish.throttle)
    is_saving = sinks | zooms | strays
    return Wish(direction, throttle, jnp.where(is_saving, 4.0, wish.urgency)), is_saving, ~(sinks | zooms)


def _track(
    config: Config, frame: Airframe, own: Flight, me: Pilot, wish: Wish, pressure: Each, thrust: Each
) -> Float[Array, "n 3"]:
    """Bank the lift vector into the wanted acceleration (gravity's share included) and pull that much."""
    vh, lh = me.heading, Vec.of(own.lift)
    ahead = dot(vh, wish.direction)
    aside = wish.direction - vh * ahead
    length = jnp.maximum(norm(aside), 1e-4)
    error = jnp.arctan2(length, ahead)
    # m/s², across the path. What gravity takes is left of the load, so that a hard turn does not sink.
    most = GRAVITY * jnp.sqrt(jnp.maximum(me.load * me.load - 1, 0.04))
    turn = aside * (jnp.minimum(me.speed * wish.urgency * error, most) / length)
    wanted = turn + Vec(-vh.x * vh.z, -vh.y * vh.z, 1 - vh.z * vh.z) * GRAVITY
    upward = dot(wanted, lh)
    bank = jnp.arctan2(dot(wanted, cross(vh, lh)), upward)
    # Off the wanted plane a pull would lead astray: no more than its part in that plane.
    size = jnp.maximum(norm(wanted), 1e-3)
    pull = jnp.minimum(size, me.load * GRAVITY) * jnp.maximum(upward / size, 0.0)
    alpha = alpha_for(config, frame, pull * frame.mass, pressure, wish.throttle * thrust)
    aileron = bank / (frame.roll_rate * 2 * config.decision)
    elevator = (alpha - own.alpha) / (frame.alpha_rate * config.decision)
    return jnp.clip(jnp.stack([aileron, elevator, 2 * wish.throttle - 1], axis=-1), -1.0, 1.0)
