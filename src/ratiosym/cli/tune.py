"""``ratiosym tune``: search for hyperparameters."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ratiosym.cli.arguments import MAX_SEED, Arg, Option, options_of, read_int, to_flag
from ratiosym.cli.workers import WORKERS, WorkersCommand
from ratiosym.errors import InputError

if TYPE_CHECKING:  # Optuna is slow to import
    from ratiosym.experiments.plans import Tuning
    from ratiosym.experiments.tuning import Search

SEARCH, TRIAL = "search", "runs of a trial"
GROUPS = (SEARCH, TRIAL, WORKERS)


@dataclass(frozen=True)
class Tune(WorkersCommand):
    """Search for hyperparameters on a task: the paper's search space, or the trust region alone.

    examples:
      ratiosym tune mpe-spread-3ag --preset smoke --trials 6 --num-seeds 2
      ratiosym tune mpe-spread-3ag --objective mappo --out tuning/spread
      ratiosym train --config tuning/spread/best.json     train with the result
      ratiosym tune mpe-spread-3ag --search trust-region --trials all
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
    as specified in its [tuning] table (without one: the paper's search, half the steps). Then
    'ratiosym study run PLAN --tuned DIR' runs the plan with the settings found."""
    shard: Annotated[str | None, Arg("I/N", SEARCH)] = None
    """With --all: run only part I of N of the searches (from 1/N to N/N), for job arrays."""
    search: Annotated[Literal["paper", "trust-region"] | None, Arg(group=SEARCH)] = None
    """paper: learning rates, entropy, value clip, minibatches, epochs and the objective's own
    parameters (default). trust-region: its own parameters only; everything else is fixed."""
    num_trials: Annotated[str | None, Arg("N|all", SEARCH, flag="--trials")] = None
    """The number of trials (default: the paper's, 40 for objectives with one parameter and 80 for
    those with two). It can be raised when a search is resumed. With --search trust-region, all
    tries every combination without pruning."""
    num_seeds: Annotated[int | None, Arg("N", SEARCH)] = None
    """Seeds per trial (1000, 1001, ...), run one after another with a pruning check after each
    (default: 5, or the plan's)."""
    out: Annotated[Path | None, Arg("DIR", SEARCH)] = None
    """The directory of the search: new, empty, or containing this search (default:
    tuning/TASK/OBJECTIVE)."""
    seed: Annotated[int, Arg(group=SEARCH, low=0, high=MAX_SEED)] = 0
    """The seed of the sampler. With one worker, a seed always gives the same trials."""
    preset: Annotated[str, Arg("NAME", TRIAL)] = "cpu"
    """Sizes and budget (paper, cpu or smoke). A trial's runs have half the budget."""
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
        """Return the command's own options and the settings common to all objectives."""
        from ratiosym.cli.train import setting_options
        from ratiosym.learning.config import Hyperparameters, RunShape

        parts = (*fields(RunShape), *fields(Hyperparameters))
        names = {"steps", "num_evaluations", "hidden_size", *(f.name for f in parts)}
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
        from ratiosym.experiments.presets import flat, tuning_preset

        tune = cls.build(given)
        config = flat(tuning_preset(tune.preset, tune.task or "", "mars"))
        return {name: value for name, value in config.items() if name not in ("objective", "seed")}

    def check(self) -> None:
        """Reject settings with which there is no search."""
        for search in self.searches():
            search.validate()

    def run(self) -> None:
        """Run the searches and show their progress."""
        from ratiosym.cli.tune_display import show_outcome, show_search_progress
        from ratiosym.experiments.tuning import tune
        from ratiosym.learning.devices import clear_programs, start_jax
        from ratiosym.report.search import draw_search

        start_jax()
        executor = self.make_executor()
        for search in self.searches():
            with show_search_progress(search) as on_progress:
                outcome = tune(search, None if self.is_single() else executor, on_progress)
            show_outcome(outcome, draw_search(search.out))
            clear_programs()

    def searches(self) -> "list[Search]":
        """Return the search that the options describe, or those of a plan."""
        if self.all is not None:
            return self.planned_searches()
        if self.shard is not None:
            raise InputError("--shard is for the searches of a plan: --all PLAN.")
        if self.task is None:
            raise InputError(
                "Name a task, as in 'ratiosym tune mpe-spread-3ag', or a plan with --all."
            )
        self.check_settings()
        return [self.single_search(self.task)]

    def check_settings(self) -> None:
        """Reject settings that are searched."""
        from ratiosym.experiments.search_spaces import COMMON

        for name in self.settings:
            if name in COMMON and self.search != "trust-region":
                choices = ", ".join(map(str, COMMON[name]))
                raise InputError(
                    f"{to_flag(name)} is searched ({choices}). Omit it, or use --search "
                    f"trust-region."
                )

    def tuning(self, base: "Tuning") -> "Tuning":
        """Return ``base`` with the changes that the options ask for."""
        from ratiosym.experiments.search_spaces import SEEDS

        found = replace(base, sampler_seed=self.seed or base.sampler_seed)
        if self.search is not None and self.search != base.search:
            found = replace(found, search=self.search, trials="paper", grid={})
        if self.num_trials is not None:
            trials = self.read_trials(self.num_trials)
            found = replace(found, trials=trials, grid=found.grid if trials == "all" else {})
        if self.num_seeds is not None:
            if self.num_seeds < 1:
                raise InputError(f"`num_seeds` is {self.num_seeds}; it must be at least 1.")
            found = replace(found, seeds=tuple(range(SEEDS[0], SEEDS[0] + self.num_seeds)))
        if found.trials == "all" and found.search != "trust-region":
            raise InputError("`num_trials` all needs --search trust-region.")
        return found

    def read_trials(self, word: str) -> "int | Literal['all']":
        """Parse a number of trials, or 'all'."""
        if word == "all":
            return "all"
        number = read_int(word)
        if number is None:
            raise InputError(f"`num_trials` is '{word}'; it must be a whole number or all.")
        if number < 1:
            raise InputError(f"`num_trials` is {number}; it must be at least 1.")
        return number

    def single_search(self, task: str) -> "Search":
        """Return the search on one task."""
        from ratiosym.envs.registry import task_directory, task_name
        from ratiosym.experiments.plans import Algorithm, Tuning
        from ratiosym.experiments.presets import change, tuning_preset

        # Report an unknown task or objective before Optuna is imported.
        base = tuning_preset(self.preset, task_name(task), self.objective)
        from ratiosym.experiments.tuning import Search

        places = [task_directory(name) for name in (base.task, base.objective)]
        tuning, algorithm = self.tuning(Tuning()), Algorithm("", base.objective)
        return Search(
            change(base, **self.settings),
            tuning.num_trials(algorithm),
            self.out or Path("tuning", *places),
            tuning.seeds,
            self.seed,
            self.storage,
            self.name,
            self.track,
            tuning.search,
            tuning.points(algorithm),
        )

    def planned_searches(self) -> "list[Search]":
        """Return the searches of a plan, task by task."""
        from ratiosym.experiments.plans import Tuning, read_plan
        from ratiosym.experiments.shards import Shard
        from ratiosym.experiments.tuning import planned_searches

        plan = read_plan(self.all or "")
        own = [n for n in ("task", "objective", "preset") if getattr(self, n) != getattr(Tune, n)]
        given = [
            *own,
            *(name for name in self.settings if name not in ("steps", "num_evaluations")),
        ]
        if given:
            names = ", ".join("TASK" if name == "task" else to_flag(name) for name in given)
            raise InputError(
                f"--all takes task, objective, preset and settings from the plan. Omit {names}."
            )
        tuning = self.tuning(plan.tuning or Tuning())
        tree = self.out or Path("tuning") / plan.name
        searches = planned_searches(
            plan, tuning, tree, self.name, self.settings, storage=self.storage, track=self.track
        )
        found = list(searches.values())
        return found if self.shard is None else Shard.parse(self.shard).part(found)

    def is_single(self) -> bool:
        """Whether there is a single local worker, which can run in this process."""
        from ratiosym.experiments.jobs import default_workers

        number = default_workers() if self.num_workers is None else self.num_workers
        return self.executor == "local" and number == 1
