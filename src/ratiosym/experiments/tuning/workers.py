"""Running the trials of a search: in this process, or as jobs."""

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from statistics import mean
from typing import Any

import optuna
from optuna.trial import TrialState

from ratiosym.errors import InputError, NonFiniteLoss
from ratiosym.experiments.tuning.search import FINISHED, Search, TrialRow
from ratiosym.experiments.tuning.seeds import (
    Diverged,
    TrainSeed,
    seed_value,
    train_seed,
    what_happened,
)
from ratiosym.experiments.tuning.status import SearchNotes, has_ended
from ratiosym.experiments.tuning.storage import NUMBER, database_errors, trial_directory
from ratiosym.experiments.tuning.trials import TrialQueue

OnProgress = Callable[[list[TrialRow]], None]


def ignore_progress(rows: list[TrialRow]) -> None:
    """Do nothing, for searches without a display."""


def run_trials(
    search: Search,
    train: TrainSeed = train_seed,
    on_progress: OnProgress = ignore_progress,
    is_patient: bool = True,
) -> None:
    """Run trials until all are finished, also by other workers; without ``is_patient``, until
    none is left to claim.
    """
    notes = SearchNotes(search)
    with database_errors(search.storage):
        queue = TrialQueue(search)

        def tell() -> None:
            rows = queue.rows()
            notes.take(rows)
            on_progress(rows)

        tell()
        while True:
            with ExitStack() as held:
                trial = queue.claim(held, is_patient)
                if trial is None:
                    break
                run_trial(queue, trial, train, tell)
            tell()


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
            # Count it as pruned, so that the sampler avoids such parameters: it ignores failures.
            queue.finish(trial, TrialState.PRUNED)


def run_seeds(
    queue: TrialQueue, trial: Any, train: TrainSeed, on_progress: Callable[[], None]
) -> tuple[Any, float]:
    """Run all seeds, with a pruning check after each but the last; return state and value."""
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
    """A worker that runs trials of a search.

    The first worker of a search stays until all trials are finished, to take over those of dead
    workers. The others end when no trial is left to claim, to make room for other searches.
    """

    search: Search
    number: int
    train: TrainSeed = train_seed
    command: str = field(default_factory=lambda: f"{gethostname()}-{os.getpid()}")

    @property
    def name(self) -> str:
        """Its path, which is unique among the workers of several searches."""
        return str(self.path)

    @property
    def path(self) -> Path:
        """Prefix of its lock and log. Several commands, also on several machines, may share a
        directory; each has workers of its own.
        """
        return self.search.out.absolute() / "work" / f"worker-{self.command}-{self.number}"

    @property
    def is_first(self) -> bool:
        """Whether this worker stays until all trials are finished."""
        return self.number == 0

    def is_over(self) -> bool:
        """Whether all trials are finished or, for later workers, claimed."""
        if has_ended(self.search):
            return True
        queue = TrialQueue(self.search)
        return queue.is_finished() or not (self.is_first or queue.has_waiting())

    def progress(self) -> float:
        """Number of finished seeds of all workers."""
        return sum(len(row.seeds) for row in TrialQueue(self.search).rows())

    def run(self) -> None:
        """Run trials."""
        run_trials(self.search, self.train, is_patient=self.is_first)

    def give_up(self, reason: str) -> None:
        """Do nothing: other workers take over its trials, and its log is kept."""


def worker_jobs(searches: Sequence[Search], capacity: int, train: TrainSeed) -> list[WorkerJob]:
    """Return the workers of searches: a first one for each, then more for all."""
    most = min(capacity, 1 + math.ceil(capacity / len(searches)))
    return [
        WorkerJob(search, number, train)
        for number in range(most)
        for search in searches
        if number < search.num_trials
    ]


def check_finished(queue: TrialQueue, given_up: dict[str, str]) -> None:
    """Raise if some trials are not finished although all workers have ended."""
    rows = queue.rows()
    num_missing = sum(row.state not in FINISHED for row in rows)
    if num_missing:
        [reason, *_] = [*given_up.values(), "their logs are in work/"]
        raise InputError(
            f"All workers of '{queue.search.out}' have ended, but {num_missing} of {len(rows)} "
            f"trials are not finished. {reason}\nFinished trials are kept; resume the search with "
            f"the same command."
        )
