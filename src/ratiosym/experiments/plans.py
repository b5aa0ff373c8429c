"""What a study is: algorithms x tasks x seeds at one budget. Plans are built in or read from a TOML
file.
"""

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratiosym.envs.registry import resolve_task, task_directory
from ratiosym.envs.tasks import TASKS
from ratiosym.errors import InputError
from ratiosym.experiments.presets import PRESETS, change, configure, option_types, tuning_sizes
from ratiosym.learning.config import RunConfig
from ratiosym.objectives import get_objective
from ratiosym.plain import read_record, read_value, shorten, unknown_name
from ratiosym.references import canonical_reference
from ratiosym.runs.trackers import load_trackers

OWN = ("task", "objective", "seed")  # what the plan itself says of a run
Options = dict[str, Any]  # fields of RunConfig and its parts, flat, and the objective's parameters

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")


@dataclass(frozen=True)
class Algorithm:
    """An objective with its settings, under the name it has in tables and figures."""

    label: str
    objective: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study."""

    task: str
    label: str
    seed: int
    config: RunConfig

    @property
    def path(self) -> Path:
        """Its directory, relative to the study's."""
        return Path("runs") / task_directory(self.task) / self.label / f"seed-{self.seed}"

    @property
    def steps(self) -> int:
        """Environment steps of its whole updates."""
        return self.config.num_updates * self.config.shape.steps_per_update


@dataclass(frozen=True)
class Plan:
    """Every algorithm on every task with every seed.

    Options of an algorithm take precedence over those of a task, and those over the plan's.
    """

    name: str
    algorithms: tuple[Algorithm, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    about: str = ""
    preset: str = "cpu"
    options: Options = field(default_factory=dict)  # of every run
    task_options: dict[str, Options] = field(default_factory=dict)  # of every run on a task
    # Whether runs begin with the settings shipped for their task and objective. Otherwise all have
    # equal settings, so that no algorithm alone is tuned in a comparison (Decision 56).
    tuned: bool = False
    track: tuple[str, ...] = ()  # trackers (``runs.trackers``)
    tuning_steps: int | None = None  # of one seed of a trial; by default half of a run's

    def runs(self) -> list[PlannedRun]:
        """All runs, seed by seed: a study that is stopped has every algorithm on every task for its
        first seeds (Decision 55).
        """
        return [
            PlannedRun(task, algorithm.label, seed, self.config(algorithm, task, seed))
            for seed in self.seeds
            for task in self.tasks
            for algorithm in self.algorithms
        ]

    def config(self, algorithm: Algorithm, task: str, seed: int) -> RunConfig:
        """The configuration of one run."""
        options = {
            **self.options,
            **self.task_options.get(task, {}),
            **algorithm.options,
            "objective": algorithm.objective,
            "seed": seed,
        }
        return configure(task, self.preset, self.tuned, **options)

    def tuning_config(self, algorithm: Algorithm, task: str) -> RunConfig:
        """The configuration of one seed of a trial, when the plan's algorithms are tuned."""
        final = self.config(algorithm, task, seed=0)
        sizes = tuning_sizes(self.preset, final)
        return change(final, steps=self.tuning_steps or final.steps // 2, **sizes)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        data = dataclasses.asdict(self)
        return {name: list(x) if isinstance(x, tuple) else x for name, x in data.items()}

    @classmethod
    def from_dict(cls, data: Any) -> "Plan":
        """From plain data; InputError for whatever does not fit. References to files are made
        absolute, so that the plan means the same in every working directory.
        """
        if isinstance(data, Mapping) and isinstance(data.get("algorithms"), list | tuple):
            data = {**data, "algorithms": [complete_algorithm(a) for a in data["algorithms"]]}
        plan = make_portable(read_record(cls, data, "The plan"))
        plan.validate()
        return plan

    def validate(self) -> None:
        """Raise InputError unless every run can be started."""
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
        for algorithm in self.algorithms:
            self.check_algorithm(algorithm)
        load_trackers(self.track)

    def check_algorithm(self, algorithm: Algorithm) -> None:
        """Its label names a directory, and its runs are possible."""
        if not _LABEL.fullmatch(algorithm.label):
            raise InputError(
                f"The label {shorten(algorithm.label)} cannot name a directory. Use at most 80 "
                f"letters, digits, '.', '_', '+' and '-', beginning with a letter or a digit, as "
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
    """An entry of ``algorithms`` as a table: it may be the name of an objective, and the label is
    the objective's name unless given.
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
    """The same plan with references that are valid in every working directory."""
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
    """Options with a reference to a network that is valid in every working directory."""
    network = options.get("network")
    return (
        {**options, "network": canonical_reference(network)}
        if isinstance(network, str)
        else options
    )


def check_distinct(what: str, values: Iterable[Any]) -> None:
    """Nothing is planned twice."""
    seen: list[Any] = []
    for value in values:
        if value in seen:
            advice = "Give one another label." if what == "label" else "Remove one."
            raise InputError(f"The {what} {value!r} appears twice in the plan. {advice}")
        seen.append(value)


def check_options(options: Options, algorithm: Algorithm) -> None:
    """Options are those of the algorithm's objective, and have values of their type."""
    types = option_types(algorithm.objective)
    kinds = {name: kind for name, kind in types.items() if name not in OWN}
    for name, value in options.items():
        if name not in kinds:
            end = f" See 'ratiosym train --help' for the options of '{algorithm.objective}'."
            raise unknown_name("option", name, kinds, end)
        read_value(kinds[name], value, f"The option '{name}'")


def read_plan(path_or_name: str | Path) -> Plan:
    """A built-in plan by its name, or one from a TOML file (docs/studies.md)."""
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


# ---------------------------------------------------------------------------------- built-in plans


def _algorithms(*objectives: str) -> tuple[Algorithm, ...]:
    return tuple(Algorithm(name, name) for name in objectives)


_MAIN = _algorithms("mars", "mappo", "maspo")  # Table 1
_VARIANTS = _algorithms(
    "mars", "mappo-asymmetric", "maspo-asymmetric", "mars-multiplicative", "mars-additive"
)
_ABLATION_TASKS = ("aerojax-8v8", "jaxnav-11x11x4a")  # Figure 3

BUILT_IN: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan(
            "table1",
            _MAIN,
            tuple(TASKS),
            tuple(range(10)),
            "The paper's Table 1: three algorithms on 47 tasks, 10 seeds, 80 million steps "
            "(AeroJAX, JaxNav 240).",
            "paper",
        ),
        Plan(
            "ablation",
            _VARIANTS,
            _ABLATION_TASKS,
            tuple(range(10)),
            "The paper's Figure 3: five variants on two tasks, 10 seeds, a billion steps.",
            "paper",
            {"steps": 1_000_000_000},
            tuning_steps=120_000_000,  # as in Table 1: final runs are longer, searches are not
        ),
        Plan(
            "cpu-table1",
            _MAIN,
            tuple(TASKS),
            tuple(range(3)),
            "Table 1 at a budget for two cores: 47 tasks, 3 seeds, 400 thousand steps.",
            "cpu",
            {"steps": 400_000},
        ),
        Plan(
            "cpu-ablation",
            _VARIANTS,
            _ABLATION_TASKS,
            tuple(range(3)),
            "Figure 3 at a budget for two cores: 3 seeds, a million steps.",
            "cpu",
            {"steps": 1_000_000},
        ),
        Plan(
            "first-results",
            _MAIN,
            ("connector-5x5x3a", "mpe-spread-3ag"),
            tuple(range(5)),
            "Three algorithms on two small tasks, 5 seeds, 500 thousand steps: less than an hour "
            "on two cores.",
            "cpu",
            {"steps": 500_000, "actor_learning_rate": 5e-4, "critic_learning_rate": 5e-4},
        ),
        Plan(
            "smoke",
            _algorithms("mars", "mappo"),
            ("connector-5x5x3a", "mpe-spread-3ag"),
            (0, 1),
            "Two algorithms on two tasks, 2 seeds, seconds each: to see that everything works.",
            "smoke",
        ),
    )
}
