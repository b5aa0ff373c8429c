"""``ratiosym tune``: search for hyperparameters."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ratiosym.cli.arguments import MAX_SEED, Arg, Command, Option, options_of, to_flag
from ratiosym.errors import InputError

if TYPE_CHECKING:  # Optuna is slow to import
    from ratiosym.experiments.jobs import MakeExecutor
    from ratiosym.experiments.tuning import Search
    from ratiosym.learning.config import RunConfig

SEARCH, TRIAL, WORKERS = "search", "runs of a trial", "workers"
GROUPS = (SEARCH, TRIAL, WORKERS)


@dataclass(frozen=True)
class Tune(Command):
    """Search for hyperparameters on a task as in the paper, or resume a search.

    examples:
      ratiosym tune mpe-spread-3ag --preset smoke --trials 6 --num-seeds 2
      ratiosym tune mpe-spread-3ag --objective mappo --out tuning/spread
      ratiosym train --config tuning/spread/best.json     train with the result
      ratiosym tune --all first-results --trials 10 --num-seeds 3

    For workers on several machines, run the same command on each (password in PGPASSWORD or
    ~/.pgpass):

      ratiosym tune mpe-spread-3ag --storage postgresql://user@host/database

    After an interruption, the same command resumes the search; at most the running seeds are lost.
    The directory contains best.json, trials.csv, importance.json, figures, and trials/ with the
    evaluations of every seed. 'ratiosym tune TASK --help' shows the defaults of a task.
    """

    task: Annotated[str | None, Arg("TASK", SEARCH, is_positional=True)] = None
    """The task to tune on; 'ratiosym tasks' lists them."""
    objective: Annotated[str, Arg("NAME", SEARCH)] = "mars"
    """The objective to maximise, as for 'ratiosym train'."""
    all: Annotated[str | None, Arg("PLAN", SEARCH)] = None
    """Instead of a task: tune every algorithm of a plan on each of its tasks, in DIR/TASK/LABEL,
    with the plan's sizes and half its steps."""
    num_trials: Annotated[int | None, Arg("N", SEARCH, flag="--trials")] = None
    """The number of trials (default: the paper's, 40 for objectives with one parameter and 80 for
    those with two). It can be raised when a search is resumed."""
    num_seeds: Annotated[int, Arg(group=SEARCH)] = 5
    """Seeds per trial (1000, 1001, ...), run one after another with a pruning check after each."""
    out: Annotated[Path | None, Arg("DIR", SEARCH)] = None
    """The directory of the search: new, empty, or containing this search (default:
    tuning/TASK/OBJECTIVE)."""
    seed: Annotated[int, Arg(group=SEARCH, low=0, high=MAX_SEED)] = 0
    """The seed of the sampler. With one worker, a seed always gives the same trials."""
    preset: Annotated[str, Arg("NAME", TRIAL)] = "cpu"
    """Sizes and budget (paper, cpu or smoke). A trial's runs have half the budget."""
    executor: Annotated[Literal["local", "ray"], Arg(group=WORKERS)] = "local"
    """local: processes on this machine. ray: a Ray cluster, the one at RAY_ADDRESS or one started
    here (pip install 'ratiosym[cluster]')."""
    num_workers: Annotated[int | None, Arg("N", WORKERS, flag="--workers")] = None
    """local: the number of processes, each pinned to a core (default: one per core; a single one
    with an accelerator)."""
    num_cpus: Annotated[float, Arg(group=WORKERS, flag="--cpus")] = 1
    """ray: cores per worker."""
    num_gpus: Annotated[float, Arg(group=WORKERS, flag="--gpus")] = 0
    """ray: GPUs per worker."""
    storage: Annotated[str | None, Arg("URL", WORKERS)] = None
    """postgresql://USER@HOST:PORT/DATABASE for workers on several machines (default: a journal file
    in DIR)."""
    name: Annotated[str, Arg("NAME", WORKERS)] = ""
    """The name of the search in the database (default: TASK/OBJECTIVE); with --all, a prefix of
    TASK/LABEL."""
    track: Annotated[tuple[str, ...], Arg("TRACKER", TRIAL)] = ()
    """Trackers of every seed's evaluations: tensorboard, wandb, or a custom one as
    package.module:function."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Steps, evaluations and sizes that were given, as arguments of ``presets.configure``."""

    @classmethod
    def options(cls, words: Sequence[str]) -> list[Option]:
        """Return the command's own options and the sizes of a run."""
        from ratiosym.cli.train import setting_options
        from ratiosym.learning.config import RunShape

        names = {"steps", "num_evaluations", "hidden_size", *(f.name for f in fields(RunShape))}
        sizes = [
            replace(option, arg=replace(option.arg, group=TRIAL))
            for option in setting_options(None)
            if option.name in names
        ]
        found = [*options_of(cls, skip=("settings",)), *sizes]
        return sorted(found, key=lambda option: GROUPS.index(option.arg.group))

    @classmethod
    def build(cls, given: dict[str, Any]) -> "Tune":
        """Separate settings from the command's own options."""
        own = {f.name for f in fields(cls)}
        settings = {name: value for name, value in given.items() if name not in own}
        return cls(**{n: v for n, v in given.items() if n in own}, settings=settings)

    @classmethod
    def defaults(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of the given preset and task."""
        from ratiosym.cli.train import flat
        from ratiosym.experiments.presets import tuning_preset

        tune = cls.build(given)
        config = flat(tuning_preset(tune.preset, tune.task or "", "mars"))
        return {name: value for name, value in config.items() if name not in ("objective", "seed")}

    def run(self) -> None:
        """Run the searches and show their progress."""
        from ratiosym.cli.tune_display import show_outcome, show_search_progress
        from ratiosym.experiments.tuning import tune
        from ratiosym.learning.devices import clear_programs, start_jax
        from ratiosym.report.search import draw_search

        searches = self.searches()
        for search in searches:
            search.validate()
        start_jax()
        executor = self.make_executor()
        for search in searches:
            with show_search_progress(search) as on_progress:
                outcome = tune(search, executor, on_progress)
            show_outcome(outcome, draw_search(search.out))
            clear_programs()

    def searches(self) -> "list[Search]":
        """Return the search that the options describe, or those of a plan."""
        from ratiosym.envs.registry import task_directory, task_name
        from ratiosym.experiments.presets import change, tuning_preset

        if self.all is not None:
            return self.planned_searches()
        if self.task is None:
            raise InputError(
                "Name a task, as in 'ratiosym tune mpe-spread-3ag', or a plan with --all."
            )
        self.check_settings()
        base = tuning_preset(self.preset, task_name(self.task), self.objective)
        places = [task_directory(name) for name in (base.task, base.objective)]
        out = self.out or Path("tuning", *places)
        return [self.make_search(change(base, **self.settings), out, self.name)]

    def check_settings(self) -> None:
        """Reject settings that are searched."""
        from ratiosym.experiments.search_spaces import COMMON

        for name in self.settings:
            if name in COMMON:
                choices = ", ".join(map(str, COMMON[name]))
                raise InputError(f"{to_flag(name)} is searched ({choices}). Omit it.")

    def planned_searches(self) -> "list[Search]":
        """Return the searches of a plan, task by task."""
        from ratiosym.envs.registry import task_directory
        from ratiosym.experiments.plans import read_plan
        from ratiosym.experiments.presets import change

        plan = read_plan(self.all or "")
        own = [n for n in ("task", "objective", "preset") if getattr(self, n) != getattr(Tune, n)]
        given = [
            *own,
            *(name for name in self.settings if name not in ("steps", "num_evaluations")),
        ]
        if given:
            names = ", ".join("TASK" if name == "task" else to_flag(name) for name in given)
            raise InputError(
                f"--all takes task, objective, preset and sizes from the plan. Omit {names}."
            )
        searches = []
        for task in plan.tasks:
            for algorithm in plan.algorithms:
                config = change(plan.tuning_config(algorithm, task), **self.settings)
                place = Path(task_directory(task)) / algorithm.label
                out = (self.out or Path("tuning") / plan.name) / place
                name = "/".join(filter(None, (self.name, *place.parts)))
                searches.append(self.make_search(config, out, name))
        return searches

    def make_search(self, config: "RunConfig", out: Path, name: str) -> "Search":
        """One search."""
        from ratiosym.experiments.search_spaces import default_trials
        from ratiosym.experiments.tuning import SEEDS, Search

        if self.num_seeds < 1:
            raise InputError(f"`num_seeds` is {self.num_seeds}; it must be at least 1.")
        trials = default_trials(config.objective) if self.num_trials is None else self.num_trials
        seeds = tuple(range(SEEDS[0], SEEDS[0] + self.num_seeds))
        return Search(config, trials, out, seeds, self.seed, self.storage, name, self.track)

    def make_executor(self) -> "MakeExecutor | None":
        """Return the factory of the executor; a single local worker runs in this process."""
        from ratiosym.experiments.jobs import choose_executor, default_workers

        executor = choose_executor(self.executor, self.num_workers, self.num_cpus, self.num_gpus)
        number = default_workers() if self.num_workers is None else self.num_workers
        return None if self.executor == "local" and number == 1 else executor
