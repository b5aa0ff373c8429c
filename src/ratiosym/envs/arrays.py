"""Arrays of other libraries' environments."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree


def strongly_typed(tree: PyTree) -> PyTree:
    """Without JAX's weak types: a first state that has some and a later one that has none would
    compile every program twice.
    """
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), tree)
