"""Weight initialisers."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ratiosym.types import Key


def orthogonal(
    key: Key, num_inputs: int, num_outputs: int, gain: float = 1.0
) -> Float[Array, "F O"]:
    """Draw a uniformly random kernel whose shorter side is orthonormal, scaled by ``gain``.

    Uses Gram-Schmidt on Gaussian columns, orthogonalised twice so that float32 suffices. JAX's own
    initialiser uses LAPACK, whose batched factorisation can deadlock on a CPU with few cores.
    """
    long, short = max(num_inputs, num_outputs), min(num_inputs, num_outputs)
    columns = jax.random.normal(key, (long, short))

    def clean(
        number: Int[Array, ""], columns: Float[Array, "long short"]
    ) -> Float[Array, "long short"]:
        before = columns * (jnp.arange(short) < number)[None]  # already orthonormal
        column = jax.lax.dynamic_index_in_dim(columns, number, axis=1, keepdims=False)
        for _ in range(2):
            column = column - before @ (before.T @ column)
        return jax.lax.dynamic_update_index_in_dim(
            columns, column / jnp.linalg.norm(column), number, axis=1
        )

    kernel = jax.lax.fori_loop(0, short, clean, columns)
    return gain * (kernel if num_inputs >= num_outputs else kernel.T)
