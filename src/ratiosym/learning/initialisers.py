"""How weights are initialised."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ratiosym.types import Key


def orthogonal(
    key: Key, num_inputs: int, num_outputs: int, gain: float = 1.0
) -> Float[Array, "F O"]:
    """A kernel whose shorter side is orthonormal, times ``gain``; uniform over all such kernels.

    Gram-Schmidt on Gaussian columns, each cleaned twice so that float32 suffices. JAX's own
    initialiser factorises with LAPACK instead, whose batched form can wait for itself forever on a
    CPU with few cores (decision 19).
    """
    long, short = max(num_inputs, num_outputs), min(num_inputs, num_outputs)
    columns = jax.random.normal(key, (long, short))

    def clean(
        number: Int[Array, ""], columns: Float[Array, "long short"]
    ) -> Float[Array, "long short"]:
        before = columns * (jnp.arange(short) < number)[None]  # those already orthonormal
        column = jax.lax.dynamic_index_in_dim(columns, number, axis=1, keepdims=False)
        for _ in range(2):
            column = column - before @ (before.T @ column)
        return jax.lax.dynamic_update_index_in_dim(
            columns, column / jnp.linalg.norm(column), number, axis=1
        )

    kernel = jax.lax.fori_loop(0, short, clean, columns)
    return gain * (kernel if num_inputs >= num_outputs else kernel.T)
