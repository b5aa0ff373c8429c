"""A gated recurrent unit over whole sequences, with a custom gradient.

Differentiating through a scan computes the weight gradient as a small matrix product at every step.
Here the backward scan only collects the gradients at the gates, and a single large product
afterwards forms the weight gradient. The input projection of the whole sequence is likewise a
single product before the scan. See docs/performance.md for measurements.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.learning.initialisers import orthogonal
from ratiosym.types import Key


class GRUParams(NamedTuple):
    """Weights of the three gates, concatenated in the order reset, update, candidate."""

    input_kernel: Float[Array, "F 3*H"]
    input_bias: Float[Array, "3*H"]
    recurrent_kernel: Float[Array, "H 3*H"]
    candidate_bias: Float[Array, "H"]  # inside the reset gate's product


def init_gru(key: Key, input_size: int, hidden_size: int) -> GRUParams:
    """Initialise each gate separately: LeCun normal inputs, orthogonal recurrence, zero biases."""
    input_key, recurrent_key = jax.random.split(key)

    def gates(init: Callable[[Key], Array], key: Key) -> Float[Array, "F gates"]:
        return jnp.concatenate(list(jax.vmap(init)(jax.random.split(key, 3))), axis=1)

    return GRUParams(
        gates(
            lambda k: jax.nn.initializers.lecun_normal()(k, (input_size, hidden_size)), input_key
        ),
        jnp.zeros(3 * hidden_size),
        gates(lambda k: orthogonal(k, hidden_size, hidden_size), recurrent_key),
        jnp.zeros(hidden_size),
    )


def gru(
    params: GRUParams,
    inputs: Float[Array, "T *b F"],
    is_start: Bool[Array, "T *b"],
    carry: Float[Array, "*b H"],
) -> Float[Array, "T *b H"]:
    r"""Compute the hidden states over a sequence.

    Where ``is_start`` is set, the carry is zeroed before the input is read.

    .. math::
        \rho &= \sigma(W_\rho x + b_\rho + U_\rho h), \quad z = \sigma(W_z x + b_z + U_z h) \\
        n &= \tanh(W_n x + b_n + \rho \odot (U_n h + c)), \quad h' = (1 - z) \odot n + z \odot h

    The last returned state is the next carry.
    """
    projected = flat_affine(inputs, params.input_kernel, params.input_bias)
    retain = 1.0 - is_start.astype(inputs.dtype)[..., None]
    gates = tuple(jnp.split(projected, 3, axis=-1))
    return recurrence(params.recurrent_kernel, params.candidate_bias, gates, retain, carry)


def flat_affine(
    x: Float[Array, "*b F"], kernel: Float[Array, "F O"], bias: Float[Array, "O"]
) -> Float[Array, "*b O"]:
    """``x @ kernel + bias`` as a product of two matrices.

    The gradient of a product with several batch axes transposes both operands first, which costs a
    quarter of the speed of dense layers (docs/performance.md).
    """
    flat = x.reshape(-1, x.shape[-1]) @ kernel + bias[None]
    return flat.reshape(*x.shape[:-1], -1)


def expand(vector: Float[Array, "n"], ndim: int) -> Float[Array, "..."]:
    """Reshape a vector to ``ndim`` axes, of which it is the last."""
    return vector.reshape((1,) * (ndim - 1) + vector.shape)


@jax.custom_vjp
def recurrence(
    kernel: Float[Array, "H 3*H"],
    bias: Float[Array, "H"],
    projected: tuple[Float[Array, "T *b H"], Float[Array, "T *b H"], Float[Array, "T *b H"]],
    retain: Float[Array, "T *b 1"],  # 0 where an episode starts, else 1
    carry: Float[Array, "*b H"],
) -> Float[Array, "T *b H"]:
    """The part of the GRU that must be computed step by step.

    The three gates' inputs come as three arrays: a slice of a wider one inside the loop would not
    be vectorised, which makes the forward pass twice as slow (docs/performance.md).
    """
    return _forward(kernel, bias, projected, retain, carry)[0]


def _forward(kernel, bias, projected, retain, carry):  # type: ignore[no-untyped-def]
    bias = expand(bias, carry.ndim)

    def step(h, now):  # type: ignore[no-untyped-def]
        x_reset, x_update, x_candidate, k = now
        h = h * k
        h_reset, h_update, h_candidate = jnp.split(h @ kernel, 3, axis=-1)
        h_candidate = h_candidate + bias
        reset, update = jax.nn.sigmoid(x_reset + h_reset), jax.nn.sigmoid(x_update + h_update)
        candidate = jnp.tanh(x_candidate + reset * h_candidate)
        new = candidate + update * (h - candidate)
        return new, (new, reset, update, candidate, h_candidate)

    _, saved = jax.lax.scan(step, carry, (*projected, retain))
    return saved[0], (kernel, retain, carry, *saved)


def _backward(saved, gradient):  # type: ignore[no-untyped-def]
    kernel, retain, carry, new, reset, update, candidate, h_candidate = saved
    transposed = kernel.T
    h = jnp.concatenate([carry[None], new[:-1]]) * retain

    def step(d_next, now):  # type: ignore[no-untyped-def]
        d_out, k, h, reset, update, candidate, h_candidate = now
        d = d_out + d_next
        d_pre_candidate = d * (1 - update) * (1 - candidate * candidate)
        d_pre_update = d * (h - candidate) * update * (1 - update)
        d_pre_reset = d_pre_candidate * h_candidate * reset * (1 - reset)
        d_gates = jnp.concatenate([d_pre_reset, d_pre_update, d_pre_candidate * reset], axis=-1)
        d_h = (d * update + d_gates @ transposed) * k
        return d_h, (d_gates, d_pre_candidate)

    d_carry, (d_gates, d_pre_candidate) = jax.lax.scan(
        step,
        jnp.zeros_like(h[0]),
        (gradient, retain, h, reset, update, candidate, h_candidate),
        reverse=True,
    )
    hidden_size = h.shape[-1]
    flat_gates = d_gates.reshape(-1, 3 * hidden_size)  # [T * b, 3H]
    d_kernel = h.reshape(-1, hidden_size).T @ flat_gates
    d_bias = flat_gates[:, 2 * hidden_size :].sum(0)
    d_reset, d_update, _ = jnp.split(d_gates, 3, axis=-1)
    d_projected = (d_reset, d_update, d_pre_candidate)
    return d_kernel, d_bias, d_projected, jnp.zeros_like(retain), d_carry


recurrence.defvjp(_forward, _backward)
