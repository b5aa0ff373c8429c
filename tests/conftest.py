"""Settings that every test runs under: two CPU devices, strict shapes, a shared compilation cache."""

import jax
import pytest

from ratiosym.learning.devices import start_jax
from tests import runs

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
start_jax()  # as the command line does, so that processes which tests start find their programs compiled


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """Compiled programs go with their module: a process can map only so many pieces of memory (vm.max_map_count)."""
    yield
    jax.clear_caches()


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A run of one seed; only read."""
    return runs.whole_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def whole_seeds(tmp_path_factory):
    """A run of two seeds; only read."""
    return runs.whole_runs(tmp_path_factory.getbasetemp())
