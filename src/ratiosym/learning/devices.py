"""Devices, hosts and the compilation cache, which must be set up before JAX starts.

Importing this module does not import JAX, so that errors of the command line appear instantly.
"""

import ctypes
import hashlib
import os
import platform
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from ratiosym.errors import InputError, LostProcessError
from ratiosym.machine import cpu_info


def num_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_jax(
    coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None
) -> None:
    """Set up one JAX device per core, the compilation cache and, if given, other hosts.

    The number of CPU devices can only be set before JAX starts; later calls do not change it.
    """
    import jax

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # silence the compiler's log messages
    # Do not abort when a device waits long for another, as on a busy or suspended machine.
    timeouts = {"warn_stuck": 600, "terminate": 36000}
    flags = (f"--xla_cpu_collective_call_{k}_timeout_seconds={v}" for k, v in timeouts.items())
    os.environ.setdefault("XLA_FLAGS", " ".join(flags))
    enable_compilation_cache()
    given = (coordinator, num_processes, process_id)
    cores = max(1, num_cores() // (num_processes or 1))
    if jax.config.jax_num_cpu_devices < 1:  # type: ignore[attr-defined]
        with suppress(RuntimeError):  # JAX has already started: use the devices it has
            jax.config.update("jax_num_cpu_devices", cores)
    if any(x is not None for x in given):
        if any(x is None for x in given):
            raise InputError(
                "Several hosts need all three of `coordinator` (HOST:PORT), `num_processes` (N) "
                "and `process_id` (0 to N - 1, different for each process)."
            )
        check_hosts(coordinator, num_processes, process_id)  # type: ignore[arg-type]
        jax.distributed.initialize(coordinator, num_processes, process_id)
        _report_abort()
        # Connecting has a time limit, so do it now, not after one process has spent time compiling.
        agree(True)


@contextmanager
def reporting_lost_processes() -> Iterator[None]:
    """Turn the failure of a collective operation into ``LostProcessError``."""
    import jax

    try:
        yield
    except (ValueError, RuntimeError) as error:  # JAX raises both
        names = ("gloo", "nccl", "coordination", "unavailable", "connection", "deadline")
        is_lost = jax.process_count() > 1 and any(name in str(error).lower() for name in names)
        if isinstance(error, InputError) or not is_lost:
            raise
        raise LostProcessError from None


def _on_abort(_: int) -> None:
    os.write(2, f"ratiosym: {LostProcessError()}\n".encode())
    os._exit(2)


_handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(_on_abort)  # must outlive the call below


def _report_abort() -> None:
    """End with our message where JAX aborts the process, as it does in a thread of its own once the
    first process has gone. Python's own signal handlers run too late for that.
    """
    ctypes.CDLL(None).signal(signal.SIGABRT, _handler)


def check_hosts(coordinator: str, num_processes: int, process_id: int) -> None:
    """Raise ``InputError`` for settings with which JAX would hang or fail obscurely."""
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(
            f"`coordinator` is '{coordinator}'; it must be HOST:PORT, as in 127.0.0.1:9911."
        )
    if num_processes < 1:
        raise InputError(f"`num_processes` is {num_processes}; it must be at least 1.")
    if not 0 <= process_id < num_processes:
        raise InputError(
            f"`process_id` is {process_id}; with `num_processes` {num_processes} it must be from 0 "
            f"to {num_processes - 1}, different for each process."
        )


def agree(is_well: bool) -> bool:
    """Return the first process's value on every process."""
    import jax

    if jax.process_count() == 1:
        return is_well
    from jax.experimental import multihost_utils

    return bool(multihost_utils.broadcast_one_to_all(np.int32(is_well)))


def enable_compilation_cache() -> None:
    """Cache compiled programs on disk, unless the user has already configured a cache."""
    import jax

    # On a busy machine processes wait for each other's cache, and then compile for themselves.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_directory()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
        jax.config.update("jax_compilation_cache_max_size", 2 * 1024**3)


def clear_programs() -> None:
    """Release compiled programs from memory; their copies on disk remain.

    Linux limits the memory maps of a process (vm.max_map_count, 65,530). On a CPU, each program of
    the learner takes about 2,400, and XLA crashes when it runs out.
    """
    import jax

    jax.clear_caches()


def cache_directory() -> Path:
    """Return a cache directory per processor type, as programs for one may not run on another."""
    base = (
        os.environ.get("RATIOSYM_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "ratiosym"
    )
    lines = cpu_info()
    about = sorted({x for x in lines if x.startswith(("flags", "model name", "Features"))})
    processor = "".join(about) if lines else platform.processor()
    kind = hashlib.sha256(f"{platform.machine()} {processor}".encode()).hexdigest()[:12]
    return Path(base).expanduser() / f"compiled-{kind}"
