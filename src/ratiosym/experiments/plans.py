"""Plans of studies: algorithms x tasks x seeds, and how the algorithms are tuned first.

Plans are built in (``built_in.py``) or read from TOML files.
"""

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ratiosym.envs.registry import resolve_task, task_directory
from ratiosym.errors import InputError
from ratiosym.experiments.presets import PRESETS, change, configure, option_types, tuning_sizes
from ratiosym.experiments.search_spaces import (
    SEEDS,
    Point,
    SearchKind,
    default_trials,
    search_space,
    whole_grid,
)
from ratiosym.experiments.settings import Options, Pair, Settings
from ratiosym.learning.config import RunConfig
from ratiosym.objectives import get_objective
from ratiosym.plain import read_record, read_value, shorten, unknown_name
from ratiosym.references import canonical_reference
from ratiosym.runs.trackers import load_trackers

OWN = ("task", "objective", "seed")  # set by the plan itself, so not options

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")


@dataclass(frozen=True)
class Algorithm:
    """An objective with its settings, and its label in tables and figures."""

    label: str
    objective: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """The table ``[tuning]``: how the algorithms of a plan are tuned on each task."""

    search: SearchKind = "paper"
    """paper: Table 2 and the objective's own parameters. trust-region: its own parameters only."""
    trials: int | Literal["paper", "all"] = "paper"
    """A number, paper (40 for objectives with one parameter, 80 for those with two), or all: every
    point of the grid, none pruned. all needs search = "trust-region"."""
    seeds: tuple[int, ...] = SEEDS
    """The seeds of every trial."""
    steps: int | None = None
    """Environment steps per seed; by default half those of a final run."""
    sampler_seed: int = 0
    """The seed of Optuna's sampler."""
    grid: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    """With trials = "all": the points per algorithm label; by default all combinations."""

    def points(self, algorithm: Algorithm) -> tuple[Point, ...]:
        """Return the points of a grid search; none if a sampler chooses."""
        if self.trials != "all":
            return ()
        return self.grid.get(algorithm.label) or whole_grid(algorithm.objective)

    def num_trials(self, algorithm: Algorithm) -> int:
        """Return the number of trials of an algorithm on a task."""
        if isinstance(self.trials, int):
            return self.trials
        return len(self.points(algorithm)) or default_trials(algorithm.objective)

    def validate(self, algorithms: Iterable[Algorithm]) -> None:
        """Raise ``InputError`` if the table does not match the algorithms."""
        if isinstance(self.trials, int) and self.trials < 1:
            raise InputError(f"tuning: 'trials' is {self.trials}; it must be at least 1.")
        if self.trials == "all" and self.search != "trust-region":
            raise InputError(
                "tuning: 'trials' is 'all', which needs search = \"trust-region\": the paper's "
                "space has tens of thousands of points."
            )
        if self.grid and self.trials != "all":
            raise InputError("tuning: 'grid' needs trials = \"all\".")
        if not self.seeds:
            raise InputError("tuning: 'seeds' is empty; it needs at least one entry.")
        check_distinct("tuning seed", self.seeds)
        by_label = {algorithm.label: algorithm for algorithm in algorithms}
        for label, points in self.grid.items():
            if label not in by_label:
                raise unknown_name(
                    "label", label, by_label, " 'grid' is for the plan's algorithms."
                )
            check_points(points, by_label[label])


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study."""

    task: str
    label: str
    seed: int
    config: RunConfig

    @property
    def path(self) -> Path:
        """Directory of the run, relative to the study's."""
        return Path("runs") / task_directory(self.task) / self.label / f"seed-{self.seed}"

    @property
    def steps(self) -> int:
        """Environment steps, rounded down to whole updates."""
        return self.config.num_updates * self.config.shape.steps_per_update


@dataclass(frozen=True)
class Plan:
    """Every algorithm on every task with every seed.

    Options of an algorithm take precedence over those of a task, and those over the plan's. A plan
    with a ``tuning`` table is run with the results of its searches (``settings``), which take
    precedence over all of them.
    """

    name: str
    algorithms: tuple[Algorithm, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    about: str = ""
    preset: str = "cpu"
    options: Options = field(default_factory=dict)  # of every run
    task_options: dict[str, Options] = field(default_factory=dict)  # of every run on a task
    # Whether runs start from the settings shipped for their task and objective. By default all
    # algorithms have equal settings, so that comparisons are fair.
    tuned: bool = False
    track: tuple[str, ...] = ()  # trackers (``runs.trackers``)
    tuning: Tuning | None = None
    settings: Settings = field(default_factory=dict)  # found by searches: task, label, options

    def runs(self) -> list[PlannedRun]:
        """All runs, seed by seed.

        A study that is stopped early then has every algorithm on every task for its first seeds.
        """
        return [
            PlannedRun(task, algorithm.label, seed, self.config(algorithm, task, seed))
            for seed in self.seeds
            for task in self.tasks
            for algorithm in self.algorithms
        ]

    def config(self, algorithm: Algorithm, task: str, seed: int) -> RunConfig:
        """Return the configuration of one run."""
        options = {
            **self.options,
            **self.task_options.get(task, {}),
            **algorithm.options,
            **self.settings.get(task, {}).get(algorithm.label, {}),
            "objective": algorithm.objective,
            "seed": seed,
        }
        return configure(task, self.preset, self.tuned, **options)

    def tuning_config(self, algorithm: Algorithm, task: str) -> RunConfig:
        """Return the configuration of one seed of a trial."""
        final = dataclasses.replace(self, settings={}).config(algorithm, task, seed=0)
        if self.tuning is None:  # 'ratiosym tune --all' with a plan without [tuning]
            return change(final, steps=final.steps // 2, **tuning_sizes(self.preset, final))
        return change(final, steps=self.tuning.steps or final.steps // 2)

    def pairs(self) -> list[Pair]:
        """Return every task with every algorithm: what is tuned, and what has settings."""
        return [Pair(t, a.label, a.objective) for t in self.tasks for a in self.algorithms]

    def check_settings(self, pairs: Iterable[Pair] | None = None) -> None:
        """Raise if the plan tunes its algorithms and lacks settings for some pair."""
        if self.tuning is None:
            return
        for pair in self.pairs() if pairs is None else pairs:
            if pair.label not in self.settings.get(pair.task, {}):
                raise InputError(
                    f"The plan '{self.name}' tunes its algorithms, but there are no settings for "
                    f"'{pair.label}' on '{pair.task}'. 'ratiosym reproduce' searches for them "
                    f"first; for searches of your own, set `tuned` to their directory."
                )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON."""
        data = dataclasses.asdict(self)
        return {name: list(x) if isinstance(x, tuple) else x for name, x in data.items()}

    @classmethod
    def from_dict(cls, data: Any) -> "Plan":
        """Read plain data; raise ``InputError`` if it is invalid.

        References to files are made absolute, so that the plan does not depend on the working
        directory.
        """
        if isinstance(data, Mapping) and isinstance(data.get("algorithms"), list | tuple):
            data = {**data, "algorithms": [complete_algorithm(a) for a in data["algorithms"]]}
        if isinstance(data, Mapping) and data.get("tuning_steps", "") is None:
            data = {n: v for n, v in data.items() if n != "tuning_steps"}  # in older records
        plan = make_portable(read_record(cls, data, "The plan"))
        plan.validate()
        return plan

    def validate(self) -> None:
        """Raise ``InputError`` unless every run can be started."""
        if self.preset not in PRESETS:
            raise unknown_name("preset", self.preset, PRESETS)
        for name in ("algorithms", "tasks", "seeds"):
            if not getattr(self, name):
                raise InputError(f"The plan: '{name}' is empty; it needs at least one entry.")
        labels = [algorithm.label for algorithm in self.algorithms]
        for what, values in (("label", labels), ("task", self.tasks), ("seed", self.seeds)):
            check_distinct(what, values)
        for task in self.task_options:
            if task not in self.tasks:
                raise unknown_name(
                    "task", task, self.tasks, " 'task_options' is for tasks of the plan."
                )
        for task in self.tasks:
            resolve_task(task)
        if self.tuning is not None:
            self.check_tuning(self.tuning)
        for task, by_label in self.settings.items():
            for label in by_label:
                if (task, label) not in [pair[:2] for pair in self.pairs()]:
                    raise InputError(
                        f"'settings' are for '{label}' on '{task}', which is not in the plan."
                    )
        for algorithm in self.algorithms:
            self.check_algorithm(algorithm)
        load_trackers(self.track)

    def check_tuning(self, tuning: Tuning) -> None:
        """Raise if an option is also searched, or a tuning seed is also a final one."""
        tuning.validate(self.algorithms)
        if self.tuned:
            raise InputError(
                "The plan has both tuned = true and a [tuning] table, but its settings can only "
                "come from one of them. Remove the other."
            )
        both = set(tuning.seeds) & set(self.seeds)
        if both:
            raise InputError(
                f"The seed {min(both)} is used both by the plan and for tuning, but final runs "
                f"need seeds that nothing was tuned on. Choose others, such as {SEEDS[0]}."
            )
        for algorithm in self.algorithms:
            searched = search_space(algorithm.objective, tuning.search)
            for options in (self.options, algorithm.options, *self.task_options.values()):
                for name in options:
                    if name in searched:
                        raise InputError(
                            f"The option '{name}' is searched for '{algorithm.label}' (tuning: "
                            f'search = "{tuning.search}"). Remove it from the options.'
                        )

    def check_algorithm(self, algorithm: Algorithm) -> None:
        """Raise unless the label is a valid directory name and all its runs are valid."""
        if not _LABEL.fullmatch(algorithm.label):
            raise InputError(
                f"The label {shorten(algorithm.label)} cannot name a directory. Use at most 80 "
                f"letters, digits, '.', '_', '+' and '-', starting with a letter or a digit, as "
                f"in 'mars-wide'."
            )
        for options in (self.options, algorithm.options, *self.task_options.values()):
            check_options(options, algorithm)
        for task in self.tasks:
            for seed in self.seeds:
                try:
                    self.config(algorithm, task, seed)
                except InputError as error:
                    raise InputError(f"'{algorithm.label}' on '{task}': {error}") from None


def complete_algorithm(entry: Any) -> Any:
    """Complete an entry of ``algorithms``, which may be just the name of an objective.

    The label defaults to that name.
    """
    data = {"objective": entry} if isinstance(entry, str) else entry
    if not isinstance(data, Mapping):
        raise InputError(
            f"An algorithm of the plan is {shorten(entry)}; it must be the name of an objective or "
            f"a table."
        )
    if "label" in data or not isinstance(data.get("objective"), str):
        return data
    return {**data, "label": get_objective(data["objective"]).name}


def make_portable(plan: Plan) -> Plan:
    """Make all references in a plan independent of the working directory."""
    return dataclasses.replace(
        plan,
        algorithms=tuple(
            Algorithm(a.label, canonical_reference(a.objective), portable_options(a.options))
            for a in plan.algorithms
        ),
        tasks=tuple(canonical_reference(task) for task in plan.tasks),
        options=portable_options(plan.options),
        task_options={
            canonical_reference(task): portable_options(options)
            for task, options in plan.task_options.items()
        },
        track=tuple(canonical_reference(name) for name in plan.track),
    )


def portable_options(options: Options) -> Options:
    """Make a reference to a network independent of the working directory."""
    network = options.get("network")
    return (
        {**options, "network": canonical_reference(network)}
        if isinstance(network, str)
        else options
    )


def check_distinct(what: str, values: Iterable[Any]) -> None:
    """Raise if a value appears twice."""
    seen: list[Any] = []
    for value in values:
        if value in seen:
            advice = "Give one a different label." if what == "label" else "Remove one."
            raise InputError(f"The {what} {value!r} appears twice in the plan. {advice}")
        seen.append(value)


def check_points(points: Iterable[Point], algorithm: Algorithm) -> None:
    """Raise unless the points are different and have all parameters of the objective."""
    objective = get_objective(algorithm.objective)
    check_distinct(f"point of '{algorithm.label}'", points)
    for point in points:
        if point.keys() != objective.defaults.keys():
            raise InputError(
                f"tuning: a point of '{algorithm.label}' has {', '.join(point) or 'nothing'}; it "
                f"must have {', '.join(objective.defaults)}."
            )
        objective.resolve(point)


def check_options(options: Options, algorithm: Algorithm) -> None:
    """Raise unless all options are known for the objective and have values of their type."""
    types = option_types(algorithm.objective)
    kinds = {name: kind for name, kind in types.items() if name not in OWN}
    for name, value in options.items():
        if name not in kinds:
            end = f" See 'ratiosym train --help' for the options of '{algorithm.objective}'."
            raise unknown_name("option", name, kinds, end)
        read_value(kinds[name], value, f"The option '{name}'")


def read_plan(path_or_name: str | Path) -> Plan:
    """Return a built-in plan by its name, or read a TOML file (docs/how-to/studies.md)."""
    from ratiosym.experiments.built_in import BUILT_IN  # made of plans itself

    if str(path_or_name) in BUILT_IN:
        return BUILT_IN[str(path_or_name)]
    path, names = (
        Path(path_or_name),
        f"Built-in plans: {', '.join(BUILT_IN)}; or name a .toml file.",
    )
    if path.suffix != ".toml" and not path.is_file():
        raise unknown_name("plan", path_or_name, BUILT_IN, f" {names}")
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"There is no plan '{path}'. {names}") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"The plan '{path}' cannot be read ({error}). A plan is a TOML file."
        ) from None
    try:
        return Plan.from_dict(data)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from None
