"""``ratiosym tune``: search hyperparameters, and show what came out."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.progress import Progress
from rich.table import Table

from ratiosym.cli.display import console, make_bar
from ratiosym.errors import InputError
from ratiosym.experiments.presets import PRESETS, change, tuning_preset
from ratiosym.experiments.search_spaces import COMMON, default_trials
from ratiosym.learning.config import RunConfig, RunShape
from ratiosym.objectives import OBJECTIVES

if TYPE_CHECKING:  # Optuna takes its time to load
    from ratiosym.experiments.tuning import Outcome, Search, TrialRow
    from ratiosym.experiments.tuning.outcome import RunWorkers


def option(name: str) -> str:
    """The option of a name."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Tune:
    """Search an objective's hyperparameters on a task, as the paper does; or go on with a search.

    See that all works: ratiosym tune mpe-spread-3ag --preset smoke --trials 6 --num-seeds 2 --out
    tuning/smoke

    Hours of two cores: ratiosym tune mpe-spread-3ag --objective mappo --out tuning/spread

    Train with what it found: ratiosym train --config tuning/spread/best.json

    Tasks x algorithms of a plan: ratiosym tune --all first-results --trials 10 --num-seeds 3 --out
    tuning/first

    Workers on many machines, the same command on each: ratiosym tune mpe-spread-3ag --out
    tuning/spread
    --storage postgresql://user@host/database (password in PGPASSWORD or ~/.pgpass)

    After an interruption the same command goes on; at most the seed that was running is lost. The
    directory holds best.json, trials.csv, importance.json, pictures, and trials/ with every seed's
    evaluations.
    """

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """What to tune on; 'ratiosym tasks' lists them."""
    objective: Annotated[str, tyro.conf.arg(metavar="{" + ",".join(OBJECTIVES) + "}")] = "mars"
    """The ratio objective."""
    all: Annotated[str | None, tyro.conf.arg(metavar="PLAN")] = None
    """Instead of a task: every algorithm of a plan on each of its tasks, DIR/TASK/LABEL; sizes and,
    halved, steps are the plan's."""
    trials: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many. By default the paper's: 40 for one trust-region parameter, 80 for two. Later starts
    may raise it.
    """
    num_seeds: int = 5
    """Seeds of a trial, one after another with a pruning check after each: 1000, 1001, ..."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the search is kept: new, empty, or this search's. By default tuning/TASK/OBJECTIVE."""
    preset: Annotated[str, tyro.conf.arg(metavar="{" + ",".join(PRESETS) + "}")] = "cpu"
    """Sizes, and half the steps of a final run."""
    steps: int = 0
    """Environment steps of every seed."""
    num_evaluations: int = 0
    """Evaluations, evenly spaced. The last 20% of them make a seed's value."""
    shape: Annotated[RunShape, tyro.conf.arg(name="")] = field(default_factory=RunShape)
    seed: int = 0
    """Of the sampler. With one worker the same seed gives the same trials."""
    executor: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster: that of RAY_ADDRESS, or one started here
    ('ratiosym[cluster]').
    """
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """local: processes, pinned to a core each. By default one a core; one in all with an
    accelerator.
    """
    cpus: float = 1
    """ray: cores for a worker."""
    gpus: float = 0
    """ray: GPUs for a worker."""
    storage: Annotated[str | None, tyro.conf.arg(metavar="URL")] = None
    """postgresql://USER@HOST:PORT/DATABASE for workers on many machines. By default a journal file
    in DIR.
    """
    name: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """Of the search in the database. By default TASK/OBJECTIVE; with --all it goes in front of
    TASK/LABEL.
    """

    @classmethod
    def of_preset(cls, name: str, task: str) -> "Tune":
        """The options as a preset sets them."""
        config = tuning_preset(name, task, "mars")
        return cls(
            preset=name,
            steps=config.steps,
            num_evaluations=config.num_evaluations,
            shape=config.shape,
        )

    def run(self) -> None:
        """Search and show it."""
        from ratiosym.experiments.tuning import tune
        from ratiosym.learning.devices import forget_programs, start_jax
        from ratiosym.report.search import draw_search

        start_jax()
        searches, run_workers = self.searches(), self.run_workers()
        for search in searches:
            search.validate()
        for search in searches:
            with watch(search) as on_progress:
                outcome = tune(search, run_workers, on_progress)
            show_outcome(outcome, draw_search(search.out))
            forget_programs()

    def searches(self) -> "list[Search]":
        """What the options describe: one search, or those of a plan."""
        if self.all is not None:
            return self.planned()
        if self.task is None:
            raise InputError(
                "Name a task, as in 'ratiosym tune mpe-spread-3ag', or a plan with --all."
            )
        config = RunConfig(
            self.task,
            self.objective,
            steps=self.steps,
            num_evaluations=self.num_evaluations,
            shape=self.check_shape(),
        )
        return [
            self.search(config, self.out or Path("tuning") / self.task / self.objective, self.name)
        ]

    def check_shape(self) -> RunShape:
        """What is searched cannot be given."""
        default = tuning_preset(self.preset, self.task or "", "mars").shape
        for name in ("num_epochs", "num_minibatches"):
            if getattr(self.shape, name) != getattr(default, name):
                choices = ", ".join(map(str, COMMON[name]))
                raise InputError(f"{option(name)} is searched ({choices}). Leave it out.")
        return self.shape

    def planned(self) -> "list[Search]":
        """The searches of a plan, task after task."""
        from ratiosym.experiments.plans import read_plan

        plan = read_plan(self.all or "")
        given = [
            name
            for name in ("task", "objective", "preset")
            if getattr(self, name) != getattr(Tune(), name)
        ]
        if self.shape != RunShape() or given:
            raise InputError(
                "--all takes task, objective, preset and sizes from the plan. Leave them out here."
            )
        searches = []
        for task in plan.tasks:
            for algorithm in plan.algorithms:
                planned = plan.config(algorithm, task, seed=0)
                steps = self.steps or planned.steps // 2
                num_evaluations = self.num_evaluations or planned.num_evaluations
                config = dataclasses.replace(planned, steps=steps, num_evaluations=num_evaluations)
                if plan.preset == "smoke":
                    config = change(
                        config, num_envs=tuning_preset("smoke", task, "mars").shape.num_envs
                    )
                place = Path(task) / algorithm.label
                out = (self.out or Path("tuning") / plan.name) / place
                searches.append(
                    self.search(config, out, "/".join(filter(None, (self.name, *place.parts))))
                )
        return searches

    def search(self, config: RunConfig, out: Path, name: str) -> "Search":
        """One search."""
        from ratiosym.experiments.tuning import SEEDS, Search

        trials = default_trials(config.objective) if self.trials is None else self.trials
        seeds = tuple(range(SEEDS[0], SEEDS[0] + self.num_seeds))
        return Search(config, trials, out, seeds, self.seed, self.storage, name)

    def run_workers(self) -> "RunWorkers":
        """Who runs the trials."""
        from ratiosym.experiments.tuning import default_workers, local_workers, ray_workers

        if self.executor == "local":
            if (self.cpus, self.gpus) != (1, 0):
                raise InputError(
                    "--cpus and --gpus are for --executor ray. On this machine give --workers."
                )
            return local_workers(default_workers() if self.workers is None else self.workers)
        if self.workers is not None:
            raise InputError(
                "--workers is for --executor local. Ray runs as many as fit: give --cpus and "
                "--gpus."
            )
        return ray_workers(self.cpus, self.gpus)


# ------------------------------------------------------------------------------------ what is shown


@contextmanager
def watch(search: "Search") -> "Iterator[Callable[[list[TrialRow]], None]]":
    """A bar on a terminal, a line a finished trial elsewhere; and how to go on after an
    interruption.
    """
    bar = make_bar()
    view = _View(bar, f"{search.config.task} {search.config.objective}", len(search.seeds))
    try:
        with bar:
            yield view.show
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. What has finished is kept in {search.out}; the same command goes on."
        )
        raise


class _View:
    """What is shown while a search runs."""

    def __init__(self, bar: Progress, title: str, num_seeds: int) -> None:
        self.bar, self.title, self.num_seeds = bar, title, num_seeds
        self.row = bar.add_task(title, total=None, state="starting")
        self.told: set[int] | None = None  # trials that were over when last shown

    def show(self, rows: "list[TrialRow]") -> None:
        """Take in where the trials stand."""
        over = {row.number: row for row in rows if row.state in ("complete", "pruned", "diverged")}
        if self.told is None:
            self.told = set(over)
            if over:
                console.print(f"{self.title}  going on: {summary(rows)}", soft_wrap=True)
        for number in sorted(over.keys() - self.told):
            if not console.is_terminal:
                line = f"{self.title}  {describe(over[number])}  ({summary(rows)})"
                console.print(line, soft_wrap=True)
        self.told |= set(over)
        running = [row for row in rows if row.state == "running"]
        done = len(over) + sum(len(row.seeds) for row in running) / self.num_seeds
        seeds = ", ".join(
            f"{row.number} seed {min(len(row.seeds) + 1, self.num_seeds)}" for row in running
        )
        words = (
            [summary(rows), f"running: {seeds} of {self.num_seeds}"] if running else [summary(rows)]
        )
        self.bar.update(self.row, total=len(rows), completed=done, state="  ".join(words))


def describe(row: "TrialRow") -> str:
    """A finished trial in a few words."""
    value = "" if row.value is None else f" {row.value:.4g}"
    return f"trial {row.number} {row.state}{value} after {len(row.seeds)} seeds"


def summary(rows: "list[TrialRow]") -> str:
    """How far, and the best so far."""
    from ratiosym.experiments.tuning import best_of

    counts = {
        state: sum(row.state == state for row in rows)
        for state in ("complete", "pruned", "diverged")
    }
    others = ", ".join(
        f"{counts[state]} {state}" for state in ("pruned", "diverged") if counts[state]
    )
    best = best_of(rows)
    words = f"{sum(counts.values())} of {len(rows)} trials" + (f", {others}" if others else "")
    return words if best is None else f"{words}; best {best.value:.4g}, trial {best.number}"


def show_outcome(outcome: "Outcome", pictures: list[Path]) -> None:
    """The best trial, what mattered, and where all is."""
    search, best = outcome.search, outcome.best
    title = f"{search.config.task} {search.config.objective}"
    console.print(f"{title}: {summary(outcome.rows)}", soft_wrap=True)
    if best is None:
        console.print(
            "No trial was completed, so there is no best one. Widen the budget or look at "
            "trials.csv."
        )
        return
    table = Table(
        title=f"trial {best.number}, the best of {len(outcome.rows)}", title_justify="left"
    )
    for name in ("hyperparameter", "value", "importance"):
        table.add_column(
            name, justify="left" if name == "hyperparameter" else "right", no_wrap=True
        )
    for name, value in best.params.items():
        share = outcome.importance.get(name)
        table.add_row(option(name), f"{value:g}", "" if share is None else f"{share:.2f}")
    console.print(table)
    console.print(
        "Importance: main effects in an additive model of all trials (docs/tuning.md)."
        if outcome.importance
        else "Too few trials to say what mattered."
    )
    for path in pictures:
        console.print(f"Picture: {path}", soft_wrap=True)
    console.print(
        f"Train with it: ratiosym train --config {search.out / 'best.json'}", soft_wrap=True
    )
