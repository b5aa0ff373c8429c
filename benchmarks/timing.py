"""Timing as the best of several repetitions, which other load disturbs least."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp


def best_seconds(function: Callable[[], Any], repetitions: int = 5) -> float:
    jax.block_until_ready(function())  # compiled and warm
    times = []
    for _ in range(repetitions):
        began = perf_counter()
        jax.block_until_ready(function())
        times.append(perf_counter() - began)
    return min(times)


def peak_gflops(size: int = 2048) -> float:
    """Measure float32 matrix multiplication on all cores of this machine."""
    a = jnp.ones((size, size)) / size
    multiply = jax.jit(lambda a: a @ a)
    return 2 * size**3 / best_seconds(lambda: multiply(a), 10) / 1e9
