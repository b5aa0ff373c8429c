"""What searchers of Search and Rescue see: bearings on a periodic square, and views along rays.

The numbers are the library's. It sorts all objects into cells and, for each searcher and each of
nine cells, loops over the objects of the cell, so a step of many environments takes as long as the
fullest cell of any of them, nine times over. Here each searcher loops over the objects in range.

One case differs: a coordinate of exactly 1, to which the modulo rounds a tiny negative number about
once in 30 million moves, lies outside the library's cells, so that it may overlook the object for a
step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

TURN = 2 * np.pi


class Sight(NamedTuple):
    """Settings of the library's view model."""

    side: float  # of the square
    rays: Float[np.ndarray, "R"]  # angles to the heading
    edge: float  # largest angle to the heading at which a target can be found
    radius: float  # of searchers and targets


def make_sight(observation_fn: Any) -> Sight:
    """Read the settings of the library's observation function."""
    edge = np.asarray(jnp.float32(observation_fn.view_angle) * jnp.pi)
    rays = jnp.linspace(-edge, edge, observation_fn.num_vision)
    return Sight(
        observation_fn.env_size, np.asarray(rays), float(edge), observation_fn.agent_radius
    )


def within(
    sight: Sight, pos: Float[Array, "A 2"], others: Float[Array, "N 2"], reach: float
) -> Bool[Array, "A N"]:
    """Return which objects each searcher has in range."""
    apart = jnp.abs(pos[:, None] - others[None])
    apart = jnp.where(apart > 0.5 * sight.side, sight.side - apart, apart)
    return jnp.sum(jnp.square(apart), axis=-1) <= reach**2


def bearing(
    sight: Sight, searchers: Any, place: Float[Array, "A 2"]
) -> tuple[Float[Array, "A"], Float[Array, "A"]]:
    """Return each searcher's distance to its place, and the angle from there to its heading."""
    way = _shortest(place - searchers.pos, sight.side)
    distance = jnp.sqrt(jnp.sum(way * way, axis=-1))
    direction = jnp.arctan2(way[:, 1], way[:, 0]) % TURN
    return distance, _shortest(searchers.heading - direction, TURN)


def in_view(sight: Sight, searchers: Any, place: Float[Array, "A 2"]) -> Bool[Array, "A"]:
    """Whether each searcher has its place ahead."""
    _, angle = bearing(sight, searchers, place)
    return (angle >= -sight.edge) & (angle <= sight.edge)


def along_rays(
    sight: Sight, searchers: Any, place: Float[Array, "A 2"], reach: float
) -> Float[Array, "A R"]:
    """Return the distance over ``reach`` on the rays that meet a disc at the place, else inf."""
    distance, angle = bearing(sight, searchers, place)
    half_width = jnp.arctan2(sight.radius, distance)
    left, right = angle - half_width, angle + half_width
    is_hit = (left[:, None] < sight.rays[None]) & (sight.rays[None] < right[:, None])
    return jnp.where(is_hit, (distance / reach)[:, None], jnp.inf)


def for_each(
    of: Bool[Array, "A N"], use: Callable[[Int[Array, "A"], PyTree], PyTree], result: PyTree
) -> PyTree:
    """Update ``result`` with the chosen objects of all searchers, one of each searcher at a time.

    ``use`` gets -1 for searchers that have no more objects.
    """
    num_objects = of.shape[1]
    index = jnp.arange(num_objects)[None]

    def before(last: Int[Array, "A"]) -> Int[Array, "A"]:
        return jnp.max(jnp.where(of & (index < last[:, None]), index, -1), axis=1)

    return jax.lax.while_loop(
        lambda carry: (carry[0] >= 0).any(),
        lambda carry: (before(carry[0]), use(*carry)),
        (before(jnp.full(of.shape[:1], num_objects)), result),
    )[1]


def _shortest(x: Array, length: float) -> Array:
    """Return the shortest of the differences that are equal modulo ``length``."""
    around = jnp.sign(x) * (jnp.abs(x) - length)
    return jnp.where(jnp.abs(x) < jnp.abs(around), x, around)
