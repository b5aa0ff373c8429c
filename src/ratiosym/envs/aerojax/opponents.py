"""The heuristic pilots: memoryless, with access to the true state, and with the usual limits.

A pilot chooses a desired direction of flight: towards its target, away from a collision, away from
the boundary. A tracker turns it into aileron, elevator and throttle. The abilities of a pilot
depend on its skill, from 0 to 1.
"""

from math import cos, radians
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.envs.aerojax.config import GRAVITY, Airframe, Config, Script
from ratiosym.envs.aerojax.dynamics import Air, Axes, Flight, air, alpha_for, axes
from ratiosym.envs.aerojax.vectors import Vec, cross, dot, norm, unit, where

LEVELS: dict[str, float] = {"straight": 0.0, "L1": 0.2, "L2": 0.5, "L3": 0.75, "L4": 1.0}
_MOST_LIFT = 1.309  # 1, maximum lift coefficient of attached flow

Each = Float[Array, "n"]


class Pilot(NamedTuple):
    """State of a pilot's own aircraft, [n]."""

    place: Vec
    velocity: Vec
    heading: Vec  # unit
    body: Axes
    speed: Each
    load: Each  # g, maximum: limited by its skill or by what the wing can carry


class Wish(NamedTuple):
    """A pilot's desired direction of flight."""

    direction: Vec  # unit
    throttle: Each
    urgency: Each  # 1/s, desired turn rate per radian of error


class Danger(NamedTuple):
    """Boundaries that a pilot is too close to, [n]."""

    ground: Bool[Array, "n"]
    ceiling: Bool[Array, "n"]
    wall: Bool[Array, "n"]


def decide(
    config: Config,
    frame: Airframe,
    own: Flight,
    foes: Flight,
    alive: tuple[Bool[Array, "n"], Bool[Array, "n"]],
    skill: Each,
    noise: Float[Array, "n 3"],
) -> Float[Array, "n 3"]:
    """Return one team's actions. ``alive`` is (own, foes); ``noise`` is uniform in (-1, 1).

    A pilot's wish is limited to what it can recover from, then overridden near ground, ceiling and
    wall. Collision avoidance comes after the wall, as two aircraft turning away from it side by
    side used to collide, but never overrides ground or ceiling.
    """
    script = config.script
    velocity = Vec.of(own.velocity)
    speed = jnp.maximum(norm(velocity), 1.0)
    around = air(config, own.position[:, 2], speed)
    carried = around.pressure * frame.wing_area * _MOST_LIFT / (frame.mass * GRAVITY)
    load = jnp.minimum(frame.most_g * _by_skill(script.load, skill), carried)
    me = Pilot(Vec.of(own.position), velocity, velocity * (1 / speed), axes(own), speed, load)

    wish, is_evading = _fight(script, me, foes, alive[1], skill)
    stray = Vec.of(noise) * (script.noise * (1 - skill) * (skill > 0))
    wish = _calm(config, me, wish._replace(direction=unit(wish.direction + stray)), skill)
    danger = _danger(config, me)
    wish = _protect(script, me, wish, danger)
    is_level = ~(danger.ground | danger.ceiling)
    wish = _avoid(script, me, wish, (Vec.of(foes.position), Vec.of(foes.velocity)), alive, is_level)
    may_save = (skill >= script.energy_skill) & ~is_evading & is_level & ~danger.wall
    load = _thrifty(config, frame, me, around, carried, may_save)
    # In danger, pilots may pull harder than they plan with.
    hardest = jnp.minimum(jnp.minimum(script.panic * load, frame.most_g), carried)
    me = me._replace(load=jnp.where(is_level & ~danger.wall, load, hardest))
    return _track(config, frame, own, me, wish, around)


def _by_skill(pair: tuple[float, float], skill: Float[Array, "*b"]) -> Float[Array, "*b"]:
    return pair[0] + pair[1] * skill


def _fight(
    script: Script, me: Pilot, foes: Flight, alive: Bool[Array, "n"], skill: Each
) -> tuple[Wish, Bool[Array, "n"]]:
    """Pursue the nearest foe ahead; break into a foe that has us in front of its nose."""
    away = Vec.of(foes.position)[None, :] - me.place[:, None]
    distance = jnp.maximum(norm(away), 1.0)
    sight = away * (1 / distance)
    facing = dot(me.body.nose[:, None], sight)
    score = jnp.where(alive[None, :], distance * (script.turn_weight - facing), jnp.inf)
    threat = -dot(axes(foes).nose[None, :], sight)  # cosine of the angle from its nose to me
    is_threat = (threat > cos(radians(script.threat_angle))) & (
        facing < cos(radians(script.answer_angle))
    )
    is_threat = is_threat & (distance < script.threat_range) & alive[None, :]
    is_skilled = skill >= script.lead_skill
    is_evading = jnp.any(is_threat, axis=1) & is_skilled
    score = jnp.where(is_evading[:, None], jnp.where(is_threat, distance, jnp.inf), score)

    chosen = jnp.argmin(score, axis=1)[:, None] == jnp.arange(alive.shape[0])[None, :]
    away, distance = _pick(chosen, away), jnp.sum(jnp.where(chosen, distance, 0.0), axis=1)
    course = _pick(chosen, Vec.of(foes.velocity)[None, :])
    wish = _pursue(script, me, away, distance, course, is_skilled & ~is_evading, is_evading)
    urgency = jnp.where(is_evading, script.break_urgency, _by_skill(script.urgency, skill))

    is_fighting = skill > 0
    level = unit(Vec(me.heading.x, me.heading.y, jnp.zeros_like(me.speed)), 1e-3)
    cruise = jnp.clip(0.2 + (script.cruise - me.speed) / script.throttle_band, 0.0, 1.0)
    direction = where(is_fighting, wish.direction, level)
    return Wish(
        direction, jnp.where(is_fighting, wish.throttle, cruise), urgency
    ), is_evading & is_fighting


def _pursue(
    script: Script,
    me: Pilot,
    away: Vec,
    distance: Each,
    course: Vec,
    may_lead: Bool[Array, "n"],
    breaks: Bool[Array, "n"],
) -> Wish:
    """Aim ahead of a far target, at a near one, or behind one being overshot.

    Close behind the target, match its speed.
    """
    closing = -dot(course - me.velocity, away) / distance
    is_behind = (
        (dot(course, me.heading) > 0.5 * norm(course)) & (distance < script.chase_range) & ~breaks
    )
    overshoots = is_behind & (closing > script.overshoot_rate * distance)
    lead = jnp.minimum(distance / script.lead_speed, script.lead_time)
    ahead = jnp.where(may_lead & (distance > script.lead_range), lead, 0.0)
    ahead = jnp.where(overshoots, -script.lag_time, ahead)
    wanted = norm(course) + script.chase_gain * (distance - script.chase_distance)
    chase = jnp.clip(0.5 + (wanted - me.speed) / script.throttle_band, 0.0, 1.0)
    return Wish(
        unit(away + course * ahead), jnp.where(is_behind, chase, 1.0), jnp.ones_like(distance)
    )


def _pick(chosen: Bool[Array, "n m"], vectors: Vec) -> Vec:
    return Vec(
        *(
            jnp.sum(jnp.where(chosen, part, 0.0), axis=1)
            for part in (vectors.x, vectors.y, vectors.z)
        )
    )


def _calm(config: Config, me: Pilot, wish: Wish, skill: Each) -> Wish:
    """Limit speed and dive angle to what can be recovered from, more so near the boundaries."""
    script = config.script
    room = jnp.clip((config.radius - _reach(me)) / script.room, 0.2, 1.0)
    below = jnp.clip((me.place.z - 500.0) / script.depth, 0.0, 1.0)
    above = jnp.clip((config.ceiling - 500.0 - me.place.z) / script.depth, 0.0, 1.0)
    z = jnp.clip(wish.direction.z, -_by_skill(script.steepest, skill) * room * below, above)
    excess = (me.speed - _by_skill(script.fastest, skill)) / script.throttle_band
    throttle = jnp.minimum(wish.throttle, jnp.clip(1 - excess, 0.0, 1.0))
    return wish._replace(
        direction=unit(Vec(wish.direction.x, wish.direction.y, z)), throttle=throttle
    )


def _reach(me: Pilot) -> Each:
    """Return the distance from the airspace's axis in metres."""
    return jnp.maximum(jnp.sqrt(me.place.x * me.place.x + me.place.y * me.place.y), 1.0)


def _danger(config: Config, me: Pilot) -> Danger:
    """Return where a turn at the allowed load, started now, would only just suffice."""
    script = config.script
    load = jnp.maximum(script.reserve * me.load, 1.3)
    radius = me.speed * me.speed / GRAVITY  # of a turn at 1 g
    climb = me.heading.z
    arc = 1 - jnp.sqrt(
        jnp.maximum(1 - climb * climb, 0.0)
    )  # height of the turn to level flight, in radii
    pull_up = radius / (load - 1)
    sinking, rising = jnp.minimum(me.velocity.z, 0.0), jnp.maximum(me.velocity.z, 0.0)
    ground = (
        me.place.z
        < script.floor + jnp.where(climb < 0, arc, 0.0) * pull_up - script.reaction * sinking
    )
    crest = jnp.where(climb > 0, arc, 0.0) * radius / load
    ceiling = me.place.z > config.ceiling - (script.roof + crest + script.reaction * rising)

    reach = _reach(me)
    out = (me.heading.x * me.place.x + me.heading.y * me.place.y) / reach
    sweep = radius / jnp.sqrt(load * load - 1) * (1 - jnp.sqrt(jnp.maximum(1 - out * out, 0.0)))
    # A dive must be recovered first, which takes room, too.
    way = script.wall_reaction * me.speed - pull_up * jnp.minimum(climb, 0.0)
    wall = (out > -0.1) & (
        reach > config.radius - (script.wall + 1.2 * sweep + jnp.maximum(out, 0.0) * way)
    )
    return Danger(ground | (wall & (climb < -script.shallow)), ceiling, wall)


def _protect(script: Script, me: Pilot, wish: Wish, danger: Danger) -> Wish:
    """Turn away from ground, ceiling and wall."""
    zero = jnp.zeros_like(me.speed)
    reach = _reach(me)
    outward = Vec(me.place.x / reach, me.place.y / reach, zero)
    along = me.heading - outward * dot(me.heading, outward)
    inward = unit(Vec(along.x, along.y, zero) - outward * 0.7, 1e-3)
    direction = where(danger.wall, inward, wish.direction)
    # Leave a steep dive straight up, nearly without turning, which would cost load; otherwise pull
    # up and inwards at once.
    ahead = Vec(me.heading.x, me.heading.y, zero) - outward * jnp.where(danger.wall, 0.3, 0.0)
    level = where(danger.wall & (me.heading.z >= -script.shallow), inward, unit(ahead, 1e-3))
    direction = where(danger.ground, unit(Vec(level.x, level.y, zero + 0.4)), direction)
    direction = where(danger.ceiling, unit(Vec(level.x, level.y, zero - 0.4)), direction)
    throttle = jnp.where(danger.ground & (me.speed > 200.0), 0.0, wish.throttle)
    urgency = jnp.where(
        danger.ground | danger.ceiling | danger.wall, script.save_urgency, wish.urgency
    )
    return Wish(direction, throttle, urgency)


def _avoid(
    script: Script,
    me: Pilot,
    wish: Wish,
    foes: tuple[Vec, Vec],
    alive: tuple[Bool[Array, "n"], Bool[Array, "n"]],
    may_avoid: Bool[Array, "n"],
) -> Wish:
    """Turn away from any aircraft, friend or foe, that would come too close within seconds."""
    n = me.speed.shape[0]
    away = _join(me.place, foes[0])[None, :] - me.place[:, None]
    drift = _join(me.velocity, foes[1])[None, :] - me.velocity[:, None]
    when = jnp.clip(-dot(away, drift) / jnp.maximum(dot(drift, drift), 1.0), 0.0, script.avoid_time)
    closest = away + drift * when
    miss = norm(closest)
    is_close = (miss < _by_skill(script.avoid_miss, when)) & (norm(away) < script.avoid_range)
    is_close = is_close & jnp.concatenate(alive)[None, :] & ~jnp.eye(n, 2 * n, dtype=bool)
    weight = jnp.where(is_close, 1.0 / (0.3 + when), 0.0)
    # Turn away from where the other will be. If flying straight at each other, both turn right.
    right = me.body.right[:, None]
    escape = (closest * (-1.0 / jnp.maximum(miss, 1.0)) + right * jnp.exp(-miss / 30.0)) * weight
    total = Vec(*(jnp.sum(part, axis=1) for part in (escape.x, escape.y, escape.z)))
    is_avoiding = jnp.any(is_close, axis=1) & may_avoid
    sideways = unit(total - me.heading * dot(total, me.heading), 1e-3)
    direction = where(is_avoiding, unit(me.heading + sideways), wish.direction)
    return wish._replace(
        direction=direction, urgency=jnp.where(is_avoiding, script.save_urgency, wish.urgency)
    )


def _join(own: Vec, foes: Vec) -> Vec:
    return Vec(
        *(jnp.concatenate(pair) for pair in ((own.x, foes.x), (own.y, foes.y), (own.z, foes.z)))
    )


def _thrifty(
    config: Config,
    frame: Airframe,
    me: Pilot,
    around: Air,
    carried: Each,
    may_save: Bool[Array, "n"],
) -> Each:
    """Limit the load to what thrust sustains well below corner speed, for energy-saving pilots."""
    corner = jnp.sqrt(frame.most_g / jnp.maximum(carried, 0.1)) * me.speed
    full = frame.thrust * around.thrust_share / jnp.maximum(around.pressure * frame.wing_area, 1.0)
    sustained = (
        jnp.sqrt(jnp.maximum(full - frame.drag, 0.0) / frame.induced_drag) / _MOST_LIFT * carried
    )
    is_slow = may_save & (me.speed < config.script.slow_share * corner)
    return jnp.where(is_slow, jnp.minimum(me.load, jnp.maximum(sustained, 1.5)), me.load)


def _track(
    config: Config, frame: Airframe, own: Flight, me: Pilot, wish: Wish, around: Air
) -> Float[Array, "n 3"]:
    """Bank the lift vector into the desired acceleration, including gravity, and pull as much."""
    vh, lh = me.heading, Vec.of(own.lift)
    ahead = dot(vh, wish.direction)
    aside = wish.direction - vh * ahead
    length = jnp.maximum(norm(aside), 1e-4)
    error = jnp.arctan2(length, ahead)
    # m/s², across the path. Gravity's part of the load is reserved, so that hard turns do not sink.
    most = GRAVITY * jnp.sqrt(jnp.maximum(me.load * me.load - 1, 0.04))
    turn = aside * (jnp.minimum(me.speed * wish.urgency * error, most) / length)
    wanted = turn + Vec(-vh.x * vh.z, -vh.y * vh.z, 1 - vh.z * vh.z) * GRAVITY
    upward = dot(wanted, lh)
    bank = jnp.arctan2(dot(wanted, cross(vh, lh)), upward)
    # Outside the desired plane, pull no more than the component within that plane.
    size = jnp.maximum(norm(wanted), 1e-3)
    pull = jnp.minimum(size, me.load * GRAVITY) * jnp.maximum(upward / size, 0.0)
    thrust = wish.throttle * frame.thrust * around.thrust_share
    alpha = alpha_for(config, frame, pull * frame.mass, around.pressure, thrust)
    aileron = bank / (frame.roll_rate * 2 * config.decision)
    elevator = (alpha - own.alpha) / (frame.alpha_rate * config.decision)
    return jnp.clip(jnp.stack([aileron, elevator, 2 * wish.throttle - 1], axis=-1), -1.0, 1.0)
