"""Settings that every test runs under: two CPU devices, strict shapes, a shared compilation cache."""

import jax
import pytest

from ratiosym.learning.devices import keep_programs

keep_programs()
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)
