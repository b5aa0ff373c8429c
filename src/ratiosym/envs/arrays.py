"""Array helpers for environments of other libraries."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def strongly_typed(tree: PyTree) -> PyTree:
    """Remove weak types.

    Every program would be compiled twice if only the first state had weak types.
    """
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), tree)
