"""A search from end to end, and what it leaves on disk."""

import csv
import dataclasses
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna

from ratiosym.envs.registry import make
from ratiosym.errors import InputError
from ratiosym.experiments.search_spaces import Choices
from ratiosym.experiments.tuning.ledger import Ledger, describe_differences
from ratiosym.experiments.tuning.search import FINISHED, Search, TrialRow, best_of
from ratiosym.experiments.tuning.seeds import RunSeed, train_seed
from ratiosym.experiments.tuning.storage import Database, database_errors, quietly
from ratiosym.experiments.tuning.workers import (
    OnProgress,
    nobody_asks,
    run_on_ray,
    run_processes,
    work,
)
from ratiosym.learning.train import make_learner
from ratiosym.runs import files, provenance

RunWorkers = Callable[[Search, OnProgress], None]

TARGET_QUANTILE = 0.25  # of PED-ANOVA
FEWEST = 8  # trials that can say what mattered, and that roughly


@dataclass(frozen=True)
class Outcome:
    """What came out of a search."""

    search: Search
    rows: list[TrialRow]
    importance: dict[str, float]  # main effects; empty with too few trials
    ped_anova: dict[str, float]  # likewise

    @property
    def best(self) -> TrialRow | None:
        """The best complete trial."""
        return best_of(self.rows)


def tune(
    search: Search, run_workers: RunWorkers | int = 1, on_progress: OnProgress = nobody_asks
) -> Outcome:
    """Search, or go on with a search, and write down what came out.

    ``run_workers`` is a number of local ones, or a function that runs them elsewhere.
    """
    search.validate()
    make_learner(
        make(search.config.task), search.config, 1
    )  # whether the task exists and groups fit the devices
    run_workers = local_workers(run_workers) if isinstance(run_workers, int) else run_workers
    occupy(search)
    with database_errors(search.storage):
        Ledger(search).check_number()
        run_workers(search, on_progress)
        ledger = Ledger(search)
        rows = ledger.rows()
        outcome = Outcome(search, rows, main_effects(rows, search.space), ped_anova(ledger))
    write_outcome(outcome)
    return outcome


def local_workers(number: int, run_seed: RunSeed = train_seed) -> RunWorkers:
    """This process alone, or so many others."""
    if number < 1:
        raise InputError(f"--workers is {number}; it must be at least 1.")

    def run(search: Search, on_progress: OnProgress) -> None:
        if number == 1:
            work(search, run_seed, on_progress)
        else:
            run_processes(search, min(number, search.num_trials), run_seed, on_progress)

    return run


def ray_workers(
    num_cpus: float = 1, num_gpus: float = 0, run_seed: RunSeed = train_seed
) -> RunWorkers:
    """As many as fit on a Ray cluster."""
    if num_cpus < 0 or num_gpus < 0 or num_cpus + num_gpus <= 0:
        raise InputError(
            f"--cpus is {num_cpus:g} and --gpus {num_gpus:g}; a worker needs some of one of them."
        )

    def run(search: Search, on_progress: OnProgress) -> None:
        run_on_ray(search, num_cpus, num_gpus, run_seed, on_progress)

    return run


def occupy(search: Search) -> None:
    """Make a directory the place of this search, unless it holds something else."""
    out, path = search.out, search.out / "search.json"
    try:
        if path.exists():
            check_same(search, files.read_json(path))
            return
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(
                f"'{out}' is not empty and holds no search. Choose another --out; nothing was "
                f"changed."
            )
        if search.storage is not None:
            with database_errors(search.storage):
                Database(search.storage, search.study_name)  # before anything is written
        out.mkdir(parents=True, exist_ok=True)
        details = {
            "study": search.study_name,
            "storage": search.address,
            "settings": search.settings(),
        }
        files.write_json(
            path, {**details, "optuna": optuna.__version__, **search_provenance(search)}
        )
    except OSError as error:
        raise InputError(
            f"'{out}' cannot be written ({error.strerror}). Choose another --out, in a directory "
            f"of yours."
        ) from None


def check_same(search: Search, found: dict[str, Any]) -> None:
    """The search in a directory is this one."""
    own = {"study": search.study_name, "storage": search.address, "settings": search.settings()}
    there = {name: found.get(name) for name in own}
    if there != own:
        raise InputError(
            f"'{search.out}' holds another search ({describe_differences(there, own)}). Give the "
            f"same options to go on "
            f"with it, or choose another --out; nothing was changed."
        )


def search_provenance(search: Search) -> dict[str, Any]:
    """What ran, where; the command without the storage's password."""
    found = provenance.provenance()
    if search.storage is not None:
        found["command"] = found["command"].replace(search.storage, search.address)
    return found


def main_effects(rows: list[TrialRow], space: dict[str, Choices]) -> dict[str, float]:
    """How much of what trials differ by each hyperparameter explains by itself, as shares of 1
    (Decision 71).

    An additive model, value = sum over hyperparameters of effect(choice), by ridge regression on
    all trials with a finished seed, equal ones once. A hyperparameter's importance is the variance
    of its effects over its choices.
    """
    distinct = {
        tuple(row.params.values()): row for row in rows if row.seeds and row.state in FINISHED
    }.values()
    values = np.array([np.mean(list(row.seeds.values())) for row in distinct])
    if len(values) < FEWEST or values.std() == 0:
        return {}
    tried = {name: sorted({row.params[name] for row in distinct}) for name in space}
    columns = [(name, choice) for name, choices in tried.items() for choice in choices]
    x = np.array(
        [[float(row.params[name] == choice) for name, choice in columns] for row in distinct]
    )
    x, y = x - x.mean(axis=0), (values - values.mean()) / values.std()
    effects = np.linalg.solve(x.T @ x + np.eye(len(columns)), x.T @ y)
    spread = {
        n: float(np.var([e for e, (name, _) in zip(effects, columns, strict=True) if name == n]))
        for n in space
    }
    return {
        name: spread[name] / sum(spread.values())
        for name in sorted(space, key=lambda n: -spread[n])
    }


def ped_anova(ledger: Ledger) -> dict[str, float]:
    """Optuna's measure that needs no further library: what tells the best quarter of the complete
    trials apart.
    """
    if sum(row.state == "complete" for row in ledger.rows()) < FEWEST:
        return {}
    with quietly():
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=TARGET_QUANTILE)
        return dict(optuna.importance.get_param_importances(ledger.study, evaluator=evaluator))


def write_outcome(outcome: Outcome) -> None:
    """``trials.csv``, ``importance.json`` and, if a trial was completed, ``best.json``."""
    search, rows, best = outcome.search, outcome.rows, outcome.best
    write_trials(search, rows)
    measures = {"main_effects": outcome.importance, "ped_anova": outcome.ped_anova}
    files.write_json(
        search.out / "importance.json", {**measures, "ped_anova_target_quantile": TARGET_QUANTILE}
    )
    if best is None:
        return
    config = search.trial_config(best.params, seed=0)
    details = {
        # A final run is twice as long as one of the search, as in the paper.
        "config": dataclasses.replace(config, steps=2 * config.steps).to_dict(),
        "params": best.params,
        "value": best.value,
        "trial": best.number,
        "trials": {state: sum(row.state == state for row in rows) for state in FINISHED},
        "steps": config.steps,
        "seeds": best.seeds,
    }
    files.write_json(search.out / "best.json", {**details, **search_provenance(search)})


def write_trials(search: Search, rows: list[TrialRow]) -> None:
    """One line a trial: number, state, value, finished seeds, parameters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["trial", "state", "value", *search.space, *(f"seed-{seed}" for seed in search.seeds)]
    )
    for row in rows:
        params = [row.params.get(name, "") for name in search.space]
        seeds = [row.seeds.get(str(seed), "") for seed in search.seeds]
        writer.writerow(
            [row.number, row.state, "" if row.value is None else row.value, *params, *seeds]
        )
    files.write_whole(search.out / "trials.csv", text.getvalue())
