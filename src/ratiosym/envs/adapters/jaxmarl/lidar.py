"""JaxNav's LiDAR, with one look-up a grid line instead of 120 a beam.

The library samples each beam at 120 points and takes the first that lies in a wall. The first
sample inside a cell is always the first after the beam crossed a grid line: an x line into the
cell's column or a y line into its row. So one sample a line is enough. Its column (or row) is known
from the line and is kept as the bits of one integer, of which the sample's other coordinate picks
one: nothing is gathered from the map, and all of it runs in vector registers. Rounding can put a
sample on a line on its other side (Decision 29).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Beams(NamedTuple):
    """The beams of one robot: their common start, and the two coordinates of their unit vectors."""

    start: Float[Array, "2"]
    cos: Float[Array, "B"]
    sin: Float[Array, "B"]


def sense(library: Any, index: Int[Array, ""], state: Any) -> Float[Array, "B"]:
    """The readings of robot ``index`` in metres, as the library's ``_lidar_sense`` gives them."""
    angles = library.lidar_angles + state.theta[index]
    beams = Beams(state.pos[index], jnp.cos(angles), jnp.sin(angles))
    num_samples = library.lidar_ranges.size
    in_wall = first_in_wall(beams, state.map_data, num_samples, library.lidar_max_range)
    is_other = jnp.arange(library.num_agents) != index
    half_side = library.map_obj.agent_coords.max()  # robots are squares around their position
    to_robot = distance_to_robots(beams, state.pos, state.theta, is_other, half_side)
    # The library turns distances to robots into samples with its nominal spacing, 0.05 m for 6 /
    # 119.
    first = jnp.minimum(in_wall, jnp.floor(to_robot / library.lidar_range_resolution))
    # Not looked up in library.lidar_ranges: inside a scan that alone takes five times as long as
    # all of the above.
    last, max_range = num_samples - 1, library.lidar_max_range
    return jnp.where(first == last, max_range, max_range * (first / last))


def first_in_wall(
    beams: Beams, walls: Int[Array, "H W"], num_samples: int, max_range: float
) -> Float[Array, "B"]:
    """The first sample of each beam that lies in a wall; the last sample where none does, as in the
    library.

    The map is enclosed by walls and has at most 31 cells a side.
    """
    height, width = walls.shape
    columns = jnp.sum(
        walls << jnp.arange(height)[:, None], axis=0
    )  # bit y of columns[x] is walls[y, x]
    rows = jnp.sum(walls << jnp.arange(width)[None], axis=1)
    x, y = beams.start
    is_inside = walls[jnp.floor(y).astype(jnp.int32), jnp.floor(x).astype(jnp.int32)] == 1
    first = jnp.full(beams.cos.shape, jnp.where(is_inside, 0.0, num_samples - 1.0))
    spacing = max_range / (num_samples - 1)
    first = _first_beyond_lines(first, spacing, columns, x, beams.cos, y, beams.sin)
    return _first_beyond_lines(first, spacing, rows, y, beams.sin, x, beams.cos)


def _first_beyond_lines(
    first: Float[Array, "B"],
    spacing: float,
    bands: Int[Array, "N"],
    across: Float[Array, ""],
    speed_across: Float[Array, "B"],
    along: Float[Array, ""],
    speed_along: Float[Array, "B"],
) -> Float[Array, "B"]:
    """``first``, or an earlier sample that has just crossed one of the lines between bands into a
    wall.
    """
    is_forward = speed_across > 0
    samples_per_metre = 1 / (spacing * speed_across)
    for line in range(1, bands.size):
        crossing = (line - across) * samples_per_metre
        sample = jnp.ceil(crossing)
        cell = jnp.floor(sample * spacing * speed_along + along).astype(jnp.int32)
        band = jnp.where(is_forward, bands[line], bands[line - 1])
        is_wall = (band >> cell) & 1 == 1
        first = jnp.where(is_wall & (crossing >= 0) & (sample < first), sample, first)
    return first


def distance_to_robots(
    beams: Beams,
    positions: Float[Array, "A 2"],
    headings: Float[Array, "A"],
    is_other: Bool[Array, "A"],
    half_side: Float[Array, ""],
) -> Float[Array, "B"]:
    """How far each beam goes until it meets the outline of another robot; infinity where it meets
    none.

    In the robot's own frame it is a square around the origin, and the beam is within it between the
    times ``near`` and ``far``. A beam that starts inside meets the outline at ``far``.
    """
    nearest = jnp.full(beams.cos.shape, jnp.inf)
    for robot in range(positions.shape[0]):
        cos, sin = jnp.cos(headings[robot]), jnp.sin(headings[robot])
        x, y = beams.start - positions[robot]
        time_x, time_y = (
            1 / (cos * beams.cos + sin * beams.sin),
            1 / (cos * beams.sin - sin * beams.cos),
        )  # for 1 m
        middle_x, middle_y = -(cos * x + sin * y) * time_x, -(cos * y - sin * x) * time_y
        half_x, half_y = half_side * jnp.abs(time_x), half_side * jnp.abs(time_y)
        near = jnp.maximum(middle_x - half_x, middle_y - half_y)
        far = jnp.minimum(middle_x + half_x, middle_y + half_y)
        distance = jnp.where(near >= 0, near, far)
        is_met = (near <= far) & (far >= 0) & is_other[robot]
        nearest = jnp.where(is_met & (distance < nearest), distance, nearest)
    return nearest
