"""Running a search from start to finish."""

from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from typing import Any

import optuna

from ratiosym.envs.registry import make
from ratiosym.errors import InputError
from ratiosym.experiments.jobs import MakeExecutor, run_jobs
from ratiosym.experiments.portable import check_portable
from ratiosym.experiments.tuning.importance import main_effects, ped_anova
from ratiosym.experiments.tuning.outcome import Outcome, write_outcome
from ratiosym.experiments.tuning.search import Search
from ratiosym.experiments.tuning.seeds import TrainSeed, train_seed
from ratiosym.experiments.tuning.status import has_ended, read_notes
from ratiosym.experiments.tuning.storage import PostgresDatabase, database_errors
from ratiosym.experiments.tuning.trials import TrialQueue, describe_differences
from ratiosym.experiments.tuning.workers import (
    OnProgress,
    check_finished,
    ignore_progress,
    run_trials,
    worker_jobs,
)
from ratiosym.runs import files, provenance
from ratiosym.runs.trackers import load_trackers


def tune(
    search: Search,
    executor: MakeExecutor | None = None,
    on_progress: OnProgress = ignore_progress,
    train: TrainSeed = train_seed,
) -> Outcome:
    """Run or resume a search, and write its results.

    ``executor`` is called to create an executor for the workers, after everything has been checked;
    without one, this process runs all trials.
    """
    check_search(search, is_shared=executor is not None)
    with closing(executor()) if executor else nullcontext() as workers:
        queue = begin_search(search)
        if workers is None:
            run_trials(search, train, on_progress)
        else:
            jobs = worker_jobs([search], workers.capacity(), train)
            given_up = run_jobs(jobs, workers, lambda: on_progress(queue.rows()))
            on_progress(queue.rows())
            check_finished(queue, given_up)
    return end_search(search)


def tune_all(
    searches: Sequence[Search],
    executor: MakeExecutor,
    on_poll: Callable[[], None] = lambda: None,
    train: TrainSeed = train_seed,
) -> None:
    """Run or resume searches side by side, and write the results of each as soon as it has
    finished.
    """
    left = [search for search in searches if not has_ended(search)]
    for search in left:
        check_search(search, is_shared=True)
    if not left:
        return
    with closing(executor()) as workers:
        queues = [begin_search(search) for search in left]

        def end_finished() -> None:
            for search in left:
                if not has_ended(search) and read_notes(search.out).get("trials") == (
                    search.num_trials
                ):
                    end_search(search)
            on_poll()

        jobs = worker_jobs(left, workers.capacity(), train)
        given_up = run_jobs(jobs, workers, end_finished)
        for queue in queues:
            if not has_ended(queue.search):
                check_finished(queue, given_up)
                end_search(queue.search)
        on_poll()


def check_search(search: Search, is_shared: bool) -> None:
    """Raise unless the values, sizes, devices and trackers of a search are valid."""
    from ratiosym.learning.train import make_learner

    search.validate()
    # Check that the task exists and that the groups fit the devices.
    make_learner(make(search.config.task), search.config, 1)
    load_trackers(search.track)
    if is_shared:
        check_portable(search.config)


def begin_search(search: Search) -> TrialQueue:
    """Prepare the directory of a search and return its trials."""
    begin_directory(search)
    with database_errors(search.storage):
        queue = TrialQueue(search)
        queue.check_number()
    if not has_all_trials(search):
        (search.out / "importance.json").unlink(
            missing_ok=True
        )  # the number of trials is being raised
    return queue


def has_all_trials(search: Search) -> bool:
    """Whether the results on disk are of as many trials."""
    path = search.out / "trials.csv"
    return path.exists() and len(path.read_text().splitlines()) - 1 == search.num_trials


def end_search(search: Search) -> Outcome:
    """Write the results of a search whose trials are finished."""
    with database_errors(search.storage):
        queue = TrialQueue(search)
        rows = queue.rows()
        outcome = Outcome(search, rows, main_effects(rows, search.space), ped_anova(queue))
    write_outcome(outcome, search_provenance(search))
    return outcome


def begin_directory(search: Search) -> None:
    """Create the directory of a search; raise if it contains something else."""
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
    """Return the settings that identify a search."""
    return {"study": search.study_name, "storage": search.address, "settings": search.settings()}


def check_same_search(search: Search, found: dict[str, Any]) -> None:
    """Raise unless the search in the directory is this one."""
    own = identity(search)
    there = {name: found.get(name) for name in own}
    if there != own:
        raise InputError(
            f"'{search.out}' contains a different search ({describe_differences(there, own)}). Use "
            f"the same options to resume it, or choose another `out`; nothing was changed."
        )


def search_provenance(search: Search) -> dict[str, Any]:
    """Describe what ran and where, without the storage's password in the command."""
    found = provenance.provenance()
    if search.storage is not None:
        # as it was given, and as quoted for a shell
        for written in (search.storage, search.storage.replace("'", "'\"'\"'")):
            for name in ("command", "started_by"):
                found[name] = found[name].replace(written, search.address)
    return found
