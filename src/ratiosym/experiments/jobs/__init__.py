"""Jobs: work that is claimed by a lock and carried out by one process per core or by Ray tasks.

A study's runs and a search's workers are jobs. ``run_jobs`` carries them out with an executor,
``LocalProcesses`` or ``RayTasks``; a job whose worker dies is started again, unless several in a
row die without progress.
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
