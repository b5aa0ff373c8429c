"""Array helpers for environments of other libraries."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ratiosym.types import Key, Keys


def strongly_typed(tree: PyTree) -> PyTree:
    """Remove weak types.

    Every program would be compiled twice if only the first state had weak types.
    """
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), tree)


def typed_key(key: Key) -> Keys:
    """Return the key as an array of JAX's key type, whose axes are those of the batch."""
    is_typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return key if is_typed else jax.random.wrap_key_data(key)


def batch_last(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Make a function of arrays with a trailing batch axis one of arrays without, for ``vmap``.

    ``vmap`` puts the batch first, and XLA's loops over the last axis are short where that is a
    handful of agents: on a CPU they are hardly vectorised. ``function`` is called with the batch
    last instead, which makes operations on tables of agents three times as fast.
    """

    @jax.custom_batching.custom_vmap
    def one(*args: PyTree) -> PyTree:
        result = function(*jax.tree.map(lambda x: x[..., None], args))
        return jax.tree.map(lambda x: x[..., 0], result)

    @one.def_vmap
    def many(axis_size: int, is_batched: PyTree, *args: PyTree) -> tuple[PyTree, PyTree]:
        def to_last(x: Array, is_batched: bool) -> Array:
            if is_batched:
                return jnp.moveaxis(x, 0, -1)
            return jnp.broadcast_to(x[..., None], (*x.shape, axis_size))

        result = function(*jax.tree.map(to_last, args, tuple(is_batched)))
        result = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), result)
        return result, jax.tree.map(lambda _: True, result)

    return one
