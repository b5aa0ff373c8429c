"""Running the trials of a search: in this process, or as jobs."""

import contextlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from statistics import mean
from typing import Any

import optuna
from optuna.trial import TrialState

from ratiosym.errors import InputError
from ratiosym.experiments.jobs import Executor, run_jobs
from ratiosym.experiments.tuning.search import FINISHED, Search, TrialRow
from ratiosym.experiments.tuning.seeds import (
    Diverged,
    TrainSeed,
    seed_value,
    train_seed,
    what_happened,
)
from ratiosym.experiments.tuning.storage import NUMBER, database_errors, trial_directory
from ratiosym.experiments.tuning.trials import TrialQueue
from ratiosym.learning.train import NonFiniteLoss

OnProgress = Callable[[list[TrialRow]], None]


def ignore_progress(rows: list[TrialRow]) -> None:
    """For searches that nobody watches."""


def run_trials(
    search: Search, train: TrainSeed = train_seed, on_progress: OnProgress = ignore_progress
) -> None:
    """Run trials until all are finished, whoever else works on them."""
    with database_errors(search.storage):
        queue = TrialQueue(search)
        on_progress(queue.rows())
        while True:
            with ExitStack() as held:
                trial = queue.claim(held)
                if trial is None:
                    break
                run_trial(queue, trial, train, lambda: on_progress(queue.rows()))
            on_progress(queue.rows())


def run_trial(
    queue: TrialQueue, trial: Any, train: TrainSeed, on_progress: Callable[[], None]
) -> None:
    """Run a trial to its end: complete, pruned or diverged."""
    # A worker that was silent for too long has lost its trial to another, whose result counts.
    with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
        try:
            queue.finish(trial, *run_seeds(queue, trial, train, on_progress))
        except (NonFiniteLoss, Diverged) as error:
            trial.set_user_attr("failure", what_happened(error))
            # As pruned, so that the sampler learns to avoid such parameters (Decision 70).
            queue.finish(trial, TrialState.PRUNED)


def run_seeds(
    queue: TrialQueue, trial: Any, train: TrainSeed, on_progress: Callable[[], None]
) -> tuple[Any, float]:
    """Run seeds one after another, with a pruning check after each but the last: the trial's state
    and value.
    """
    search, directory = queue.search, trial_directory(queue.search.out, trial.user_attrs[NUMBER])
    known = queue.known_seeds(trial.params)
    values = dict(trial.user_attrs["seeds"])  # finished before an interruption
    for step, seed in enumerate(search.seeds):
        on_progress()
        if str(seed) not in values:
            config = search.trial_config(trial.params, seed)
            is_known = str(seed) in known
            values[str(seed)] = (
                known[str(seed)]
                if is_known
                else seed_value(directory / f"seed-{seed}", config, train, search.track)
            )
            trial.set_user_attr("seeds", values)
        so_far = mean(values[str(s)] for s in search.seeds[: step + 1])
        trial.report(so_far, step)
        if step + 1 < len(search.seeds) and trial.should_prune():
            return TrialState.PRUNED, so_far
    return TrialState.COMPLETE, so_far


# --------------------------------------------------------------------------------- workers as jobs


@dataclass(frozen=True)
class WorkerJob:
    """A worker that runs trials until none is left."""

    search: Search
    number: int
    train: TrainSeed = train_seed
    host: str = field(default_factory=gethostname)  # where the command was given

    @property
    def name(self) -> str:
        """Its host and number: commands on several machines may share a directory."""
        return f"worker-{self.host}-{self.number}"

    @property
    def path(self) -> Path:
        """Of its lock and log."""
        return self.search.out.absolute() / "work" / self.name

    def is_over(self) -> bool:
        """Whether all trials are finished."""
        return TrialQueue(self.search).is_finished()

    def progress(self) -> float:
        """Seeds that are finished, whoever ran them."""
        return sum(len(row.seeds) for row in TrialQueue(self.search).rows())

    def run(self) -> None:
        """Run trials."""
        run_trials(self.search, self.train)

    def give_up(self, reason: str) -> None:
        """Nothing to record: its trials are left to others, and its log is kept."""


def run_workers(
    search: Search, executor: Executor, train: TrainSeed, on_progress: OnProgress
) -> None:
    """Run a search with as many workers as there is room for."""
    queue = TrialQueue(search)
    number = min(executor.capacity(), search.num_trials)
    jobs = [WorkerJob(search, i, train) for i in range(number)]
    given_up = run_jobs(jobs, executor, lambda: on_progress(queue.rows()))
    on_progress(queue.rows())
    check_finished(queue, given_up)


def check_finished(queue: TrialQueue, given_up: dict[str, str]) -> None:
    """All workers have ended, so all trials should have finished."""
    rows = queue.rows()
    num_missing = sum(row.state not in FINISHED for row in rows)
    if num_missing:
        [reason, *_] = [*given_up.values(), "their logs are in work/"]
        raise InputError(
            f"All workers of '{queue.search.out}' have ended, but {num_missing} of {len(rows)} "
            f"trials are not finished. {reason}\nFinished trials are kept: the same command "
            f"resumes the search."
        )
