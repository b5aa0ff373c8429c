"""SMAX's scripted enemies: attack the ally in range, or go to one in sight, or across the map.

The actions are those of the library's heuristic with the attack mode ``closest``, which reads them
from each enemy's observation. Here they are computed from the positions, with the same rounding.
Batches are last.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ratiosym.envs.adapters.jaxmarl.battle import NUM_MOVES, Units, split, uniform
from ratiosym.types import Keys

NOBODY = -1


def choose_actions(
    physics: Any, key: Keys, memory: Any, world: Any, units: Units
) -> tuple[Int[Array, "B E"], Any]:
    """Return the enemies' actions and their new memory."""
    num_allies = physics.num_allies
    alive = world.unit_alive[num_allies:]
    # Observations are scaled by the range of sight (undone here) and by the size of the map, a
    # power of two, which rounds nothing.
    sight = units.sight_range[num_allies:, None]
    own = jnp.where(alive[:, None], world.unit_positions[num_allies:], 0.0)  # [B, 2, E]
    # allies in the order of the enemies' actions
    allies, allies_alive = world.unit_positions[:num_allies][::-1], world.unit_alive[:num_allies]
    way = allies[None] - world.unit_positions[num_allies:, None]  # [B, A, 2, E]
    is_seen = alive[:, None] & allies_alive[::-1][None] & (_norm(way) < sight)
    way = jnp.where(is_seen[:, :, None], way / sight[:, None] * sight[:, None], 0.0)
    distance = _norm(way)
    in_range = is_seen & (distance < units.attack_range[num_allies:, None])

    attacked = _attacked(memory.last_attacked_enemy, in_range, distance)
    goal = _across(physics, memory, own)
    chased = _one_in_sight(key, is_seen, way + own[:, None])
    target = jnp.where(is_seen.any(axis=1)[:, None], chased, goal)
    action = jnp.where(attacked == NOBODY, _direction(target - own), attacked + NUM_MOVES)
    return action, memory.replace(default_target=goal, last_attacked_enemy=attacked)


def _norm(way: Float[Array, "B A 2 E"]) -> Float[Array, "B A E"]:
    x, y = way[:, :, 0], way[:, :, 1]
    return jnp.sqrt(x * x + y * y)


def _attacked(
    last: Int[Array, "B E"], in_range: Bool[Array, "B A E"], distance: Float[Array, "B A E"]
) -> Int[Array, "B E"]:
    """Return the ally that was attacked last if it is in range, else the closest, or ``NOBODY``."""
    num_allies = in_range.shape[1]
    ally = np.arange(num_allies, dtype=np.int32)[None, :, None]
    distance = jnp.where(in_range, distance, jnp.inf)
    is_closest = in_range & (distance == distance.min(axis=1, keepdims=True))
    closest = jnp.min(jnp.where(is_closest, ally, num_allies), axis=1)
    closest = jnp.where(in_range.any(axis=1), closest, NOBODY)
    return jnp.where((in_range & (ally == last[:, None])).any(axis=1), last, closest)


def _across(physics: Any, memory: Any, own: Float[Array, "B 2 E"]) -> Float[Array, "B 2 E"]:
    """Return the point opposite to each enemy's first position."""
    centre = np.array([physics.map_width / 2, physics.map_height / 2], np.float32)[None, :, None]
    is_new = (memory.default_target == 0.0).all(axis=1) & (memory.last_attacked_enemy == NOBODY)
    return jnp.where(is_new[:, None], centre - (own - centre), memory.default_target)


def _one_in_sight(
    key: Keys, is_seen: Bool[Array, "B A E"], place: Float[Array, "B A 2 E"]
) -> Float[Array, "B 2 E"]:
    """Draw one of the allies in sight, as ``jax.random.choice`` does, and return its place."""
    num_enemies, num_allies, _ = is_seen.shape
    weight = is_seen / is_seen.sum(axis=1, keepdims=True)
    until = jnp.cumsum(weight, axis=1)
    drawn = until[:, -1] * (1 - uniform(split(split(key, num_enemies), 2)[0]))
    index = jnp.sum(until < drawn[:, None], axis=1)
    is_it = index[:, None] == np.arange(num_allies)[None, :, None]
    return jnp.sum(jnp.where(is_it[:, :, None], place, 0.0), axis=1)


def _direction(way: Float[Array, "B 2 E"]) -> Int[Array, "B E"]:
    """Return the move closest to the direction: north, east, south or west."""
    x, y = way[:, 0], way[:, 1]
    far = jnp.maximum(jnp.abs(x), jnp.abs(y))
    return jnp.where(y == far, 0, jnp.where(x == far, 1, jnp.where(-y == far, 2, 3)))
