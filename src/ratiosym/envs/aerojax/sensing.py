"""Sensing: pairwise geometry, cones, detection and sharing."""

from math import radians, tan
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.envs.aerojax.config import Cone, Config
from ratiosym.envs.aerojax.dynamics import Axes
from ratiosym.envs.aerojax.vectors import Vec, dot, norm


class Bearing(NamedTuple):
    """Positions of targets in the body axes of watchers."""

    forward: Float[Array, "*b watchers targets"]  # m
    right: Float[Array, "*b watchers targets"]
    up: Float[Array, "*b watchers targets"]
    distance: Float[Array, "*b watchers targets"]


def bearings(body: Axes, here: Vec, there: Vec) -> Bearing:
    """Return the bearing from each watcher (axes and position) to each target."""
    away = there[..., None, :] - here[..., :, None]
    forward, right, up = in_body(body, away)
    return Bearing(forward, right, up, norm(away))


def in_body(body: Axes, world: Vec) -> tuple[Array, Array, Array]:
    """Transform world vectors per watcher and target to the watchers' body axes."""
    forward, right, up = (dot(axis[..., :, None], world) for axis in body)
    return forward, right, up


def in_cone(cone: Cone, bearing: Bearing) -> Bool[Array, "*b watchers targets"]:
    """Whether targets are ahead, in range, and (right / f tan(w/2))² + (up / f tan(h/2))² <= 1."""
    forward, right, up, distance = bearing
    aside = right / tan(radians(cone.width / 2))
    above = up / tan(radians(cone.height / 2))
    inside = aside * aside + above * above <= forward * forward
    return (forward > 0) & inside & (distance <= cone.depth)


def detection_probability(config: Config, bearing: Bearing) -> Float[Array, "*b watchers targets"]:
    """Return 1 - (d/D)² inside the view cone, 1 inside the weapon cone, 0 elsewhere."""
    share = bearing.distance / config.view.depth
    seen = jnp.where(in_cone(config.view, bearing), 1 - share * share, 0.0)
    return jnp.where(in_cone(config.weapon, bearing), 1.0, seen)


def share_sight(
    config: Config,
    seen: Bool[Array, "allies all"],
    between: Float[Array, "allies allies"],
    alive: Bool[Array, "allies"],
) -> Bool[Array, "allies all"]:
    """Return what each ally knows: its own detections, living allies in radio range, and theirs.

    Information travels one hop. ``seen`` holds each ally's own detections, allies first;
    ``between`` the distances between allies.
    """
    linked = (between <= config.radio_range) & alive[:, None] & alive[None, :]
    told = jnp.any(linked[:, :, None] & seen[None, :, :], axis=1)  # [i, k] & [k, j] over k
    others = jnp.zeros((alive.shape[0], seen.shape[1] - alive.shape[0]), bool)
    return seen | told | jnp.concatenate([linked, others], axis=1)
