"""Jobs as tasks of a Ray cluster: connection, resources and error messages."""

import logging
import os
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

from ratiosym.errors import InputError, MissingLibraryError
from ratiosym.experiments.jobs.job import Job, perform
from ratiosym.learning.devices import num_cores, start_jax

PATIENCE_SECONDS = 60.0  # the locks of a lost machine may be released with a delay


class RayTasks:
    """One Ray task per job, on the cluster of RAY_ADDRESS or a new one on this machine.

    The jobs' files must be on storage that all machines share, including its file locks.
    """

    def __init__(self, num_cpus: float = 1, num_gpus: float = 0) -> None:
        """``num_cpus`` and ``num_gpus`` are the resources per job."""
        if num_cpus < 0 or num_gpus < 0 or num_cpus + num_gpus <= 0:
            raise InputError(
                f"`num_cpus` is {num_cpus:g} and `num_gpus` is {num_gpus:g}; neither can be "
                f"negative, and at least one must be positive."
            )
        self.ray = import_ray()
        self._needed = {"CPU": num_cpus, "GPU": num_gpus}
        self._is_own = not self.ray.is_initialized()
        self._busy: dict[Any, Job] = {}
        if self._is_own:
            connect(self.ray)
        try:
            check_resources(self.ray.nodes(), self._needed)
        except InputError:
            self.close()
            raise
        # One process per job, as on one machine. Ray must not retry, as ``run_jobs`` does so
        # itself and counts the losses.
        options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": 0, "max_calls": 1}
        self._task = self.ray.remote(**options)(perform_remotely)

    def capacity(self) -> int:
        """Number of jobs that fit on the cluster at the moment."""
        total = self.ray.cluster_resources()
        fits = [int(total.get(name, 0) / amount) for name, amount in self._needed.items() if amount]
        return max(1, min(fits))

    def has_room(self) -> bool:
        """Whether another job may be submitted.

        Up to twice as many as fit are queued, so that no worker waits for us and the cluster can
        grow.
        """
        return len(self._busy) < 2 * self.capacity()

    def start(self, job: Job) -> None:
        """Submit a job to the cluster."""
        task = self._task.remote(job, self._needed["CPU"], Path.cwd(), PATIENCE_SECONDS)
        self._busy[task] = job

    def ended(self) -> list[tuple[Job, str]]:
        """Return the jobs whose task has ended."""
        if not self._busy:
            return []
        over, _ = self.ray.wait(list(self._busy), num_returns=len(self._busy), timeout=0)
        return [(self._busy.pop(task), self._describe_end(task)) for task in over]

    def _describe_end(self, task: Any) -> str:
        """Describe how a task ended."""
        try:
            self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            return f"The worker on the cluster failed. {str(error).strip()}"
        except self.ray.exceptions.RayError as error:
            return f"The worker on the cluster was lost. {type(error).__name__}: {error}"
        return ""

    def close(self) -> None:
        """Disconnect, which ends our tasks, and shut down a cluster that we started."""
        if self._is_own:
            self.ray.shutdown()
            return
        for task in self._busy:
            self.ray.cancel(task, force=True)


def perform_remotely(job: Job, num_cpus: float, directory: Path, patience: float) -> bool:
    """Perform a job in a process of the cluster, which does not pin processes to cores.

    ``directory`` is the working directory of the command, so that references to modules there work
    on machines that share it.
    """
    import jax

    if str(directory) not in sys.path:
        sys.path.append(str(directory))
    jax.config.update("jax_num_cpu_devices", max(1, int(num_cpus)))
    start_jax()
    return perform(job, patience)


def import_ray() -> Any:
    """Import Ray, or raise an error that says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's future default, set to avoid a warning.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise MissingLibraryError(
            "`executor` ray needs the library Ray. Install it with: pip install 'ratiosym[cluster]'"
        ) from None
    return ray


def connect(ray: Any) -> None:
    """Connect to the cluster at RAY_ADDRESS or start a local one, without log messages."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = os.environ.get("RAY_ADDRESS")
    with warnings.catch_warnings():
        # JAX warns about forks, which are harmless here, as Ray only starts other programs.
        warnings.simplefilter("ignore")
        if not address:
            _start_cluster(ray, quiet)
            return
        try:
            check_answer(address)  # first, as Ray itself would try for minutes
            ray.init(address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"There is no Ray cluster at RAY_ADDRESS={address} ({str(error).splitlines()[0]}). "
                f"Start one with 'ray start --head', or unset RAY_ADDRESS to use this machine only."
            ) from None


def _start_cluster(ray: Any, quiet: dict[str, Any]) -> None:
    # Ray's default niceness of 15 leaves its workers almost no time on a busy machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Nothing is passed through the object store, so use its minimum size.
    memory = 80 * 2**20
    options = {"include_dashboard": False, "object_store_memory": memory, **quiet}
    ray.init("local", num_cpus=num_cores(), **options)


def check_answer(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT; leave other forms ('auto') to Ray."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def check_resources(nodes: list[dict[str, Any]], needed: dict[str, float]) -> None:
    """Raise if no machine has the resources of a job, as Ray would wait forever."""
    found = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(
        all(have.get(name, 0) >= amount for name, amount in needed.items()) for have in found
    ):
        wanted = " and ".join(f"{amount:g} {name}s" for name, amount in needed.items() if amount)
        machines = "; ".join(
            f"{have.get('CPU', 0):g} CPUs, {have.get('GPU', 0):g} GPUs" for have in found
        )
        raise InputError(
            f"No machine of the cluster has {wanted} for a worker ({machines}). Lower `num_cpus` "
            f"or `num_gpus`."
        )
