"""Running many jobs: start the next one when there is room, and restart those whose worker died."""

from collections import deque
from collections.abc import Callable, Iterable
from time import sleep

from ratiosym.experiments.jobs.executors import Executor
from ratiosym.experiments.jobs.job import Job, claim, is_claimed

MAX_LOSSES = 3  # consecutive workers that a job may lose without progress before it is given up
POLL_SECONDS = 0.5


def run_jobs(
    jobs: Iterable[Job], executor: Executor, on_poll: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Run jobs until all are over. Returns the names of those that were given up, with the reason.

    Waits for jobs that another process has claimed, as it may die and leave them to us. ``on_poll``
    is called about twice per second.
    """
    runner = _Runner(jobs, executor)
    while True:
        for job, death in executor.ended():
            runner.settle(job, death)
        runner.start_more()
        on_poll()
        if not runner.waiting and not runner.started:
            return runner.given_up
        sleep(POLL_SECONDS)


class _Runner:
    """The jobs that are not over."""

    def __init__(self, jobs: Iterable[Job], executor: Executor) -> None:
        self.executor = executor
        self.waiting = deque(job for job in jobs if not job.is_over())
        self.started: set[str] = set()  # by us, and still running
        self.losses: dict[
            str, tuple[int, float]
        ] = {}  # consecutive losses, and the progress at the last one
        self.given_up: dict[str, str] = {}

    def start_more(self) -> None:
        """Start further jobs while there is room."""
        for job in list(self.waiting):
            if not self.executor.has_room():
                return
            if is_claimed(job):
                continue
            self.waiting.remove(job)
            if not job.is_over():  # another process may have finished it in the meantime
                self.started.add(job.name)
                self.executor.start(job)

    def settle(self, job: Job, death: str) -> None:
        """Handle the end of a worker: its job is over, is queued again, or is given up."""
        self.started.discard(job.name)
        if job.is_over():
            return
        if not death or is_claimed(job):  # another process has it
            self.waiting.append(job)
        elif self.count_loss(job) < MAX_LOSSES:
            self.waiting.appendleft(job)
        else:
            self.give_up(job, death)

    def count_loss(self, job: Job) -> int:
        """Count the consecutive workers that the job has lost without progress."""
        count, before = self.losses.get(job.name, (0, float("-inf")))
        progress = job.progress()
        count = count + 1 if progress <= before else 1
        self.losses[job.name] = (count, progress)
        return count

    def give_up(self, job: Job, death: str) -> None:
        """Mark a job as failed, unless another process has claimed it."""
        with claim(job) as is_ours:
            if is_ours:
                reason = f"{MAX_LOSSES} workers in a row died without progress. {death}"
                self.given_up[job.name] = reason
                job.give_up(reason)
            else:
                self.waiting.append(job)
