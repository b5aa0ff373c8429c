"""A search from start to end."""

from contextlib import closing, nullcontext
from typing import Any

import optuna

from ratiosym.envs.registry import make
from ratiosym.errors import InputError
from ratiosym.experiments.jobs import MakeExecutor
from ratiosym.experiments.portable import check_portable
from ratiosym.experiments.tuning.importance import main_effects, ped_anova
from ratiosym.experiments.tuning.outcome import Outcome, write_outcome
from ratiosym.experiments.tuning.search import Search
from ratiosym.experiments.tuning.seeds import TrainSeed, train_seed
from ratiosym.experiments.tuning.storage import PostgresDatabase, database_errors
from ratiosym.experiments.tuning.trials import TrialQueue, describe_differences
from ratiosym.experiments.tuning.workers import (
    OnProgress,
    ignore_progress,
    run_trials,
    run_workers,
)
from ratiosym.learning.train import make_learner
from ratiosym.runs import files, provenance
from ratiosym.runs.trackers import load_trackers


def tune(
    search: Search,
    executor: MakeExecutor | None = None,
    on_progress: OnProgress = ignore_progress,
    train: TrainSeed = train_seed,
) -> Outcome:
    """Run a search, or resume it, and write its outcome.

    ``executor`` is called for somewhere to run workers, once everything has been checked; without
    one this process runs all trials.
    """
    search.validate()
    # Whether the task exists and the groups fit the devices.
    make_learner(make(search.config.task), search.config, 1)
    load_trackers(search.track)
    if executor is not None:
        check_portable(search.config)
    with closing(executor()) if executor else nullcontext() as workers:
        begin_search(search)
        with database_errors(search.storage):
            TrialQueue(search).check_number()
            if workers is None:
                run_trials(search, train, on_progress)
            else:
                run_workers(search, workers, train, on_progress)
            queue = TrialQueue(search)
            rows = queue.rows()
            outcome = Outcome(search, rows, main_effects(rows, search.space), ped_anova(queue))
    write_outcome(outcome, search_provenance(search))
    return outcome


def begin_search(search: Search) -> None:
    """Make a directory that of this search, unless it holds something else."""
    out, path = search.out, search.out / "search.json"
    try:
        if path.exists():
            check_same_search(search, files.read_json(path))
            return
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(
                f"'{out}' is not empty, but contains no search. Choose another `out`; nothing was "
                f"changed."
            )
        if search.storage is not None:
            with database_errors(search.storage):
                PostgresDatabase(search.storage, search.study_name)  # before anything is written
        out.mkdir(parents=True, exist_ok=True)
        origin = {"optuna": optuna.__version__, **search_provenance(search)}
        files.write_json(path, {**identity(search), **origin})
    except OSError as error:
        raise InputError(
            f"'{out}' cannot be written ({error.strerror}). Choose another `out`, where you may "
            f"write."
        ) from None


def identity(search: Search) -> dict[str, Any]:
    """What makes a search this one."""
    return {"study": search.study_name, "storage": search.address, "settings": search.settings()}


def check_same_search(search: Search, found: dict[str, Any]) -> None:
    """The search in a directory is this one."""
    own = identity(search)
    there = {name: found.get(name) for name in own}
    if there != own:
        raise InputError(
            f"'{search.out}' holds another search ({describe_differences(there, own)}). Give the "
            f"same options to resume it, or choose another `out`; nothing was changed."
        )


def search_provenance(search: Search) -> dict[str, Any]:
    """What ran and where; the command without the storage's password."""
    found = provenance.provenance()
    if search.storage is not None:
        # As it was given, and as it is quoted for a shell.
        for written in (search.storage, search.storage.replace("'", "'\"'\"'")):
            for name in ("command", "started_by"):
                found[name] = found[name].replace(written, search.address)
    return found
