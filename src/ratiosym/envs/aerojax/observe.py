"""Observations of the learned team and its critic."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.envs.aerojax.combat import lock_progress, num_lockers
from ratiosym.envs.aerojax.config import TYPES, Config
from ratiosym.envs.aerojax.dynamics import Axes
from ratiosym.envs.aerojax.sensing import Bearing, detection_probability, in_body, share_sight
from ratiosym.envs.aerojax.state import AeroState
from ratiosym.envs.aerojax.vectors import Vec, norm

NUM_EGO, NUM_ROW, NUM_GLOBAL = (
    15,
    12,
    19,
)  # features of oneself, of another aircraft, and of each aircraft for the critic
_SPEED = 300.0  # m/s, the unit of speeds in observations
_NEAR, _UNIT = 10.0, 1000.0  # m, shortest distance told apart, and the unit of distances
_UNSEEN = 1e9  # m, sorts last


def ego(
    config: Config, state: AeroState, body: Axes, kinds: Float[Array, "N"]
) -> Float[Array, "n 15"]:
    """Return what each ally observes about itself."""
    n = state.skill.shape[0]
    nose, right, up = (axis[:n] for axis in body)
    velocity, position = Vec.of(state.flight.velocity[:n]), Vec.of(state.flight.position[:n])
    speed = norm(velocity)
    climb = velocity.z / jnp.maximum(speed, 1e-3)
    columns = [
        *(nose.z, right.z, up.z),  # the world's up: roll and pitch without discontinuities
        state.flight.alpha[:n] / config.most_alpha,
        *(climb, jnp.sqrt(jnp.maximum(1 - climb * climb, 0.0))),
        speed / _SPEED,
        position.z / config.ceiling,
        -(position.x * nose.x + position.y * nose.y) / config.radius,  # the airspace's axis: ahead,
        -(position.x * right.x + position.y * right.y) / config.radius,  # to the right
        state.health[:n],
        kinds[:n],
        lock_progress(config, state.locks)[0],
        jnp.ones(n),
        state.flight.throttle[:n],
    ]
    return jnp.stack(columns, axis=-1)


def others(
    state: AeroState,
    body: Axes,
    bearing: Bearing,
    visible: Bool[Array, "n N"],
    kinds: Array,
) -> Float[Array, "n rows"]:
    """Return a row per other aircraft: visible ones by distance, then zeros."""
    n = visible.shape[0]
    own = Axes(*(axis[:n] for axis in body))
    velocity = Vec.of(state.flight.velocity)
    speed = norm(velocity)
    heading = velocity * (1 / jnp.maximum(speed, 1e-3))
    courses = in_body(own, heading[None, :])
    distance = jnp.maximum(bearing.distance, _NEAR)
    team = jnp.where(jnp.arange(2 * n) < n, 1.0, -1.0)
    about = [
        jnp.broadcast_to(column, (n, 2 * n))
        for column in (team, speed / _SPEED, state.health, kinds)
    ]
    columns = [
        jnp.ones((n, 2 * n)),
        about[0],
        *(axis / distance for axis in bearing[:3]),
        jnp.log(distance / _UNIT),
        *courses,
        *about[1:],
    ]
    rows = jnp.where(visible[:, :, None], jnp.stack(columns, axis=-1), 0.0)
    # A row's rank is the number of rows before it. For few aircraft, counting beats sorting.
    order = jnp.where(visible, bearing.distance, _UNSEEN)
    later, earlier = order[:, :, None], order[:, None, :]
    is_before = jnp.arange(2 * n)[None, :] < jnp.arange(2 * n)[:, None]
    rank = jnp.sum((earlier < later) | ((earlier == later) & is_before[None]), axis=-1)  # [n, N]
    # An aircraft never sees itself, so N - 1 places hold all others.
    has_rank = rank[:, None, :] == jnp.arange(2 * n - 1)[None, :, None]
    at_place = jnp.sum(
        jnp.where(has_rank, jnp.arange(2 * n)[None, None, :], 0), axis=-1
    )  # [n, N - 1]
    return jnp.take_along_axis(rows, at_place[:, :, None], axis=1).reshape(n, -1)


def see(
    config: Config, state: AeroState, bearing: Bearing, draws: Float[Array, "n N"]
) -> Bool[Array, "n N"]:
    """Return which aircraft each ally knows about in this decision."""
    n = draws.shape[0]
    alive = state.is_alive
    is_other = ~jnp.eye(n, 2 * n, dtype=bool)
    can_see = alive[:n, None] & alive[None, :] & is_other
    seen = can_see & (draws < detection_probability(config, bearing))
    return share_sight(config, seen, bearing.distance[:, :n], alive[:n]) & can_see


def critic(
    config: Config, state: AeroState, body: Axes, kinds: Float[Array, "N"]
) -> Float[Array, "S"]:
    """Return the full state: 19 numbers per aircraft, the time, and the fractions alive."""
    n = state.skill.shape[0]
    flight, alive = state.flight, state.is_alive
    position = flight.position / jnp.array([[config.radius, config.radius, config.ceiling]])
    columns = [
        *(position[:, i] for i in range(3)),
        *(flight.velocity[:, i] / _SPEED for i in range(3)),
        *(body.nose.x, body.nose.y, body.nose.z, body.up.x, body.up.y, body.up.z),
        flight.alpha / config.most_alpha,
        state.health,
        lock_progress(config, state.locks).reshape(-1),
        num_lockers(state.locks).reshape(-1) / n,
        kinds,
    ]
    about = jnp.where(alive[:, None], jnp.stack(columns, axis=-1), 0.0)
    team = jnp.where(jnp.arange(2 * n) < n, 1.0, -1.0)
    rows = jnp.concatenate([alive.astype(jnp.float32)[:, None], team[:, None], about], axis=1)
    shares = alive.reshape(2, n).mean(axis=1, dtype=jnp.float32)
    time = state.time.astype(jnp.float32)[None] / config.time_limit
    return jnp.concatenate([rows.reshape(-1), time, shares])


def kind_numbers(types: tuple[str, ...]) -> Float[Array, "N"]:
    """Encode types as numbers from 0 to 1."""
    return jnp.array([TYPES.index(kind) / (len(TYPES) - 1) for kind in types], jnp.float32)
