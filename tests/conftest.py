"""Settings of all tests.

These are fast compilation, checked annotations, two CPU devices, strict shapes and a shared
compilation cache.
"""

import gc
import os
from contextlib import nullcontext

# Compilation takes most of the time of these tests, so optimisation is reduced to a minimum, which
# takes a third of the CPU time. This is set before JAX starts and in the environment, so that
# processes started by tests compile the same programs and compute the same bits.
# RATIOSYM_TEST_OPTIMISED=1 keeps the compiler's defaults.
QUICK = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    # As set by the command line: do not abort on a busy machine.
    "--xla_cpu_collective_call_warn_stuck_timeout_seconds=600",
    "--xla_cpu_collective_call_terminate_timeout_seconds=36000",
]
# Tests replace parts of the source at run time, which stored programs would not notice.
os.environ["RATIOSYM_PROGRAMS"] = "0"
if not os.environ.get("RATIOSYM_TEST_OPTIMISED"):
    os.environ["XLA_FLAGS"] = " ".join(QUICK)

import jax
import pytest
from jaxtyping import install_import_hook

from tests import typechecking

# Annotated shapes and dtypes are checked at every call where arrays are computed.
CHECKED = ["objectives", "types", "envs", "learning", "report"]
install_import_hook(
    [f"ratiosym.{part}" for part in CHECKED], f"{typechecking.__name__}.check_types"
)

from ratiosym.learning.devices import start_jax
from ratiosym.objectives import OBJECTIVES
from tests import example_runs as runs

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
# As in the command line, so that processes started by tests find compiled programs.
start_jax()

# Tracing creates many long-lived objects; collecting them over and over costs a tenth of the time.
gc.freeze()
gc.set_threshold(100_000, 20, 20)


# Memory maps: a process may have 65,530 (vm.max_map_count), and an update program takes 1,200
# (2,400 when optimised).
MANY_MAPS = 20_000


@pytest.fixture(scope="module", autouse=True)
def forget_programs_of_the_module():
    """Release compiled programs after each module."""
    yield
    jax.clear_caches()


@pytest.fixture(autouse=True)
def forget_programs():
    """Release compiled programs before there are too many, as XLA would crash."""
    yield
    with open("/proc/self/maps") as maps:
        if sum(1 for _ in maps) > MANY_MAPS:
            jax.clear_caches()


@pytest.fixture(autouse=True)
def forget_registered_objectives():
    """Remove the objectives that a test has registered."""
    before = dict(OBJECTIVES)
    yield
    OBJECTIVES.clear()
    OBJECTIVES.update(before)


@pytest.fixture(autouse=True)
def check_types_unless_told(request):
    """Disable type checks in tests marked ``unchecked``, which pass wrong types on purpose."""
    is_marked = request.node.get_closest_marker("unchecked")
    with typechecking.unchecked() if is_marked else nullcontext():
        yield


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A run of one seed, read-only."""
    return runs.whole_run(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def whole_seeds(tmp_path_factory):
    """A run of two seeds, read-only."""
    return runs.whole_runs(tmp_path_factory.getbasetemp())
