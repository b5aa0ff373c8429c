"""Executors of jobs: their protocol, and processes on this machine pinned to their own cores."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import IO, Literal, Protocol, runtime_checkable

from ratiosym.errors import InputError
from ratiosym.experiments.jobs.cluster import RayTasks
from ratiosym.experiments.jobs.job import Job, job_file
from ratiosym.learning.devices import num_cores

GRACE_SECONDS = 10.0  # between asking a worker to end and killing it
LOG_LINES = 20  # shown of a dead worker's log


@runtime_checkable
class Executor(Protocol):
    """Runs jobs. Whether a job succeeded is for the job itself to say."""

    def capacity(self) -> int:
        """Number of jobs that can run at the same time."""

    def has_room(self) -> bool:
        """Whether another job may be started."""

    def start(self, job: Job) -> None:
        """Start a worker for a job."""

    def ended(self) -> list[tuple[Job, str]]:
        """Return jobs whose worker has ended since the last call, and how it died ('' if not)."""

    def close(self) -> None:
        """End all workers."""


MakeExecutor = Callable[[], Executor]


def choose_executor(
    kind: Literal["local", "ray"] = "local",
    num_workers: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> MakeExecutor:
    """Return a factory of the executor that a command's options describe."""
    if kind == "local":
        if (num_cpus, num_gpus) != (1, 0):
            raise InputError(
                "`num_cpus` and `num_gpus` are for `executor` ray. On this machine, use "
                "`num_workers`."
            )
        check_workers(num_workers)
        return partial(LocalProcesses, num_workers)
    if num_workers is not None:
        raise InputError(
            "`num_workers` is for `executor` local. Ray runs as many jobs as fit: use `num_cpus` "
            "and `num_gpus`."
        )
    return partial(RayTasks, num_cpus, num_gpus)


def check_workers(num_workers: int | None) -> None:
    """Raise ``InputError`` for an invalid number of workers."""
    if num_workers is not None and num_workers < 1:
        raise InputError(f"`num_workers` is {num_workers}; it must be at least 1.")


def default_workers() -> int:
    """Return one worker per core, or a single one if there is an accelerator."""
    import jax

    return num_cores() if jax.default_backend() == "cpu" else 1


class LocalProcesses:
    """One process per job, each pinned to its own cores.

    Starting a process takes a few seconds. In return, a crash does not affect other jobs, memory is
    freed, and every job can be killed and restarted separately.
    """

    def __init__(self, num_workers: int | None = None) -> None:
        """``num_workers`` is the number of processes, by default ``default_workers``."""
        check_workers(num_workers)
        self.num_workers = num_workers or default_workers()
        self._free = share_cores(self.num_workers)
        self._busy: list[tuple[Job, list[int], subprocess.Popen[bytes]]] = []

    def capacity(self) -> int:
        """Number of processes."""
        return self.num_workers

    def has_room(self) -> bool:
        """Whether another job may be started."""
        return bool(self._free)

    def start(self, job: Job) -> None:
        """Start a process for a job; its output goes to the job's log."""
        cores = self._free.pop(0)
        path = job_file(job, ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ratiosym.experiments.jobs.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # keep Ctrl-C from workers, which we end ourselves
            )
        assert process.stdin is not None
        self._busy.append((job, cores, process))
        send_job(process.stdin, job, cores)  # the pipe stays open, as a worker ends with it

    def ended(self) -> list[tuple[Job, str]]:
        """Return the jobs whose process has ended."""
        over = [entry for entry in self._busy if entry[2].poll() is not None]
        self._busy = [entry for entry in self._busy if entry not in over]
        for _, cores, process in over:
            self._free.append(cores)
            _close_input(process)
        return [(job, describe_end(job, process.returncode)) for job, _, process in over]

    def close(self) -> None:
        """Ask workers to end, and kill those that do not."""
        for _, _, process in self._busy:
            process.terminate()
        deadline = monotonic() + GRACE_SECONDS
        for _, _, process in self._busy:
            try:
                process.wait(max(0.0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _close_input(process)
        self._busy = []


def send_job(pipe: IO[bytes], job: Job, cores: list[int]) -> None:
    """Send a job to a worker process, which ends when the pipe is closed."""
    pickle.dump(cores, pipe)
    pickle.dump(job, pipe)
    pipe.flush()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def describe_end(job: Job, code: int) -> str:
    """Describe how a process died, with the last lines of its output."""
    if code == 0:
        return ""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    last = job_file(job, ".log").read_text(errors="replace").splitlines()[-LOG_LINES:]
    return "\n".join([f"The worker process {how}.", *last])


def share_cores(num_workers: int) -> list[list[int]]:
    """Divide the cores among the workers, or give each worker one if there are too few.

    Returns empty lists if processes cannot be pinned to cores.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) >= num_workers:
        return [cores[i::num_workers] for i in range(num_workers)]
    return [cores[i % len(cores) :][:1] if cores else [] for i in range(num_workers)]
