"""JAX's random bits on CPUs, compiled without loops.

On CPUs, JAX computes each batch of random bits in a loop. XLA takes three times as long to compile
such a loop as the same rounds one after the other, and environments draw often
(docs/performance.md).
"""

import jax.numpy as jnp
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
    keys = key_0, key_1, key_0 ^ key_1 ^ jnp.uint32(PARITY)
    x_0, x_1 = x_0 + key_0, x_1 + key_1
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            x_0 = x_0 + x_1
            x_1 = x_0 ^ (x_1 << distance | x_1 >> (32 - distance))
        x_0 = x_0 + keys[(group + 1) % 3]
        x_1 = x_1 + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return list(lax.optimization_barrier((x_0, x_1)))


def use_unrolled_threefry() -> None:
    """Replace the loop in all programs of this process. The bits stay the same."""
    rule = mlir.lower_fun(threefry, multiple_results=True)
    mlir.register_lowering(threefry2x32_p, rule, platform="cpu", inline=False)
