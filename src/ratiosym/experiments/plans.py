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
from ratiosym.experiments.presets import PRESETS, configure, option_types
from ratiosym.learning.config import RunConfig
from ratiosym.objectives import get_objective
from ratiosym.plain import read_value, unknown_name

OWN = ("task", "objective", "seed")  # what the plan itself says of a run


@dataclass(frozen=True)
class Algorithm:
    """An objective with its settings, under the name that tables and figures give it."""

    label: str
    objective: str
    options: dict[str, Any] = field(default_factory=dict)  # fields of RunConfig and its parts, flat


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study."""

    task: str
    label: str
    seed: int
    config: RunConfig

    @property
    def path(self) -> Path:
        """Its directory, seen from the study's."""
        return Path("runs") / task_directory(self.task) / self.label / f"seed-{self.seed}"

    @property
    def steps(self) -> int:
        """Environment steps of its whole updates."""
        return self.config.num_updates * self.config.shape.steps_per_update


@dataclass(frozen=True)
class Plan:
    """Every algorithm on every task with every seed. An algorithm's own options come before the
    plan's.
    """

    name: str
    about: str
    algorithms: tuple[Algorithm, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    preset: str = "cpu"
    options: dict[str, Any] = field(default_factory=dict)
    # whether a preset's tuned settings are used; otherwise all have equal ones (Decision 56)
    tuned: bool = False

    def runs(self) -> list[PlannedRun]:
        """All runs, seed by seed: a study that is stopped is complete in its first seeds (Decision
        55).
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
            **algorithm.options,
            "objective": algorithm.objective,
            "seed": seed,
        }
        return configure(task, self.preset, self.tuned, **options)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        lists = {"algorithms": [dataclasses.asdict(a) for a in self.algorithms]}
        return {
            **dataclasses.asdict(self),
            **lists,
            "tasks": list(self.tasks),
            "seeds": list(self.seeds),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Plan":
        """From plain data. InputError for whatever does not fit, with the closest name that
        would.
        """
        check_keys(data, cls, "A plan", required=("name", "algorithms", "tasks", "seeds"))
        for name, kind in (
            ("name", str),
            ("about", str),
            ("preset", str),
            ("options", dict),
            ("tuned", bool),
        ):
            if not isinstance(data.get(name, kind()), kind):
                raise InputError(
                    f"'{name}' of a plan is {data[name]!r}; it must be {_WORDS[kind]}."
                )
        for name in ("algorithms", "tasks", "seeds"):
            if not isinstance(data[name], list | tuple) or not data[name]:
                raise InputError(
                    f"'{name}' of a plan is {data[name]!r}; it must be a list with something in it."
                )
        plan = cls(
            name=data["name"],
            about=data.get("about", ""),
            algorithms=tuple(read_algorithm(entry) for entry in data["algorithms"]),
            tasks=tuple(resolve_task(task).name for task in data["tasks"]),
            seeds=tuple(data["seeds"]),
            preset=data.get("preset", "cpu"),
            options=dict(data.get("options", {})),
            tuned=data.get("tuned", False),
        )
        plan.validate()
        return plan

    def validate(self) -> None:
        """Raise InputError unless every run can be started."""
        if self.preset not in PRESETS:
            raise unknown_name("preset", self.preset, PRESETS)
        check_distinct("label", [a.label for a in self.algorithms])
        check_distinct("task", self.tasks)
        check_distinct("seed", self.seeds)
        check_options(self.options)
        for task in self.tasks:
            resolve_task(task)
        for seed in self.seeds:
            if type(seed) is not int:
                raise InputError(f"A seed of the plan is {seed!r}; it must be a whole number.")
        for task in self.tasks:
            for algorithm in self.algorithms:
                for seed in self.seeds:
                    try:
                        self.config(algorithm, task, seed)
                    except InputError as error:
                        raise InputError(f"'{algorithm.label}' on '{task}': {error}") from None


_WORDS = {
    str: "text",
    dict: "a table of options",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def read_algorithm(entry: Any) -> Algorithm:
    """An entry of ``algorithms``: the name of an objective, or a table. The label is the objective
    unless given.
    """
    data = {"objective": entry} if isinstance(entry, str) else entry
    if not isinstance(data, dict):
        raise InputError(
            f"An algorithm of the plan is {entry!r}; it must be an objective's name or a table."
        )
    check_keys(data, Algorithm, "An algorithm", required=("objective",))
    objective = get_objective(str(data["objective"])).name
    label, options = data.get("label", objective), data.get("options", {})
    if not isinstance(label, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", label):
        raise InputError(
            f"The label {label!r} cannot name a directory. Use letters, digits, '.', '_', '+' and "
            f"'-', as in "
            f"'{objective}-wide'."
        )
    if not isinstance(options, dict):
        raise InputError(f"'options' of '{label}' is {options!r}; it must be a table of options.")
    check_options(options, objective)
    return Algorithm(label, objective, dict(options))


def check_keys(data: Mapping[str, Any], kind: type, what: str, required: Iterable[str]) -> None:
    """The keys of a table are the fields of a class."""
    if not isinstance(data, dict):
        raise InputError(f"{what} is {data!r}; it must be a table of names and values.")
    names = [f.name for f in dataclasses.fields(kind)]
    for name in data:
        if name not in names:
            raise unknown_name("key", name, names, f" {what} has: {', '.join(names)}.")
    missing = [name for name in required if name not in data]
    if missing:
        raise InputError(f"{what} needs '{missing[0]}'. {what} has: {', '.join(names)}.")


def check_distinct(what: str, values: Iterable[Any]) -> None:
    """Nothing is planned twice."""
    seen: list[Any] = []
    for value in values:
        if value in seen:
            raise InputError(
                f"The {what} {value!r} is twice in the plan. Leave one out, or give it another "
                f"name."
            )
        seen.append(value)


def check_options(options: Mapping[str, Any], objective: str = "mars") -> None:
    """Options exist and have values of their kind."""
    kinds = {name: kind for name, kind in option_types(objective).items() if name not in OWN}
    for name, value in options.items():
        if name not in kinds:
            raise unknown_name(
                "option", name, kinds, " See 'ratiosym train --help' for all of them."
            )
        read_value(kinds[name], value, f"The option '{name}'")


def read_plan(path_or_name: str | Path) -> Plan:
    """A built-in plan by its name, or one from a TOML file (docs/studies.md)."""
    if str(path_or_name) in BUILT_IN:
        return BUILT_IN[str(path_or_name)]
    path = Path(path_or_name)
    if path.suffix != ".toml" and not path.is_file():
        raise unknown_name(
            "plan",
            path_or_name,
            BUILT_IN,
            f" Built in: {', '.join(BUILT_IN)}; or name a .toml file.",
        )
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(
            f"There is no plan '{path}'. Built in: {', '.join(BUILT_IN)}; or name a .toml file."
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"The plan '{path}' cannot be read ({error}). A plan is a TOML file."
        ) from None
    try:
        return Plan.from_dict(data)
    except InputError as error:
        raise InputError(f"The plan '{path}': {error}") from None


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
            "The paper's Table 1: three algorithms on 47 tasks, 10 seeds, 80 million steps "
            "(AeroJAX, JaxNav 240).",
            _MAIN,
            tuple(TASKS),
            tuple(range(10)),
            "paper",
        ),
        Plan(
            "ablation",
            "The paper's Figure 3: five variants on two tasks, 10 seeds, a billion steps.",
            _VARIANTS,
            _ABLATION_TASKS,
            tuple(range(10)),
            "paper",
            {"steps": 1_000_000_000},
        ),
        Plan(
            "cpu-table1",
            "Table 1 at a budget for two cores: 47 tasks, 3 seeds, 400 thousand steps.",
            _MAIN,
            tuple(TASKS),
            tuple(range(3)),
            "cpu",
            {"steps": 400_000},
        ),
        Plan(
            "cpu-ablation",
            "Figure 3 at a budget for two cores: 3 seeds, a million steps.",
            _VARIANTS,
            _ABLATION_TASKS,
            tuple(range(3)),
            "cpu",
            {"steps": 1_000_000},
        ),
        Plan(
            "first-results",
            "Three algorithms on two small tasks, 5 seeds, 500 thousand steps: less than an hour "
            "of two cores.",
            _MAIN,
            ("connector-5x5x3a", "mpe-spread-3ag"),
            tuple(range(5)),
            "cpu",
            {"steps": 500_000, "actor_learning_rate": 5e-4, "critic_learning_rate": 5e-4},
        ),
        Plan(
            "smoke",
            "Two algorithms on two tasks, 2 seeds, seconds each: to see that all works.",
            _algorithms("mars", "mappo"),
            ("connector-5x5x3a", "mpe-spread-3ag"),
            (0, 1),
            "smoke",
        ),
    )
}
