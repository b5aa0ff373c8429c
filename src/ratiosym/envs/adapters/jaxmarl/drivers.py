"""Scripted teams for JaxNav, memoryless and with the observations of a learned policy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ratiosym.envs.teams import Memory, Team
from ratiosym.types import Key, Observation, State

SIDE = 0.36  # m, kept free to either side of a way; the corners of a robot are at 0.354
BRAKING = 0.45  # m, distance to a wall ahead at which the target speed is 0
AHEAD = 0.5  # rad, off the nose within which a wall is ahead
LOOKAHEAD = 1.0  # m, how far a way must be clear, or up to the goal

Driver = Callable[[Any, "View"], Float[Array, "A 2"]]  # velocities of all robots


class View(NamedTuple):
    """An observation in metres and radians."""

    readings: Float[Array, "A B"]
    angles: Float[Array, "B"]  # of the beams, off the nose, within -pi and pi
    distance: Float[Array, "A"]  # to the goal, as far as it is known
    bearing: Float[Array, "A"]  # of the goal, off the nose


def make_teams(
    library: Any,
    to_action: Callable[[Float[Array, "A 2"]], Float[Array, "A 2"]],
    to_plain: Callable[[Float[Array, "A F"]], Float[Array, "A F"]] | None = None,
) -> dict[str, Team]:
    """Return the scripted teams.

    ``to_action`` turns velocities into the environment's actions, ``to_plain`` its observations
    into the library's, if they differ.
    """

    def team(about: str, driver: Driver) -> Team:
        def act(
            key: Key, state: State, observation: Observation, memory: Memory
        ) -> tuple[Array, Memory]:
            local = to_plain(observation.local) if to_plain else observation.local
            return to_action(driver(library, read(library, local))), memory

        return Team(about, lambda key, state: (), act)

    return {
        "direct": team("turns to its goal and drives there, brakes before walls", direct),
        "clear": team("the same in the clear direction that is nearest to its goal's", clear),
    }


def read(library: Any, local: Float[Array, "A F"]) -> View:
    """Undo the scaling of an observation without agent ids."""
    num_beams = library.lidar_num_beams
    _, _, distance, bearing, _ = local[:, num_beams:].T
    return View(
        library.unnormalise_lidar(local[:, :num_beams]),
        wrap(jnp.asarray(library.lidar_angles)),
        (distance + 0.5) * library.lidar_max_range,
        bearing * jnp.pi,
    )


def direct(library: Any, view: View) -> Float[Array, "A 2"]:
    """Head for the goal, whatever is in between."""
    return drive(library, view, view.bearing, tolerance=0.3)


def clear(library: Any, view: View) -> Float[Array, "A 2"]:
    """Head for the direction nearest to the goal's in which the way is clear."""
    between = view.angles[:, None] - view.angles[None, :]  # [way, beam]

    def length(readings: Float[Array, "B"]) -> Float[Array, "B"]:
        """Return how far a robot can drive in each direction before a reading is in its way."""
        aside = jnp.abs(jnp.sin(between)) * readings[None]
        along = jnp.cos(between) * readings[None]
        is_hit = (aside < SIDE) & (along > 0)
        return jnp.where(is_hit, along, library.lidar_max_range).min(axis=1)

    needed = jnp.minimum(view.distance, LOOKAHEAD)[:, None]
    is_blocked = jax.vmap(length)(view.readings) < needed
    off = jnp.abs(wrap(view.angles[None] - view.bearing[:, None]))
    best = jnp.argmin(off + 10.0 * is_blocked, axis=1)
    return drive(library, view, view.angles[best], tolerance=0.2)


def drive(
    library: Any, view: View, heading: Float[Array, "A"], tolerance: float
) -> Float[Array, "A 2"]:
    """Turn on the spot until the nose is within ``tolerance`` of a heading, then drive."""
    is_ahead = jnp.abs(view.angles) < AHEAD
    room = jnp.where(is_ahead[None], view.readings, library.lidar_max_range).min(axis=1)
    speed = jnp.clip(room - BRAKING, library.min_v, library.max_v)
    speed = jnp.where(jnp.abs(heading) < tolerance, speed, library.min_v)
    return jnp.stack([speed, jnp.clip(2 * heading, -library.max_w, library.max_w)], axis=1)


def wrap(angle: Array) -> Array:
    """Bring an angle into [-pi, pi)."""
    return (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
