"""SMAX's units, their movement and fighting, and what they see.

The numbers are the library's, up to rounding: the order in which XLA sums depends on the shapes.
The library computes one unit or pair of units at a time and gathers and scatters single numbers.
Here, everything is a table of units or of pairs, with masks.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from ratiosym.types import Keys

NUM_MOVES = 5  # north, east, south, west, stop
STOP = 4


class Units(NamedTuple):
    """Properties of the units. NumPy arrays unless the library draws their types."""

    type_bits: Float[Array | np.ndarray, "N 6"]
    velocity: Float[Array | np.ndarray, "N"]
    attack: Float[Array | np.ndarray, "N"]
    attack_range: Float[Array | np.ndarray, "N"]
    sight_range: Float[Array | np.ndarray, "N"]
    radius: Float[Array | np.ndarray, "N"]
    full_health: Float[Array | np.ndarray, "N"]
    cooldown: Float[Array | np.ndarray, "N"]  # of the weapon


class Orders(NamedTuple):
    """What the units do in a step: a direction each, and whom they attack."""

    move: Float[Array, "N 2 E"]
    attack: Int[Array, "N E"]  # the action, or 0
    attacked: Bool[Array, "N N E"]  # row: attacker


def make_units(physics: Any, types: UInt8[Array, "N"]) -> Units:
    """Look up the properties of each unit's type."""
    is_drawn = physics.smacv2_unit_type_generation
    xp: Any = jnp if is_drawn else np
    index = types if is_drawn else np.asarray(physics.scenario)
    tables = (
        np.eye(physics.unit_type_bits, dtype=np.float32),
        physics.unit_type_velocities,
        physics.unit_type_attacks,
        physics.unit_type_attack_ranges,
        physics.unit_type_sight_ranges,
        physics.unit_type_radiuses,
        physics.unit_type_health,
        physics.unit_type_weapon_cooldowns,
    )
    return Units(*(xp.asarray(table)[index] for table in tables))


def batch_of_units(physics: Any, types: UInt8[Array, "N E"]) -> Units:
    """Return the same with a trailing batch axis, whose length is 1 if all have the same types."""
    if not physics.smacv2_unit_type_generation:
        return Units(*(table[..., None] for table in make_units(physics, types[:, 0])))
    return jax.vmap(partial(make_units, physics), in_axes=-1, out_axes=-1)(types)


def give_orders(
    physics: Any, directions: Float[np.ndarray, "5 2"], action: Int[Array, "N E"]
) -> Orders:
    """Decode the actions. Enemies number the allies from the last to the first."""
    num_allies, num_units = physics.num_allies, physics.num_agents
    number = np.empty((num_units, num_units), np.int32)  # of each unit as seen by the attacker
    number[:num_allies] = np.arange(num_units) - num_allies
    number[num_allies:] = num_allies - 1 - np.arange(num_units)
    number = number[:, :, None]
    attack = jnp.where(action >= NUM_MOVES, action, 0)
    move = jnp.zeros((num_units, 2, 1))
    for index, direction in enumerate(directions[:STOP]):
        move = jnp.where((action == index)[:, None], direction[None, :, None], move)
    attacked = (action[:, None] - NUM_MOVES == number) & (number >= 0)
    return Orders(move, attack, attacked)


def fight(physics: Any, key: Keys, world: Any, units: Units, orders: Orders) -> Any:
    """Move and attack, eight times, and return the world after it. Batches are last."""
    step = physics.time_per_step
    speed = orders.move * units.velocity[:, None] * step
    limit = (float(physics.map_width), float(physics.map_height))

    def move(position: Array, axis: int, alive: Array) -> Array:
        moved = jnp.clip(position + speed[:, axis], 0.0, limit[axis])
        return jnp.where(alive, moved, position)

    def substep(before: Any, jitter: Array) -> tuple[Any, None]:
        x, y, health, cooldown, alive = before
        can_hit = orders.attacked & alive[None] & (_distance(x, y) < units.attack_range[:, None])
        is_hit = can_hit.any(axis=1) & alive & (cooldown <= 0.0)  # by attacker
        damage = jnp.where(orders.attacked & is_hit[:, None], units.attack[:, None], 0.0)
        health = jnp.maximum(health - damage.sum(axis=0), 0.0)
        # as the library rounds it
        cooldown += jnp.where(is_hit, (units.cooldown + jitter) - cooldown, -step)
        x, y = move(x, 0, alive), move(y, 1, alive)
        is_outside = (x <= 0.0) | (x >= limit[0]) | (y <= 0.0) | (y >= limit[1])
        health = jnp.where(is_outside, 0.0, health)
        alive = health > 0.0
        x, y = _push_apart(x, y, alive, units.radius)
        return (x, y, health, cooldown, alive), None

    before = (
        world.unit_positions[:, 0],
        world.unit_positions[:, 1],
        world.unit_health,
        world.unit_weapon_cooldowns,
        world.unit_alive,
    )
    (x, y, health, cooldown, alive), _ = jax.lax.scan(substep, before, _jitters(physics, key))
    return world.replace(
        unit_positions=jnp.stack([x, y], axis=1),
        unit_health=health,
        unit_weapon_cooldowns=cooldown,
        unit_alive=alive,
        prev_movement_actions=orders.move,
        prev_attack_actions=orders.attack,
    )


def _jitters(physics: Any, key: Keys) -> Float[Array, "8 N E"]:
    """Draw the random part of the weapons' cooldowns for all substeps, from the library's keys."""
    substep_keys = []
    for _ in range(physics.world_steps_per_env_step):
        key, substep_key = split(key, 2)
        substep_keys.append(substep_key)
    keys = split(jnp.stack(substep_keys), physics.num_agents)  # [N, 8, E]
    step = physics.time_per_step
    return uniform(keys, -step, 2 * step).swapaxes(0, 1)


def split(key: Keys, num: int) -> Keys:
    """Split each key of an array; the new axis is the first.

    ``jax.random.split`` computes the n-th key as ``fold_in`` does, but with the short new axis
    last.
    """
    shape = (num, *key.shape)
    number = np.broadcast_to(np.arange(num).reshape(-1, *[1] * key.ndim), shape)
    keys = jnp.broadcast_to(key[None], shape).reshape(-1)
    return jax.vmap(jax.random.fold_in)(keys, number.reshape(-1)).reshape(shape)


def uniform(key: Keys, low: float = 0.0, high: float = 1.0) -> Float[Array, "*shape"]:
    """Draw a number with each key of an array."""

    def draw(key: Keys) -> Array:
        return jax.random.uniform(key, minval=low, maxval=high)

    return jax.vmap(draw)(key.reshape(-1)).reshape(key.shape)


def _distance(x: Float[Array, "N *E"], y: Float[Array, "N *E"]) -> Float[Array, "N N *E"]:
    dx, dy = x[:, None] - x[None], y[:, None] - y[None]
    return jnp.sqrt(dx * dx + dy * dy)


def _push_apart(
    x: Array, y: Array, alive: Bool[Array, "N E"], radius: Float[Array | np.ndarray, "N _"]
) -> tuple[Array, Array]:
    """Move living units that overlap away from each other."""
    apart = _distance(x, y) + np.eye(len(alive), dtype=np.float32)[:, :, None] + 1e-6
    overlap = jax.nn.relu((radius[:, None] + radius[None]) / apart - 1.0)
    overlap = jnp.where(alive[:, None] & alive[None], overlap, 0.0)

    def push(position: Array) -> Array:
        away = position[:, None] - position[None]
        return jnp.where(alive, position + jnp.sum(away * overlap, axis=1) / 2, position)

    return push(x), push(y)


def observe(
    physics: Any, world: Any, units: Units
) -> tuple[Float[Array, "A F"], Bool[Array, "A actions"], Float[Array, "S"]]:
    """Return the allies' observations and legal actions, and the state of the whole battle."""
    num_allies = physics.num_allies
    health = world.unit_health / units.full_health
    cooldown = jnp.clip(world.unit_weapon_cooldowns / units.cooldown, 0.0, 1.0)
    distance = _distance(*world.unit_positions.T)[:num_allies]
    both_alive = world.unit_alive[:num_allies, None] & world.unit_alive[None]
    local = jnp.concatenate(
        [
            _others(physics, world, units, health, cooldown, distance, both_alive),
            _own(physics, world, units, health, cooldown),
        ],
        axis=1,
    )
    in_range = both_alive & (distance < units.attack_range[:num_allies, None])
    alive = jnp.broadcast_to(world.unit_alive[:num_allies, None], (num_allies, STOP))
    stop = jnp.ones((num_allies, 1), bool)
    legal = jnp.concatenate([alive, stop, in_range[:, num_allies:]], axis=1)
    return local, legal, _state(world, units, health)


def _others(
    physics: Any,
    world: Any,
    units: Units,
    health: Array,
    cooldown: Array,
    distance: Array,
    both_alive: Array,
) -> Float[Array, "A others"]:
    """Return what each ally sees of the other units, 13 numbers each."""
    num_allies, num_units = physics.num_allies, physics.num_agents
    is_ally = np.arange(num_units) < num_allies
    most = np.where(is_ally, physics.num_ally_actions - 1, physics.num_enemy_actions - 1)
    last_attack = world.prev_attack_actions.astype(jnp.float32) / most.astype(np.float32)
    place = world.unit_positions[None] - world.unit_positions[:num_allies, None]
    place = place / units.sight_range[:num_allies, None, None]
    doing = [world.prev_movement_actions, last_attack[:, None], cooldown[:, None]]
    of_unit = jnp.concatenate([*doing, units.type_bits], axis=1)
    shape = (num_allies, num_units)
    seen = jnp.concatenate(
        [
            jnp.broadcast_to(health[None, :, None], (*shape, 1)),
            place,
            jnp.broadcast_to(of_unit[None], (*shape, of_unit.shape[1])),
        ],
        axis=2,
    )
    is_seen = both_alive & (distance < units.sight_range[:num_allies, None])
    seen = jnp.where(is_seen[:, :, None], seen, 0.0)
    # leave out the ally itself
    is_before = np.arange(num_units - 1)[None] < np.arange(num_allies)[:, None]
    seen = jnp.where(is_before[:, :, None], seen[:, :-1], seen[:, 1:])
    return seen.reshape(num_allies, -1)


def _own(
    physics: Any, world: Any, units: Units, health: Array, cooldown: Array
) -> Float[Array, "A 10"]:
    """Return what each ally knows of itself."""
    num_allies = physics.num_allies
    size = np.array([[physics.map_width, physics.map_height]], np.float32)
    features = [health[:, None], world.unit_positions / size, cooldown[:, None], units.type_bits]
    own = jnp.concatenate(features, axis=1)[:num_allies]
    return jnp.where(world.unit_alive[:num_allies, None], own, 0.0)


def _state(world: Any, units: Units, health: Array) -> Float[Array, "S"]:
    """Return the library's world state."""
    features = [health[:, None], world.unit_positions, world.unit_weapon_cooldowns[:, None]]
    unit = jnp.concatenate([*features, units.type_bits], axis=1)
    unit = jnp.where(world.unit_alive[:, None], unit, 0.0)
    types = world.unit_types.astype(jnp.float32)
    return jnp.concatenate([unit.reshape(-1), world.unit_teams, types])
