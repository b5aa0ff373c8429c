"""Jobs: work that is claimed with a lock and executed by local processes or Ray tasks.

The runs of a study and the workers of a search are jobs. ``run_jobs`` executes them with an
executor, ``LocalProcesses`` or ``RayTasks``. A job whose worker dies is restarted, unless several
in a row die without progress.
"""

from ratiosym.experiments.jobs.cluster import RayTasks
from ratiosym.experiments.jobs.executors import (
    Executor,
    LocalProcesses,
    MakeExecutor,
    choose_executor,
    default_workers,
)
from ratiosym.experiments.jobs.job import Job, claim, is_claimed, job_file, perform
from ratiosym.experiments.jobs.runner import run_jobs

__all__ = [
    "Executor",
    "Job",
    "LocalProcesses",
    "MakeExecutor",
    "RayTasks",
    "choose_executor",
    "claim",
    "default_workers",
    "is_claimed",
    "job_file",
    "perform",
    "run_jobs",
]
