"""``ratiosym reproduce``: an experiment from its searches to its report."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ratiosym.cli.arguments import Arg
from ratiosym.cli.workers import WORKERS, WorkersCommand
from ratiosym.errors import InputError

if TYPE_CHECKING:
    from ratiosym.experiments.plans import Plan
    from ratiosym.experiments.reproduce import ExperimentStatus


@dataclass(frozen=True)
class Reproduce(WorkersCommand):
    """Run a whole experiment: hyperparameter searches, final runs, report.

    examples:
      ratiosym reproduce smoke --out studies/smoke       minutes: a first try
      ratiosym reproduce cpu --out studies/cpu           about 15 hours on two cores
      ratiosym reproduce mine.toml --out studies/mine    a plan of your own
      ratiosym reproduce --out studies/cpu               resume
      ratiosym study status studies/cpu                  what is done or missing

    On clusters (docs/how-to/cluster.md has the scripts):

      ratiosym reproduce paper --out DIR --shard $SLURM_ARRAY_TASK_ID/16
      RAY_ADDRESS=host:6379 ratiosym reproduce paper --executor ray --gpus 1

    Every algorithm of the plan is tuned on every task. The best settings are frozen in
    settings.json, the final runs use them, and report.html compares the algorithms. It can be
    interrupted at any time; the same command resumes. Built-in plans: paper, paper-ablation, cpu,
    first-results, smoke; paper and paper-ablation follow the paper, the others are ours.
    """

    plan: Annotated[str | None, Arg("PLAN", is_positional=True)] = None
    """A built-in plan or a .toml file. Not needed if the directory contains an experiment."""
    out: Annotated[Path | None, Arg("DIR")] = None
    """The experiment's directory: new, empty, or containing this experiment (default:
    studies/PLAN)."""
    only: Literal["tuning", "runs", "report"] | None = None
    """Run a single stage. runs requires that all searches have ended."""
    shard: Annotated[str | None, Arg("I/N")] = None
    """Run only part I of N (from 1/N to N/N), for job arrays: a share of the tasks and algorithms
    with their searches and final runs, or, with --only runs, a share of the runs. The last part to
    finish writes the report."""
    retry_failed: bool = False
    """Try failed runs again, from their checkpoints."""
    track: Annotated[tuple[str, ...], Arg("TRACKER")] = ()
    """Trackers of every final run, instead of the plan's: tensorboard, wandb, or your own as
    package.module:function."""
    storage: Annotated[str | None, Arg("URL", WORKERS)] = None
    """postgresql://USER@HOST:PORT/DATABASE for the searches (default: a journal file in each)."""
    name: Annotated[str, Arg("NAME", WORKERS)] = ""
    """What the names of the searches in the database begin with (default: the plan's name)."""

    def check(self) -> None:
        """Reject a plan that cannot be read."""
        self.find_plan()

    def run(self) -> None:
        """Run whatever is missing and show the progress."""
        from ratiosym.cli.experiment_display import show_experiment_end
        from ratiosym.learning.devices import start_jax

        plan, out = self.find_plan()
        if self.only == "report":
            self.report(out)
            return
        start_jax()
        status = self.compute(plan, out)
        draw_searches(status, out)
        show_experiment_end(status, out)
        if self.only is None and self.is_last(status, out):
            self.report(out)
        if status.study.of("failed"):
            raise SystemExit(1)

    def compute(self, plan: "Plan", out: Path) -> "ExperimentStatus":
        """Run searches and final runs."""
        from ratiosym.cli.experiment_display import ExperimentView, resume_command
        from ratiosym.cli.study_display import show_progress
        from ratiosym.experiments.reproduce import reproduce
        from ratiosym.experiments.shards import Shard

        assert self.only != "report"
        with show_progress(
            lambda live: ExperimentView(live).show, resume_command(out)
        ) as on_progress:
            return reproduce(
                plan,
                out,
                self.make_executor(),
                self.only,
                None if self.shard is None else Shard.parse(self.shard),
                self.storage,
                self.name,
                self.retry_failed,
                on_progress,
            )

    def find_plan(self) -> "tuple[Plan, Path]":
        """Return the plan and its directory."""
        from ratiosym.experiments.built_in import BUILT_IN
        from ratiosym.experiments.plans import read_plan
        from ratiosym.experiments.study import read_study

        if self.plan is not None:
            plan = read_plan(self.plan)
        elif self.out is not None:
            plan = replace(read_study(self.out, "reproduce"), settings={})
        else:
            raise InputError(
                f"Name a plan, or the --out of an experiment to resume. Built-in plans: "
                f"{', '.join(BUILT_IN)}."
            )
        if self.track:
            plan = replace(plan, track=self.track)
        return plan, self.out or Path("studies") / plan.name

    def is_last(self, status: "ExperimentStatus", out: Path) -> bool:
        """Return whether the whole experiment is over, not only this part of it."""
        from ratiosym.experiments.reproduce import experiment_status

        return status.is_over and (self.shard is None or experiment_status(out).is_over)

    def report(self, out: Path) -> None:
        """Write the report and show its table."""
        from ratiosym.cli.study_display import show_report
        from ratiosym.report.write import write_report

        show_report(*write_report(out))


def draw_searches(status: "ExperimentStatus", out: Path) -> None:
    """Draw the figures of finished searches, as 'ratiosym tune' does."""
    from ratiosym.experiments.study import TUNING
    from ratiosym.report.search import draw_search

    for search in status.searches:
        place = out / TUNING / search.pair.place
        if search.state == "done" and not (place / "values.png").exists():
            draw_search(place)
