"""The options of every command that runs workers: reproduce, study run and tune."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from ratiosym.cli.arguments import Arg, Command

if TYPE_CHECKING:
    from ratiosym.experiments.jobs import MakeExecutor

WORKERS = "workers"


@dataclass(frozen=True)
class WorkersCommand(Command):
    """Base class of commands that run workers."""

    executor: Annotated[Literal["local", "ray"], Arg(group=WORKERS)] = "local"
    """local: processes on this machine. ray: a Ray cluster, the one at RAY_ADDRESS or one started
    here (pip install 'ratiosym[cluster]')."""
    num_workers: Annotated[int | None, Arg("N", WORKERS, flag="--workers")] = None
    """local: the number of processes, each on its own cores (default: one per core; a single one
    with an accelerator)."""
    num_cpus: Annotated[float, Arg(group=WORKERS, flag="--cpus")] = 1
    """ray: cores per worker."""
    num_gpus: Annotated[float, Arg(group=WORKERS, flag="--gpus")] = 0
    """ray: GPUs per worker; a fraction such as 0.25 lets several share one."""

    def make_executor(self) -> "MakeExecutor":
        """Return the factory of the executor."""
        from ratiosym.experiments.jobs import choose_executor

        return choose_executor(self.executor, self.num_workers, self.num_cpus, self.num_gpus)
