"""The protocol of a job, and the lock that ensures that only one process works on it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Protocol, runtime_checkable

ending = Event()  # this worker process has been asked to end


@runtime_checkable
class Job(Protocol):
    """A unit of work.

    A job is pickled for its worker. All of its state is on disk or in a database, so that every
    process sees the same.
    """

    @property
    def name(self) -> str:
        """Unique among the jobs that are run together."""

    @property
    def path(self) -> Path:
        """Prefix of the job's own files: ``path.lock``, ``path.log``."""

    def is_over(self) -> bool:
        """Whether it has succeeded or finally failed."""

    def progress(self) -> float:
        """A number that grows with the progress that survives the death of a worker."""

    def run(self) -> None:
        """Start or continue the job. Called in a worker that has claimed it."""

    def give_up(self, reason: str) -> None:
        """Record that the job has failed because its workers died."""


def job_file(job: Job, suffix: str) -> Path:
    """Return the path of a job's lock or log."""
    return job.path.with_name(job.path.name + suffix)


def perform(job: Job, patience: float = 1.0) -> bool:
    """Claim a job and run it unless it is over. Returns False if another process holds it.

    ``patience``, in seconds, outlasts processes that only test the lock.
    """
    with claim(job, patience) as is_ours:
        if is_ours and not job.is_over():
            job.run()
        return is_ours


@contextmanager
def claim(job: Job, patience: float = 1.0) -> Iterator[bool]:
    """Try to lock a job, and yield whether we hold the lock.

    The operating system releases it however the process ends.
    """
    path = job_file(job, ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = monotonic() + patience
    with open(path, "w") as file:
        while not (is_ours := _try_lock(file.fileno(), fcntl.LOCK_EX)) and monotonic() < deadline:
            sleep(0.05)
        yield is_ours


def is_claimed(job: Job) -> bool:
    """Whether a process is working on a job."""
    return is_locked(job_file(job, ".lock"))


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a job."""
    try:
        with open(path) as file:  # closing it releases our lock
            return not _try_lock(file.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int, kind: int) -> bool:
    """Lock an open file unless another process holds it; return whether we hold it."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
