"""JAX's random bits on CPUs, compiled without loops.

On CPUs, JAX computes each batch of random bits in a loop. XLA takes three times as long to compile
such a loop as the same rounds one after the other, and environments draw often
(docs/performance.md).
"""

import numpy as np
from jax import lax
from jax.extend.random import threefry2x32_p
from jax.interpreters import mlir
from jaxtyping import Array, UInt32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


Words = UInt32[Array, "..."]


def threefry(key_0: Words, key_1: Words, x_0: Words, x_1: Words) -> list[Words]:
    """Encrypt counters with Threefry-2x32 in 20 rounds (Salmon et al., 2011)."""
    # Barriers: fused with what surrounds them, random bits would be computed anew for every use,
    # and other results would be rounded differently.
    key_0, key_1, x_0, x_1 = lax.optimization_barrier((key_0, key_1, x_0, x_1))

    def constant(number: int) -> Words:
        return lax.full(x_0.shape, number, np.uint32)

    # Operators would do, but take five times as long to trace.
    keys = key_0, key_1, lax.bitwise_xor(lax.bitwise_xor(key_0, key_1), constant(PARITY))
    x_0, x_1 = lax.add(x_0, key_0), lax.add(x_1, key_1)
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            x_0 = lax.add(x_0, x_1)
            left = lax.shift_left(x_1, constant(distance))
            right = lax.shift_right_logical(x_1, constant(32 - distance))
            x_1 = lax.bitwise_xor(x_0, lax.bitwise_or(left, right))
        x_0 = lax.add(x_0, keys[(group + 1) % 3])
        x_1 = lax.add(lax.add(x_1, keys[(group + 2) % 3]), constant(group + 1))
    return list(lax.optimization_barrier((x_0, x_1)))


def use_unrolled_threefry() -> None:
    """Replace the loop in all programs of this process. The bits stay the same."""
    rule = mlir.lower_fun(threefry, multiple_results=True)
    mlir.register_lowering(threefry2x32_p, rule, platform="cpu", inline=False)
