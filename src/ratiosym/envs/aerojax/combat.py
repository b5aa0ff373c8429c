"""Weapon locks, damage, collisions and the boundaries of the airspace."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ratiosym.envs.aerojax.config import Config
from ratiosym.envs.aerojax.vectors import Vec, dot

# Fate of an aircraft: 0 while it flies, otherwise the cause of its loss.
ALIVE, SHOT, CRASHED, LEFT, COLLIDED = range(5)


class Locks(NamedTuple):
    """Current target of each aircraft, by team."""

    target: Int[Array, "2 n"]  # index within the other team, -1 for none
    time: Float[Array, "2 n"]  # s, since the target entered the cone


def update_locks(
    config: Config, locks: Locks, in_range: Bool[Array, "2 n n"], distance: Float[Array, "2 n n"]
) -> Locks:
    """Keep a target while it is alive and in the cone, else lock the nearest one from time zero."""
    foes = jnp.arange(in_range.shape[-1])
    is_target = locks.target[..., None] == foes[None, None, :]
    keeps = jnp.any(is_target & in_range, axis=-1)
    nearest = jnp.argmin(jnp.where(in_range, distance, jnp.inf), axis=-1).astype(jnp.int32)
    found = jnp.where(jnp.any(in_range, axis=-1), nearest, -1)
    return Locks(
        jnp.where(keeps, locks.target, found), jnp.where(keeps, locks.time + config.decision, 0.0)
    )


def damage(config: Config, locks: Locks, distance: Float[Array, "2 n n"]) -> Float[Array, "2 n"]:
    """Return the health that each aircraft loses in this decision, summed over shooters."""
    foes = jnp.arange(distance.shape[-1])
    settled = jnp.clip((locks.time - config.lock_delay) / config.lock_ramp, 0.0, 1.0)
    loss = (1 - config.far_effect) / (config.weapon.depth - config.full_range)
    near = jnp.clip(1 - loss * (distance - config.full_range), config.far_effect, 1.0)
    is_target = locks.target[..., None] == foes[None, None, :]
    hits = jnp.where(is_target, near * settled[..., None], 0.0)  # [team, shooter, foe]
    return jnp.sum(hits, axis=1)[::-1] * (config.damage_rate * config.decision)


def leaves(config: Config, position: Vec) -> tuple[Bool[Array, "*b"], Bool[Array, "*b"]]:
    """Return which aircraft hit the ground, and which left the cylinder."""
    far = position.x * position.x + position.y * position.y > config.radius**2
    return position.z <= 0.0, far | (position.z > config.ceiling)


def collides(config: Config, before: Vec, after: Vec, alive: Bool[Array, "N"]) -> Bool[Array, "N"]:
    """Return which aircraft came within the collision distance of another.

    Aircraft are assumed to fly in a straight line within a decision.
    """
    start = before[:, None] - before[None, :]
    move = (after[:, None] - after[None, :]) - start
    # time of closest approach, between 0 and 1
    when = jnp.clip(-dot(start, move) / jnp.maximum(dot(move, move), 1e-6), 0.0, 1.0)
    closest = start + move * when
    num = alive.shape[0]
    is_pair = alive[:, None] & alive[None, :] & ~jnp.eye(num, dtype=bool)
    return jnp.any(is_pair & (dot(closest, closest) < config.collision_distance**2), axis=1)


def lock_progress(config: Config, locks: Locks) -> Float[Array, "2 n"]:
    """Return the lock progress: 0 without a lock or with a new one, 1 at full effect."""
    return jnp.where(locks.target >= 0, jnp.clip(locks.time / config.lock_time, 0.0, 1.0), 0.0)


def num_lockers(locks: Locks) -> Float[Array, "2 n"]:
    """Return the number of aircraft that have locked each aircraft."""
    foes = jnp.arange(locks.target.shape[-1])
    is_target = locks.target[..., None] == foes[None, None, :]  # [team, shooter, foe]
    return jnp.sum(is_target, axis=1, dtype=jnp.float32)[::-1]
