"""Settings that every test runs under: quick compilation, checked annotations, two CPU devices,
strict shapes, a shared compilation cache.
"""

import os
from contextlib import nullcontext

# Compiling takes most of the time of these tests, so the compiler does as little as it can: a third
# of the CPU time of its default. Before JAX starts, and in the environment, so that the processes
# that tests start compile the same programs and arrive at the same bits.
# RATIOSYM_TEST_OPTIMISED=1 leaves the compiler as users have it.
QUICK = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    # As the command line sets them: a busy machine is no reason to abort.
    "--xla_cpu_collective_call_warn_stuck_timeout_seconds=600",
    "--xla_cpu_collective_call_terminate_timeout_seconds=36000",
]
if not os.environ.get("RATIOSYM_TEST_OPTIMISED"):
    os.environ["XLA_FLAGS"] = " ".join(QUICK)

import jax
import pytest
from jaxtyping import install_import_hook

from tests import typechecking

# Annotated shapes and types are checked at every call, in whatever is imported from here on.
if os.environ.get("RATIOSYM_TEST_TYPES"):
    install_import_hook("ratiosym", f"{typechecking.__name__}.check_types")

from ratiosym.learning.devices import start_jax
from tests import example_runs as runs

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
# As the command line does, so that processes that tests start find their programs compiled.
start_jax()


# Pieces of memory; a process may have 65,530 (vm.max_map_count), an update program takes 1,200
# (2,400 when optimised).
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


@pytest.fixture(autouse=True)
def check_types_unless_told(request):
    """Tests marked ``unchecked`` pass other types than announced, on purpose."""
    is_marked = request.node.get_closest_marker("unchecked")
    with typechecking.unchecked() if is_marked else nullcontext():
        yield


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
