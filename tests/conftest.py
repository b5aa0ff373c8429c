"""Settings that every test runs under: two CPU devices, strict shapes, a shared compilation
cache.
"""

import jax
import pytest

from ratiosym.learning.devices import start_jax
from tests import example_runs as runs

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
# as the command line does, so that processes which tests start find their programs compiled
start_jax()


# pieces of memory; a process may have 65,530 (vm.max_map_count), an update program takes 2,400
MANY_MAPS = 20_000


@pytest.fixture(scope="module", autouse=True)
def forget_programs_of_the_module():
    """Compiled programs go with their module."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def forget_programs():
    """And before there are too many for one process: XLA crashes where no memory can be mapped."""
    yield
    with open("/proc/self/maps") as maps:
        if sum(1 for _ in maps) > MANY_MAPS:
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
