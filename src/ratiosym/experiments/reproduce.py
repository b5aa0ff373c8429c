"""Complete experiments: searches and final runs in one directory, resumable at any point.

    DIR/plan.json                   the plan, with the settings once they are known
    DIR/tuning/TASK/LABEL/          a search per task and algorithm, as by 'ratiosym tune'
    DIR/settings.json               the results of the searches (``settings``)
    DIR/runs/TASK/LABEL/seed-S/     final runs with these settings, as by 'ratiosym study run'

What is left to do is determined from these files. A final run only needs the search of its own task
and algorithm, so parts of an experiment (``shards``) never wait for each other.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ratiosym.errors import InputError
from ratiosym.experiments.jobs import LocalProcesses, MakeExecutor
from ratiosym.experiments.plans import Plan
from ratiosym.experiments.settings import Pair
from ratiosym.experiments.shards import Shard
from ratiosym.experiments.study import (
    TUNING,
    StudyStatus,
    begin_study,
    check_directory,
    freeze_settings,
    read_study,
    run_part,
    study_status,
)
from ratiosym.experiments.tuning import (
    Search,
    SearchStatus,
    planned_searches,
    search_status,
    tune_all,
)
from ratiosym.experiments.tuning.seeds import TrainSeed, train_seed
from ratiosym.experiments.tuning.storage import check_storage

Stage = Literal["tuning", "runs"]


@dataclass(frozen=True)
class ExperimentStatus:
    """State of all searches and runs of an experiment, or of a part of it."""

    plan: Plan
    searches: tuple[SearchStatus, ...]
    study: StudyStatus

    @property
    def is_tuned(self) -> bool:
        """Whether all searches have ended."""
        return all(search.state == "done" for search in self.searches)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do; runs may have failed."""
        return self.is_tuned and all(run.state in ("done", "failed") for run in self.study.runs)


def experiment_status(directory: str | Path) -> ExperimentStatus:
    """Determine the state of the experiment in a directory."""
    directory = Path(directory)
    study = study_status(directory)
    is_tuned_elsewhere = bool(study.plan.settings) and not (directory / TUNING).exists()
    searches = {} if is_tuned_elsewhere else find_searches(study.plan, directory)
    found = tuple(search_status(pair, search) for pair, search in searches.items())
    return ExperimentStatus(study.plan, found, study)


def find_searches(
    plan: Plan, directory: Path, storage: str | None = None, name: str = ""
) -> dict[Pair, Search]:
    """Return the searches of an experiment; none if the plan has no ``[tuning]`` table."""
    if plan.tuning is None:
        return {}
    if storage is not None:
        name = name or plan.name  # several experiments may share a database
    return planned_searches(plan, plan.tuning, directory / TUNING, name, storage=storage)


def reproduce(
    plan: Plan,
    directory: str | Path,
    executor: MakeExecutor = LocalProcesses,
    only: Stage | None = None,
    shard: Shard | None = None,
    storage: str | None = None,
    name: str = "",
    retry_failed: bool = False,
    on_progress: Callable[[ExperimentStatus], None] = lambda _: None,
    train: TrainSeed = train_seed,
) -> ExperimentStatus:
    """Run whatever is missing of an experiment: its searches, then its runs with their results.

    ``only`` selects one of the two stages. A ``shard`` selects some of the tasks and algorithms,
    with their searches and runs; with ``only="runs"`` it selects some of the runs. ``storage`` is a
    PostgreSQL database for the searches, and ``name`` the prefix of their names in it.
    """
    directory = Path(directory).absolute()
    plan.validate()
    check_directory(plan, directory)
    searches = find_searches(plan, directory, storage, name)
    is_by_run = shard is not None and only == "runs"
    pairs = plan.pairs() if shard is None or is_by_run else shard.part(plan.pairs())
    watch = _Watch(plan, {pair: searches[pair] for pair in pairs if pair in searches}, on_progress)
    if only != "runs":
        check_storage(storage)  # before anything is written
        check_searches(watch.searches)
        begin_study(plan, directory)
        tune_all(list(watch.searches.values()), executor, watch.tell_searches, train)
        check_found(plan, pairs, directory)
        freeze_settings(plan, directory)
    if only != "tuning":
        tuned = dataclasses.replace(read_known(plan, directory), track=plan.track)
        tuned.check_settings(pairs)
        runs = [run for run in tuned.runs() if (run.task, run.label) in {w[:2] for w in pairs}]
        part = shard.part(runs) if shard is not None and is_by_run else runs
        study = run_part(tuned, part, directory, executor, retry_failed, watch.tell_runs)
        freeze_settings(plan, directory)  # another shard's searches may have ended in the meantime
        return watch.status(study)
    return watch.status(StudyStatus(plan, ()))


def check_searches(searches: Mapping[Pair, Search]) -> None:
    """Raise ``InputError`` naming the first search of which some trial could not run."""
    for pair, search in searches.items():
        try:
            search.validate()
        except InputError as error:
            what = f"The search for '{pair.label}' on '{pair.task}'"
            raise InputError(f"{what}: {error}") from None


def read_known(plan: Plan, directory: Path) -> Plan:
    """Return the plan with the settings that are known so far."""
    if not (directory / "plan.json").exists():
        return plan
    return dataclasses.replace(plan, settings=read_study(directory).settings)


def check_found(plan: Plan, pairs: Sequence[Pair], directory: Path) -> None:
    """Raise unless every search has found settings."""
    if plan.tuning is None:
        return
    for pair in pairs:
        place = Path(TUNING) / pair.place
        if not (directory / place / "best.json").exists():
            raise InputError(
                f"No trial of the search in '{directory / place}' was completed, so there are no "
                f"settings for '{pair.label}' on '{pair.task}'. See its trials.csv for the "
                f"reasons; try other points or smaller learning rates, in another `out`."
            )


class _Watch:
    """The state of both stages while one of them is running."""

    def __init__(
        self,
        plan: Plan,
        searches: dict[Pair, Search],
        on_progress: Callable[[ExperimentStatus], None],
    ) -> None:
        self.plan, self.searches, self.on_progress = plan, searches, on_progress
        self.study = StudyStatus(plan, ())
        self.known: dict[Pair, SearchStatus] = {}

    def status(self, study: StudyStatus) -> ExperimentStatus:
        """Update and return the state of all searches and of these runs."""
        for pair, search in self.searches.items():
            if pair not in self.known or self.known[pair].state != "done":
                self.known[pair] = search_status(pair, search)
        return ExperimentStatus(self.plan, tuple(self.known.values()), study)

    def tell_searches(self) -> None:
        self.on_progress(self.status(self.study))

    def tell_runs(self, study: StudyStatus) -> None:
        self.on_progress(self.status(study))
