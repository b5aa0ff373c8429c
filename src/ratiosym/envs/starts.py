"""Start new episodes from a pool of initial states.

Under ``vmap``, a conditional reset is computed at every step for every environment, and mostly
discarded; this would cost more than the step itself. Instead, each rollout makes one pool of
initial states, and environments whose episode ended each take the next one. If more episodes end
than the pool holds, it is reused from its beginning: two episodes of that rollout then have the
same start and diverge through their own random numbers (docs/paper/decisions.md, 11).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from ratiosym.envs.protocol import Env
from ratiosym.types import EnvSpec, Key, Observation, State


class Starts(NamedTuple):
    """A pool of initial states and observations, and how many have been used."""

    state: State
    observation: Observation
    num_drawn: Int[Array, ""]


def make_starts(env: Env, key: Key, num_starts: int) -> Starts:
    """Make a pool of ``num_starts`` independent resets."""
    state, observation = jax.vmap(env.reset)(jax.random.split(key, num_starts))
    return Starts(state, observation, jnp.zeros((), jnp.int32))


def pool_size(spec: EnvSpec, num_envs: int, num_steps: int) -> int:
    """Return how many starts ``num_steps`` steps need if episodes have their usual length."""
    return num_envs * -(-num_steps // (spec.usual_length or spec.time_limit))


def begin_where(
    is_end: Bool[Array, "E"], starts: Starts, state: State, observation: Observation
) -> tuple[Starts, State, Observation]:
    """Give each ended environment the next start of the pool; the others continue."""
    rank = jnp.cumsum(is_end) - 1
    index = (starts.num_drawn + rank) % starts.observation.state.shape[0]

    def choose(pool: PyTree, current: PyTree) -> PyTree:
        where = is_end.reshape(is_end.shape + (1,) * (current.ndim - 1))
        return jnp.where(where, pool[index], current)

    state, observation = jax.tree.map(
        choose, (starts.state, starts.observation), (state, observation)
    )
    return (
        starts._replace(num_drawn=starts.num_drawn + is_end.sum(dtype=jnp.int32)),
        state,
        observation,
    )
