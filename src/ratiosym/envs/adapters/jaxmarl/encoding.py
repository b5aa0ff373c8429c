"""JaxNav's observations in a form from which a small network learns to drive.

The library gives distances over 6 m and bearings over pi. A few centimetres beside a wall, which
decide about a collision, are then a few thousandths; bearings jump at pi; and 200 readings outweigh
the goal. Measurements are in docs/environments/jaxnav.md.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

READING, OTHER = 0.2, 1.5  # factors, which keep 200 readings from outweighing five other numbers


def encode(library: Any, local: Float[Array, "A 205"]) -> Float[Array, "A 205"]:
    """Return logarithms of the readings, and speeds, distance and direction within [-1, 1], scaled.

    Nothing is lost or added: the direction's sine and cosine take the places of the bearing and of
    a constant.
    """
    num_beams = library.lidar_num_beams
    shortest = library.lidar_ranges[1]  # of the readings that are not 0
    readings = jnp.maximum(library.unnormalise_lidar(local[:, :num_beams]), shortest)
    speed, turn, distance, bearing, _ = local[:, num_beams:].T
    angle = bearing * jnp.pi
    others = jnp.stack([2 * speed, turn, 2 * distance, jnp.sin(angle), jnp.cos(angle)], axis=1)
    return jnp.concatenate([READING * jnp.log(readings), OTHER * others], axis=1)


def decode(library: Any, encoded: Float[Array, "A 205"]) -> Float[Array, "A 205"]:
    """Undo ``encode``, except that readings of 0 become the shortest one."""
    num_beams = library.lidar_num_beams
    readings = library.normalise_lidar(jnp.exp(encoded[:, :num_beams] / READING))
    speed, turn, distance, sine, cosine = encoded[:, num_beams:].T / OTHER
    bearing = jnp.arctan2(sine, cosine) / jnp.pi
    constant = jnp.full_like(bearing, library.rew_lambda - 0.5)
    others = jnp.stack([speed / 2, turn, distance / 2, bearing, constant], axis=1)
    return jnp.concatenate([readings, others], axis=1)
