"""A study read from disk: its plan, its finished runs, and what became of the others."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ratiosym.errors import InputError
from ratiosym.experiments.plans import Plan, PlannedRun
from ratiosym.experiments.study import read_study
from ratiosym.learning.config import RunConfig
from ratiosym.runs.directory import read_failure
from ratiosym.runs.files import read_json
from ratiosym.runs.tables import read_table

RATIOS = ("ratio_max", "ratio_min")


class UnusableError(Exception):
    """Why a run is not part of the comparison, in a few words."""


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    task: str
    label: str
    seed: int
    path: Path  # seen from the study's directory
    steps: Float[np.ndarray, "N"]  # of the evaluations
    returns: Float[np.ndarray, "N"]  # mean over an evaluation's episodes
    absolute: float  # the absolute metric: mean return of the best parameters
    training: dict[str, np.ndarray]  # steps, ratio_max, ratio_min of each update
    commit: str | None
    versions: dict[str, Any]
    departures: tuple[str, ...]  # settings, beside the budget, that are not the plan's


@dataclass(frozen=True)
class Absence:
    """A planned run that is not part of the comparison."""

    task: str
    label: str
    seed: int
    path: Path
    reason: str


@dataclass(frozen=True)
class StudyResults:
    """Everything a report is made from."""

    directory: Path
    plan: Plan
    details: dict[str, Any]  # plan.json: versions, commit, devices ...
    runs: tuple[RunResult, ...]
    absent: tuple[Absence, ...]

    def of(self, task: str, label: str) -> list[RunResult]:
        """The finished runs of an algorithm on a task."""
        return [run for run in self.runs if (run.task, run.label) == (task, label)]


def load(directory: str | os.PathLike[str]) -> StudyResults:
    """A study's directory. InputError if it is none, or if no run has finished.

    Only finished runs have an absolute metric, so only they take part; the others are named.
    """
    directory = Path(directory)
    plan = read_study(directory)
    details = read_json(directory / "plan.json")
    runs: list[RunResult] = []
    absent: list[Absence] = []
    order = {
        name: place for place, name in enumerate((*plan.tasks, *(a.label for a in plan.algorithms)))
    }
    for planned in sorted(
        plan.runs(), key=lambda run: (order[run.task], order[run.label], run.seed)
    ):
        try:
            runs.append(read_run(directory, planned))
        except UnusableError as reason:
            absent.append(
                Absence(planned.task, planned.label, planned.seed, planned.path, str(reason))
            )
    if not runs:
        raise InputError(
            f"None of the {len(absent)} runs in '{directory}' has finished ({absent[0].path}: "
            f"{absent[0].reason}). "
            f"Resume with: ratiosym study run --out '{directory}'"
        )
    return StudyResults(directory, plan, details, tuple(runs), tuple(absent))


def read_run(study: Path, planned: PlannedRun) -> RunResult:
    """A finished run; UnusableError says why it is none."""
    directory = study / planned.path
    if not (directory / "config.json").exists():
        raise UnusableError(failure(directory) or "not started")
    try:
        details = read_json(directory / "config.json")
        departures = compare(RunConfig.from_dict(details.get("config") or {}), planned.config)
        if not (directory / "summary.json").exists():
            raise UnusableError(
                failure(directory) or f"not finished{how_far(directory, planned.config)}"
            )
        summary = read_json(directory / "summary.json")
        evaluations = read_table(directory / "evaluations.csv")
        training = read_table(directory / "training.csv")
        run = RunResult(
            task=planned.task,
            label=planned.label,
            seed=planned.seed,
            path=planned.path,
            steps=evaluations["steps"],
            returns=evaluations["mean_return"],
            absolute=float(summary["absolute_metric"]["mean_return"]),
            training={name: training[name] for name in ("steps", *RATIOS)},
            commit=details.get("commit"),
            versions=details.get("versions") or {},
            departures=departures,
        )
    except KeyError as error:
        raise UnusableError(f"damaged: {error} is missing") from None
    except (InputError, OSError, ValueError, TypeError) as error:
        raise UnusableError(f"damaged: {' '.join(str(error).split())}") from None
    if len(run.steps) == 0 or len(run.training["steps"]) == 0:
        raise UnusableError("damaged: a table is empty")
    if not np.isfinite([*run.returns, run.absolute]).all():
        raise UnusableError("damaged: a return is not a finite number")
    return run


def compare(found: RunConfig, planned: RunConfig) -> tuple[str, ...]:
    """In which settings but the budget a run departs from the plan, as it may where presets have
    changed since.
    """
    wrong = [n for n in ("task", "objective", "seed") if getattr(found, n) != getattr(planned, n)]
    if wrong:
        described = ", ".join(f"{n} {getattr(found, n)}" for n in wrong)
        raise UnusableError(f"it is another run: its config.json says {described}")
    own, due = found.to_dict(), planned.to_dict()
    parts = ("objective_parameters", "hyperparameters", "shape")
    return tuple(name for p in parts for name in due[p] if own[p].get(name) != due[p][name])


def failure(directory: Path) -> str | None:
    """What happened to a run that failed."""
    what = read_failure(directory)
    return None if what is None else f"failed: {what}"


def how_far(directory: Path, config: RunConfig) -> str:
    """Where an unfinished run stands, if it can be told."""
    try:
        steps = read_table(directory / "evaluations.csv")["steps"][-1]
    except (OSError, ValueError, KeyError, IndexError):
        return ""
    return f" ({steps:,.0f} of {config.num_updates * config.shape.steps_per_update:,} steps)"
