"""Where the runs of a study are computed: processes on this machine, or a Ray cluster."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, runtime_checkable

import jax

from ratiosym.errors import InputError, MissingLibraryError
from ratiosym.experiments.plans import PlannedRun
from ratiosym.experiments.worker import carry_out_remotely, encode_job, work_file
from ratiosym.learning.devices import num_cores

GRACE_SECONDS = 10.0  # for a worker to end when asked to
REMOTE_PATIENCE = 60.0  # a node that is lost may hold its locks a little longer


@runtime_checkable
class Executor(Protocol):
    """Somewhere to compute. A run is over when ``ended`` says so; what came of it is in its
    directory.
    """

    def has_room(self) -> bool:
        """Whether another run may be started."""

    def start(self, run: PlannedRun) -> None:
        """Start a run, or go on with it."""

    def ended(self) -> list[tuple[PlannedRun, str]]:
        """Runs that nobody works on any more, once each, and how their worker died ('' if it did
        not).
        """

    def close(self) -> None:
        """End what is still running."""


MakeExecutor = Callable[[Path], Executor]


class LocalProcesses:
    """A process a run, each with cores of its own."""  # Decision 51

    def __init__(self, directory: Path, num_workers: int | None = None) -> None:
        """``num_workers`` is one a core by default; with an accelerator one in all, which has all
        of it.
        """
        if num_workers is not None and num_workers < 1:
            raise InputError(f"--workers is {num_workers}; it must be at least 1.")
        self.directory = directory.absolute()
        default = num_cores() if jax.default_backend() == "cpu" else 1
        self.free = share_cores(num_workers or default)
        self.busy: list[tuple[PlannedRun, list[int], subprocess.Popen[str]]] = []

    def has_room(self) -> bool:
        """Whether another run may be started."""
        return bool(self.free)

    def start(self, run: PlannedRun) -> None:
        """A process for a run; its output goes into a file."""
        cores = self.free.pop(0)
        path = work_file(self.directory, run, ".log")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ratiosym.experiments.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for us; we end our workers ourselves
            )
        assert process.stdin is not None
        self.busy.append((run, cores, process))
        process.stdin.write(encode_job(self.directory, run, cores))
        process.stdin.flush()  # and it stays open: a worker ends with it

    def ended(self) -> list[tuple[PlannedRun, str]]:
        """Runs whose process is gone."""
        over = [entry for entry in self.busy if entry[2].poll() is not None]
        self.busy = [entry for entry in self.busy if entry not in over]
        self.free.extend(cores for _, cores, _ in over)
        for _, _, process in over:
            process.stdin.close()  # type: ignore[union-attr]
        return [(run, self.describe_end(run, process.returncode)) for run, _, process in over]

    def describe_end(self, run: PlannedRun, code: int) -> str:
        """How a process died, with the last lines it printed."""
        if code == 0:
            return ""
        how = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )
        last = work_file(self.directory, run, ".log").read_text(errors="replace").splitlines()[-20:]
        return "\n".join([f"The worker process {how}.", *last])

    def close(self) -> None:
        """Ask workers to end; those that do not are killed."""
        for _, _, process in self.busy:
            process.terminate()
        deadline = monotonic() + GRACE_SECONDS
        for _, _, process in self.busy:
            try:
                process.wait(max(0.0, deadline - monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdin.close()  # type: ignore[union-attr]
        self.busy = []


def share_cores(num_workers: int) -> list[list[int]]:
    """Cores for each worker: shared out if there are enough, else used by several; empty where they
    cannot be bound.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) >= num_workers:
        return [cores[i::num_workers] for i in range(num_workers)]
    return [cores[i % len(cores) :][:1] if cores else [] for i in range(num_workers)]


class RayTasks:
    """Runs as tasks of a Ray cluster: that of RAY_ADDRESS, or a new one on this machine.

    The study's directory must be on storage that all machines share, with locks that they share
    too.
    """

    def __init__(self, directory: Path, num_cpus: float = 1, num_gpus: float = 0) -> None:
        """``num_cpus`` and ``num_gpus`` are what each run gets."""
        if num_cpus < 0 or num_gpus < 0 or num_cpus + num_gpus <= 0:
            raise InputError(
                f"--cpus is {num_cpus:g} and --gpus {num_gpus:g}; a run needs some of one of them."
            )
        self.directory = directory.absolute()
        self.ray = import_ray()
        self.needed = {"CPU": num_cpus, "GPU": num_gpus}
        self.is_own = not self.ray.is_initialized()
        if self.is_own:
            connect(self.ray)
        try:
            check_resources(self.ray.nodes(), self.needed)
        except InputError:
            self.close()
            raise
        # A process a run, as on one machine. A lost run is started again by the study, which counts
        # (Decision 57).
        options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": 0, "max_calls": 1}
        self.task = self.ray.remote(**options)(carry_out_remotely)
        self.busy: dict[Any, PlannedRun] = {}

    def has_room(self) -> bool:
        """Ray keeps a queue: as much again as fits now, so that no worker waits for us and a
        cluster can grow.
        """
        total = self.ray.cluster_resources()
        fits = min(
            int(total.get(name, 0) / amount) for name, amount in self.needed.items() if amount
        )
        return len(self.busy) < 2 * max(1, fits)

    def start(self, run: PlannedRun) -> None:
        """Hand a run to the cluster."""
        self.busy[self.task.remote(self.directory, run, self.needed["CPU"], REMOTE_PATIENCE)] = run

    def ended(self) -> list[tuple[PlannedRun, str]]:
        """Runs whose task is over."""
        if not self.busy:
            return []
        over, _ = self.ray.wait(list(self.busy), num_returns=len(self.busy), timeout=0)
        return [(self.busy.pop(task), self.describe_end(task)) for task in over]

    def describe_end(self, task: Any) -> str:
        """How a task was lost."""
        try:
            self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            return f"The worker of the cluster was lost. {type(error).__name__}: {error}"
        return ""

    def close(self) -> None:
        """Leave the cluster, which ends our tasks; one of our own is shut down."""
        if self.is_own:
            self.ray.shutdown()
            return
        for task in self.busy:
            self.ray.cancel(task, force=True)


def import_ray() -> Any:
    """The library, or how to get it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault(
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
    )  # its coming default; without it Ray warns
    try:
        import ray
    except ImportError:
        raise MissingLibraryError(
            "--executor ray needs the library Ray. Install it with: pip install 'ratiosym[cluster]'"
        ) from None
    return ray


def connect(ray: Any) -> None:
    """Join the cluster of RAY_ADDRESS or start one here, without chatter."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        os.environ.setdefault(
            "RAY_worker_niceness", "0"
        )  # Ray's 15 leaves a busy machine's workers almost no time
        # Nothing is passed through the object store: its smallest size.
        ray.init(
            "local",
            include_dashboard=False,
            num_cpus=num_cores(),
            object_store_memory=80 * 2**20,
            **quiet,
        )
        return
    try:
        check_answer(address)  # first: Ray itself would try for minutes, and aloud
        ray.init(address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"There is no Ray cluster at RAY_ADDRESS={address} ({str(error).splitlines()[0]}). "
            f"Start one with "
            f"'ray start --head', or unset RAY_ADDRESS for one on this machine."
        ) from None


def check_answer(address: str) -> None:
    """OSError if nobody listens at HOST:PORT; 'auto' and the like are Ray's business."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def check_resources(nodes: list[dict[str, Any]], needed: dict[str, float]) -> None:
    """Some machine has what a run needs; otherwise Ray would wait for ever."""
    found = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(
        all(have.get(name, 0) >= amount for name, amount in needed.items()) for have in found
    ):
        wanted = " and ".join(f"{amount:g} {name}s" for name, amount in needed.items() if amount)
        machines = "; ".join(
            f"{have.get('CPU', 0):g} CPUs, {have.get('GPU', 0):g} GPUs" for have in found
        )
        raise InputError(
            f"No machine of the cluster has {wanted} for a run ({machines}). Lower --cpus or "
            f"--gpus."
        )
