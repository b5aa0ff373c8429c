"""Reading studies from disk: plans, finished runs, and the reasons why others are missing.

Several directories are treated as one study with all their tasks, algorithms and seeds.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ratiosym.errors import InputError
from ratiosym.experiments.plans import Algorithm, Plan, PlannedRun
from ratiosym.experiments.study import read_study
from ratiosym.learning.config import RunConfig
from ratiosym.runs.directory import ABSOLUTE, read_failure
from ratiosym.runs.files import read_json
from ratiosym.runs.tables import read_table

RATIOS = ("ratio_max", "ratio_min")


class UnusableError(Exception):
    """A run is not part of the comparison, for the reason in the message."""


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    task: str
    label: str
    seed: int
    study: Path  # the directory of its study
    path: Path  # relative to it
    config: RunConfig
    steps: Float[np.ndarray, "N"]  # of the evaluations
    returns: Float[np.ndarray, "N"]  # mean over an evaluation's episodes
    absolute: float  # the absolute metric: mean return of the best parameters
    absolute_metric: dict[str, Any]  # all of it, with the task's own metrics
    episodes: Float[np.ndarray, "E"] | None  # of the absolute metric; None in records of 0.1
    training: dict[str, np.ndarray]  # steps, ratio_max, ratio_min of each update
    commit: str | None
    versions: dict[str, Any]
    departures: tuple[str, ...]  # settings other than the budget that differ from the plan's

    @property
    def directory(self) -> Path:
        """Directory of its record."""
        return self.study / self.path


@dataclass(frozen=True)
class Absence:
    """A planned run that is not part of the comparison."""

    task: str
    label: str
    seed: int
    path: Path  # as in RunResult, prefixed by the study's directory if there are several
    reason: str


@dataclass(frozen=True)
class Study:
    """One directory."""

    directory: Path
    plan: Plan
    details: dict[str, Any]  # plan.json: versions, commit, devices ...
    settings: dict[str, Any] = field(default_factory=dict)  # settings.json: task, label, search


@dataclass(frozen=True)
class StudyResults:
    """Everything that a report is based on."""

    studies: tuple[Study, ...]
    runs: tuple[RunResult, ...]
    absent: tuple[Absence, ...]

    def of(self, task: str, label: str) -> list[RunResult]:
        """Return the finished runs of an algorithm on a task."""
        return [run for run in self.runs if (run.task, run.label) == (task, label)]

    @property
    def name(self) -> str:
        """Names of its plans."""
        return " + ".join(dict.fromkeys(study.plan.name for study in self.studies))

    @property
    def about(self) -> str:
        """Descriptions of its plans."""
        return " ".join(dict.fromkeys(study.plan.about for study in self.studies))

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks, in the order of the plans."""
        return tuple(dict.fromkeys(t for study in self.studies for t in study.plan.tasks))

    @property
    def seeds(self) -> tuple[int, ...]:
        """All seeds, in the order of the plans."""
        return tuple(dict.fromkeys(s for study in self.studies for s in study.plan.seeds))

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """All algorithms, in the order of the plans, which every table and figure uses."""
        found: dict[str, Algorithm] = {}
        for study in self.studies:
            for algorithm in study.plan.algorithms:
                found.setdefault(algorithm.label, algorithm)
        return tuple(found.values())


def load(*directories: str | os.PathLike[str]) -> StudyResults:
    """Load the study in one or several directories; raise ``InputError`` if no run has finished.

    Only finished runs have an absolute metric, so only they are compared; the others are listed.
    """
    studies = [read_directory(Path(directory)) for directory in directories]
    check_compatible(studies)
    runs: list[RunResult] = []
    absent: list[Absence] = []
    for study in studies:
        for planned in study.plan.runs():
            try:
                runs.append(read_run(study.directory, planned))
            except UnusableError as reason:
                path = planned.path if len(studies) == 1 else study.directory / planned.path
                who = (planned.task, planned.label, planned.seed)
                absent.append(Absence(*who, path, str(reason)))
    if not runs:
        where = "', '".join(str(study.directory) for study in studies)
        raise InputError(
            f"None of the {len(absent)} runs in '{where}' has finished ({absent[0].path}: "
            f"{absent[0].reason}). "
            f"Resume with: ratiosym study run --out '{studies[0].directory}'"
        )
    results = StudyResults(tuple(studies), (), ())
    order = (*results.tasks, *(a.label for a in results.algorithms))
    place = {name: index for index, name in enumerate(order)}

    def where_listed(run: RunResult | Absence) -> tuple[int, int, int]:
        return place[run.task], place[run.label], run.seed

    return StudyResults(
        tuple(studies),
        tuple(sorted(runs, key=where_listed)),
        tuple(sorted(absent, key=where_listed)),
    )


def read_directory(directory: Path) -> Study:
    """Read the plan of a study, and the results of its searches, if any."""
    plan = read_study(directory)
    path = directory / "settings.json"
    settings = read_json(path).get("settings") if path.exists() else {}
    if not isinstance(settings, dict):
        raise InputError(f"'{path}' has no settings in it. Restore the right one.")
    return Study(directory, plan, read_json(directory / "plan.json"), settings)


def check_compatible(studies: Sequence[Study]) -> None:
    """Raise ``InputError`` if several directories cannot be combined to one study."""
    objectives: dict[str, tuple[str, Path]] = {}
    planned: dict[tuple[str, str, int], Path] = {}
    for study in studies:
        for a in study.plan.algorithms:
            objective, where = objectives.setdefault(a.label, (a.objective, study.directory))
            if objective != a.objective:
                raise InputError(
                    f"The label '{a.label}' is {objective} in '{where}' and {a.objective} in "
                    f"'{study.directory}'. Report on them one by one."
                )
        labels = [a.label for a in study.plan.algorithms]
        for task, label, seed in product(study.plan.tasks, labels, study.plan.seeds):
            where = planned.setdefault((task, label, seed), study.directory)
            if where is not study.directory:
                raise InputError(
                    f"'{label}' on '{task}' with seed {seed} is planned both in '{where}' and in "
                    f"'{study.directory}': it would count twice. Report on them one by one."
                )


def read_run(study: Path, planned: PlannedRun) -> RunResult:
    """Read a finished run; raise ``UnusableError`` with the reason if it cannot be used."""
    directory = study / planned.path
    if not (directory / "config.json").exists():
        raise UnusableError(failure(directory) or "not started")
    try:
        details = read_json(directory / "config.json")
        config = RunConfig.from_dict(details.get("config") or {})
        departures = compare(config, planned.config)
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
            study=study,
            path=planned.path,
            config=config,
            steps=evaluations["steps"],
            returns=evaluations["mean_return"],
            absolute=float(summary["absolute_metric"]["mean_return"]),
            absolute_metric=summary["absolute_metric"],
            episodes=read_episodes(directory),
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
    if run.episodes is not None and not has_mean(run.episodes, run.absolute):
        raise UnusableError(f"damaged: {ABSOLUTE} and summary.json are of different episodes")
    return run


def has_mean(values: Float[np.ndarray, "E"], mean: float) -> bool:
    """Whether values have the given mean, up to rounding."""
    return len(values) > 0 and bool(np.isclose(values.mean(), mean))


def read_episodes(directory: Path) -> Float[np.ndarray, "E"] | None:
    """Read the returns of the absolute metric's episodes, if the run kept them."""
    path = directory / ABSOLUTE
    return read_table(path)["return"] if path.exists() else None


def compare(found: RunConfig, planned: RunConfig) -> tuple[str, ...]:
    """Return the settings, except the budget, in which a run differs from the plan.

    They may differ if presets have changed since.
    """
    wrong = [n for n in ("task", "objective", "seed") if getattr(found, n) != getattr(planned, n)]
    if wrong:
        described = ", ".join(f"{n} {getattr(found, n)}" for n in wrong)
        raise UnusableError(f"it is another run: its config.json says {described}")
    own, due = found.to_dict(), planned.to_dict()
    parts = ("objective_parameters", "hyperparameters", "shape")
    return tuple(name for p in parts for name in due[p] if own[p].get(name) != due[p][name])


def failure(directory: Path) -> str | None:
    """Return why a run failed."""
    what = read_failure(directory)
    return None if what is None else f"failed: {what}"


def how_far(directory: Path, config: RunConfig) -> str:
    """Describe the progress of an unfinished run, if it is known."""
    try:
        steps = read_table(directory / "evaluations.csv")["steps"][-1]
    except (OSError, ValueError, KeyError, IndexError):
        return ""
    return f" ({steps:,.0f} of {config.num_updates * config.shape.steps_per_update:,} steps)"
