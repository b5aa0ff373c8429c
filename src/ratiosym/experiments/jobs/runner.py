"""Carrying out many jobs: the next one wherever there is room, again where a worker has died."""

from collections import deque
from collections.abc import Callable, Iterable
from time import sleep

from ratiosym.experiments.jobs.executors import Executor
from ratiosym.experiments.jobs.job import Job, claim, is_claimed

MAX_LOSSES = 3  # workers that a job may lose in a row without making progress (Decision 54)
POLL_SECONDS = 0.5


def run_jobs(
    jobs: Iterable[Job], executor: Executor, on_poll: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Carry out jobs until all are over. Returns those that were given up, by name, and why.

    Jobs that another process has claimed are waited for: it may die and leave them to us.
    ``on_poll`` is called about twice per second.
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
        self.started: set[str] = set()  # by us, and not ended
        self.losses: dict[str, tuple[int, float]] = {}  # in a row, and the progress at the last one
        self.given_up: dict[str, str] = {}

    def start_more(self) -> None:
        """Start the next jobs as far as there is room."""
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
        """A worker has ended: its job is over, waits for another worker, or is given up."""
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
        """How many workers in a row the job has lost without making progress."""
        count, before = self.losses.get(job.name, (0, float("-inf")))
        progress = job.progress()
        count = count + 1 if progress <= before else 1
        self.losses[job.name] = (count, progress)
        return count

    def give_up(self, job: Job, death: str) -> None:
        """Let a job fail, unless another process has claimed it."""
        with claim(job) as is_ours:
            if is_ours:
                reason = f"{MAX_LOSSES} workers in a row died without progress. {death}"
                self.given_up[job.name] = reason
                job.give_up(reason)
            else:
                self.waiting.append(job)
