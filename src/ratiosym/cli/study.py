"""``ratiosym study``: run a plan, or show its status."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ratiosym.cli.arguments import Arg, Command
from ratiosym.cli.workers import WorkersCommand
from ratiosym.errors import InputError

if TYPE_CHECKING:
    from ratiosym.experiments.plans import Plan


@dataclass(frozen=True)
class RunStudy(WorkersCommand):
    """Run a plan (algorithms x tasks x seeds), or whatever is missing of it.

    examples:
      ratiosym study run first-results --out studies/first     an hour on two cores
      ratiosym study run cpu --tuned tuning/cpu --out studies/cpu
      ratiosym study run mine.toml --out studies/mine          a plan of your own
      ratiosym study run --out studies/first                   resume

    On a cluster:

      RAY_ADDRESS=host:6379 ratiosym study run cpu --tuned DIR --executor ray

    Finished runs are never repeated. An interrupted run is resumed from its checkpoint. A failed
    run is reported and skipped; failure.txt in its directory holds the error. Built-in plans:
    paper, paper-ablation, cpu, first-results, smoke. All but first-results tune their algorithms:
    'ratiosym reproduce' does that as well. docs/how-to/studies.md explains plans.
    """

    plan: Annotated[str | None, Arg("PLAN", is_positional=True)] = None
    """A built-in plan or a .toml file. Not needed if the directory contains a study."""
    out: Annotated[Path | None, Arg("DIR")] = None
    """The study's directory: new, empty, or containing this study (default: studies/PLAN)."""
    tuned: Annotated[Path | None, Arg("DIR")] = None
    """Where to read tuned settings for every task and algorithm of the plan: the output of
    'ratiosym tune --all' or of 'ratiosym reproduce'. They are copied into plan.json."""
    shard: Annotated[str | None, Arg("I/N")] = None
    """Run only part I of N of the runs (from 1/N to N/N), for job arrays."""
    retry_failed: bool = False
    """Retry failed runs from their checkpoints."""
    track: Annotated[tuple[str, ...], Arg("TRACKER")] = ()
    """Trackers of every run, instead of the plan's: tensorboard, wandb, or a custom one as
    package.module:function."""

    def check(self) -> None:
        """Reject a plan that cannot be read."""
        self.find_plan()

    def run(self) -> None:
        """Run the study and show its progress."""
        from ratiosym.cli.display import console
        from ratiosym.cli.study_display import StudyView, resume_command, show_end, show_progress
        from ratiosym.experiments.shards import Shard
        from ratiosym.experiments.study import run_study
        from ratiosym.learning.devices import start_jax

        plan, out = self.find_plan()
        make_executor = self.make_executor()
        start_jax()
        if len(plan.seeds) == 1:
            console.print("One seed only: results will have no confidence intervals.")
        shard = None if self.shard is None else Shard.parse(self.shard)
        with show_progress(lambda live: StudyView(live).show, resume_command(out)) as on_progress:
            status = run_study(plan, out, make_executor, self.retry_failed, on_progress, shard)
        show_end(status, out, resume_command(out))
        if status.of("failed"):
            raise SystemExit(1)

    def find_plan(self) -> "tuple[Plan, Path]":
        """Return the plan and its directory."""
        from ratiosym.experiments.built_in import BUILT_IN
        from ratiosym.experiments.plans import read_plan
        from ratiosym.experiments.settings import read_tuned
        from ratiosym.experiments.study import read_study

        if self.plan is None and self.out is None:
            raise InputError(
                f"Name a plan, or the --out of a study to resume. Built-in plans: "
                f"{', '.join(BUILT_IN)}."
            )
        if self.plan is None and self.out is not None:
            plan = read_study(self.out)
        else:
            plan = read_plan(self.plan or "")
        if self.tuned is not None:
            plan = replace(plan, settings=read_tuned(self.tuned, plan.pairs()))
        if self.track:
            plan = replace(plan, track=self.track)
        return plan, self.out or Path("studies") / plan.name


@dataclass(frozen=True)
class StudyStatus(Command):
    """Show what is done, running, failed or missing, and the time left.

    examples:
      ratiosym study status studies/first
    """

    directory: Annotated[Path, Arg("DIR", is_positional=True)]
    """The directory of a study."""

    def check(self) -> None:
        """Reject a directory without a study."""
        from ratiosym.experiments.study import read_study

        read_study(self.directory)

    def run(self) -> None:
        """Read the directory and print its status."""
        from ratiosym.cli.experiment_display import show_experiment_status
        from ratiosym.cli.study_display import resume_command, show_status, show_title
        from ratiosym.experiments.reproduce import experiment_status

        status = experiment_status(self.directory)
        show_title(status.plan)
        if status.searches:
            show_experiment_status(status, self.directory)
        else:
            show_status(status.study, self.directory, resume_command(self.directory))
