"""New episodes from a pool of fresh starts.

Under ``vmap`` a conditional reset is computed in every step for every environment and thrown away.
Here one batch of starts is made per rollout, and ended environments draw from it, each its own.
When more episodes end than the pool holds, it has run dry and is gone through again from its first
start: two episodes of that rollout then begin alike and part ways by their own random numbers
(Decision 11: a reset per step and environment would cost more than the step itself).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from ratiosym.envs.protocol import Env
from ratiosym.types import EnvSpec, Key, Observation, State


class Starts(NamedTuple):
    """A pool of first moments, and how many of them have been drawn."""

    state: State
    observation: Observation
    num_drawn: Int[Array, ""]


def make_starts(env: Env, key: Key, num_starts: int) -> Starts:
    """A pool of ``num_starts`` independent resets."""
    state, observation = jax.vmap(env.reset)(jax.random.split(key, num_starts))
    return Starts(state, observation, jnp.zeros((), jnp.int32))


def pool_size(spec: EnvSpec, num_envs: int, num_steps: int) -> int:
    """How many starts ``num_steps`` steps use up, if episodes last as long as they usually do."""
    return num_envs * -(-num_steps // (spec.usual_length or spec.time_limit))


def begin_where(
    is_end: Bool[Array, "E"], starts: Starts, state: State, observation: Observation
) -> tuple[Starts, State, Observation]:
    """Ended environments take the next starts of the pool, each its own; the others continue."""
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
