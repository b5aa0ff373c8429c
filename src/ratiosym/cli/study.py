"""``ratiosym study``: run a plan, and say where a study stands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ratiosym.cli.display import console
from ratiosym.errors import InputError
from ratiosym.experiments.executors import LocalProcesses, MakeExecutor, RayTasks
from ratiosym.experiments.plans import BUILT_IN, Plan, read_plan
from ratiosym.experiments.study import STATES, RunState, Standing, examine, read_study, run_study
from ratiosym.learning.devices import start_jax


@dataclass(frozen=True)
class Run:
    """Run algorithms x tasks x seeds, or what is missing of them.

    See that all works: ratiosym study run smoke --out studies/smoke

    Less than an hour of two cores: ratiosym study run first-results --out studies/first

    A plan of your own (docs/studies.md): ratiosym study run mine.toml --out studies/mine

    Go on after an interruption: ratiosym study run --out studies/first

    On a cluster: RAY_ADDRESS=host:6379 ratiosym study run table1 --out /shared/table1 --executor
    ray --gpus 1

    Finished runs are never repeated, an interrupted one goes on from its checkpoint, a failed one
    is reported and skipped, its error kept in failure.txt. Built-in plans: table1, ablation,
    cpu-table1, cpu-ablation, first-results, smoke.
    """

    plan: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="PLAN")] = None
    """A built-in plan or a .toml file. May be left out if the directory holds a study."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the study is kept: new, empty, or this study's. By default studies/PLAN, by the plan's
    name.
    """
    executor: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster: that of RAY_ADDRESS, or one started here
    ('ratiosym[cluster]').
    """
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """local: how many runs at once, each on cores of its own. By default one a core; one in all
    with an accelerator.
    """
    cpus: float = 1
    """ray: cores for a run."""
    gpus: float = 0
    """ray: GPUs for a run; a part of one, as in 0.25, lets several share it."""
    retry_failed: bool = False
    """Try failed runs again, from their checkpoints."""

    def run(self) -> None:
        """Run and show it."""
        plan, out = self.find()
        start_jax()
        if len(plan.seeds) == 1:
            console.print("One seed only: results will have no confidence intervals.")
        with watch(out) as on_progress:
            standing = run_study(plan, out, self.make_executor(), self.retry_failed, on_progress)
        show_end(standing, out)
        if standing.of("failed"):
            raise SystemExit(1)

    def find(self) -> tuple[Plan, Path]:
        """The plan and its place."""
        if self.plan is None and self.out is None:
            raise InputError(
                f"Name a plan, or the --out of a study to go on with. Built in: "
                f"{', '.join(BUILT_IN)}."
            )
        plan = (
            read_study(self.out)
            if self.plan is None and self.out is not None
            else read_plan(self.plan or "")
        )
        return plan, self.out or Path("studies") / plan.name

    def make_executor(self) -> MakeExecutor:
        """Where to compute."""
        if self.executor == "local":
            if (self.cpus, self.gpus) != (1, 0):
                raise InputError(
                    "--cpus and --gpus are for --executor ray. On this machine give --workers."
                )
            return partial(LocalProcesses, num_workers=self.workers)
        if self.workers is not None:
            raise InputError(
                "--workers is for --executor local. Ray runs as many as fit: give --cpus and "
                "--gpus."
            )
        return partial(RayTasks, num_cpus=self.cpus, num_gpus=self.gpus)


@dataclass(frozen=True)
class Status:
    """Say what of a study is done, running, failed and missing, and how long it will take.

    ratiosym study status studies/first
    """

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The directory of a study."""

    def run(self) -> None:
        """Look and tell."""
        show_status(examine(self.directory), self.directory)


@dataclass(frozen=True)
class Study:
    """Run many: algorithms x tasks x seeds from a plan, and where they stand.

    ratiosym study run first-results --out studies/first

    ratiosym study status studies/first
    """

    command: Annotated[
        Annotated[Run, tyro.conf.subcommand("run")]
        | Annotated[Status, tyro.conf.subcommand("status")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        """What was asked for."""
        self.command.run()


# ------------------------------------------------------------------------------------ what is shown


@contextmanager
def watch(directory: Path) -> Iterator[Callable[[Standing], None]]:
    """A bar and a line a running run on a terminal, a line a finished run elsewhere; and how to go
    on.
    """
    live = (
        Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    )
    view = _View(live)
    try:
        if live is None:
            yield view.show
        else:
            with live:
                yield view.show
    except KeyboardInterrupt:
        again = f"ratiosym study run --out {directory}"
        console.print(f"Interrupted; the workers have ended. Go on with: {again}", soft_wrap=True)
        raise


class _View:
    """What is shown while a study runs."""

    def __init__(self, live: Live | None) -> None:
        self.live = live
        self.told: set[Path] | None = None  # runs that were over when last shown

    def show(self, standing: Standing) -> None:
        """Take in where the study stands."""
        over = {s.run.path: s for s in standing.runs if s.state in ("done", "failed")}
        if self.told is None:
            self.told = set(over)
            if self.live is None:
                console.print(summary(standing), soft_wrap=True)
        for path, state in over.items():
            if path not in self.told and (self.live is None or state.state == "failed"):
                count = f"{len(over)} of {len(standing.runs)}, {time_left(standing)}"
                console.print(f"{state.state:7} {describe(state)}  ({count})", soft_wrap=True)
        self.told |= set(over)
        if self.live is not None:
            self.live.update(self.picture(standing), refresh=True)

    def picture(self, standing: Standing) -> Group:
        """The bar, and a line for each run that is being worked on."""
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text(standing.plan.name, "bold"),
            ProgressBar(standing.total_steps, standing.steps, width=24),
            f"{standing.steps / standing.total_steps:.0%}  {summary(standing)}",
        )
        lines = Table.grid(padding=(0, 2))
        for state in standing.of("running"):
            lines.add_row(
                f"  {name(state)}", f"{state.steps / state.run.steps:.0%}", *numbers(state)
            )
        return Group(bar, lines)


def name(state: RunState) -> str:
    """A run as people call it."""
    return f"{state.run.task} {state.run.label} seed {state.run.seed}"


def numbers(state: RunState) -> list[str]:
    """Return and speed, as far as they are known."""
    words = [] if state.mean_return is None else [f"return {state.mean_return:.2f}"]
    if state.state == "running":
        speed = state.steps_per_second
        words.append("compiling ..." if speed is None else f"{speed:,.0f} steps/s")
    return words


def describe(state: RunState) -> str:
    """A run in one line."""
    if state.state == "failed":
        return f"{name(state)}: {state.error}"
    return "  ".join([name(state), *numbers(state)])


def summary(standing: Standing) -> str:
    """How many runs are in which state, and the time left."""
    counts = [f"{len(standing.of(state))} {state}" for state in STATES if standing.of(state)]
    return f"{', '.join(counts)} of {len(standing.runs)} runs; {time_left(standing)}"


def time_left(standing: Standing) -> str:
    """The estimate in words."""
    seconds = standing.seconds_left()
    if seconds is None:
        return "time left unknown"
    if seconds == 0:
        return "nothing left to do"
    minutes = round(seconds / 60)
    if minutes < 2:
        return "less than two minutes left"
    days, hours = minutes // 1440, minutes // 60
    words = (
        f"{days} days"
        if days > 2
        else f"{hours}:{minutes % 60:02d} hours"
        if hours
        else f"{minutes} minutes"
    )
    return f"about {words} left"


def show_status(standing: Standing, directory: Path) -> None:
    """Where a study stands."""
    plan = standing.plan
    console.print(f"{plan.name}: {plan.about}" if plan.about else plan.name, soft_wrap=True)
    labels = [a.label for a in plan.algorithms]
    table = Table(title=f"runs done of {len(plan.seeds)}", title_justify="left")
    table.add_column("task", no_wrap=True)
    for label in labels:
        table.add_column(label, justify="right")
    for task in plan.tasks:
        done = {
            label: sum(s.run.task == task and s.run.label == label for s in standing.of("done"))
            for label in labels
        }
        table.add_row(task, *(str(done[label]) for label in labels))
    console.print(table)
    for state in standing.of("running"):
        line = "  ".join([name(state), f"{state.steps / state.run.steps:.0%}", *numbers(state)])
        console.print(f"running  {line}", soft_wrap=True)
    show_failures(standing, directory)
    console.print(
        f"{standing.steps / standing.total_steps:.0%} of all steps: {summary(standing)}",
        soft_wrap=True,
    )
    left = len(standing.of("interrupted")) + len(standing.of("missing"))
    if left and not standing.of("running"):
        console.print(f"Go on with: ratiosym study run --out {directory}", soft_wrap=True)


def show_failures(standing: Standing, directory: Path) -> None:
    """Failed runs, and where their errors are."""
    for state in standing.of("failed"):
        line = f"failed   {describe(state)} ({directory / state.run.path / 'failure.txt'})"
        console.print(line, soft_wrap=True)


def show_end(standing: Standing, directory: Path) -> None:
    """What came of a study."""
    show_failures(standing, directory)
    console.print(f"{summary(standing)}. Kept in {directory}", soft_wrap=True)
    if standing.of("failed"):
        again = f"ratiosym study run --out {directory} --retry-failed"
        console.print(f"To try those that failed again: {again}", soft_wrap=True)
