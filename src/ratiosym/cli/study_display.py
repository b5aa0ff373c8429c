"""Terminal output of ``ratiosym study`` and ``ratiosym report``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ratiosym.cli.display import console
from ratiosym.cli.text import printable
from ratiosym.experiments.plans import Plan
from ratiosym.experiments.study import STATES, RunStatus, StudyStatus
from ratiosym.report.analysis import Analysis
from ratiosym.report.tables import Cell, scores_table

Status = TypeVar("Status")


@contextmanager
def show_progress(
    make_show: Callable[[Live | None], Callable[[Status], None]], again: str
) -> Iterator[Callable[[Status], None]]:
    """Yield what shows a status: in place on a terminal, as lines elsewhere.

    After an interruption, print ``again``, the command that resumes.
    """
    live = (
        Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    )
    try:
        with live or nullcontext():
            yield make_show(live)
    except KeyboardInterrupt:
        line = f"Interrupted; all workers have ended. Resume with: {again}"
        console.print(line, soft_wrap=True)
        raise


class StudyView:
    """Display of a running study: a bar and all running runs, or one line per finished run."""

    def __init__(self, live: Live | None) -> None:
        self.live = live
        self.told: set[Path] | None = None  # runs already reported as over

    def show(self, status: StudyStatus) -> None:
        """Show the status of the study."""
        self.tell(status)
        if self.live is not None:
            self.live.update(self.picture(status), refresh=True)

    def tell(self, status: StudyStatus) -> None:
        """Lines for runs that are over; on a terminal for failed ones alone."""
        over = {s.run.path: s for s in status.runs if s.state in ("done", "failed")}
        if self.told is None:
            self.told = set(over)
            if self.live is None:
                console.print(summary(status), soft_wrap=True)
        for path, state in over.items():
            if path not in self.told and (self.live is None or state.state == "failed"):
                count = f"{len(over)} of {len(status.runs)}, {time_left(status)}"
                console.print(f"{state.state:7} {describe(state)}  ({count})", soft_wrap=True)
        self.told |= set(over)

    def picture(self, status: StudyStatus) -> Group:
        """Return the bar and one line per running run."""
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            Text(status.plan.name, "bold"),
            ProgressBar(status.total_steps, status.steps, width=24),
            f"{status.steps / status.total_steps:.0%}  {summary(status)}",
        )
        lines = Table.grid(padding=(0, 2))
        for state in status.of("running"):
            lines.add_row(
                f"  {run_name(state)}", f"{state.steps / state.run.steps:.0%}", *numbers(state)
            )
        return Group(bar, lines)


def run_name(state: RunStatus) -> str:
    """Return task, algorithm and seed of a run."""
    return f"{state.run.task} {state.run.label} seed {state.run.seed}"


def numbers(state: RunStatus) -> list[str]:
    """Format return and speed, as far as they are known."""
    words = [] if state.mean_return is None else [f"return {state.mean_return:.2f}"]
    if state.state == "running":
        speed = state.steps_per_second
        words.append("compiling ..." if speed is None else f"{speed:,.0f} steps/s")
    return words


def describe(state: RunStatus) -> str:
    """Describe a run in one line."""
    if state.state == "failed":
        return f"{run_name(state)}: {printable(state.error)}"
    return "  ".join([run_name(state), *numbers(state)])


def summary(status: StudyStatus) -> str:
    """Return the number of runs in each state, and the time left."""
    counts = [f"{len(status.of(state))} {state}" for state in STATES if status.of(state)]
    return f"{', '.join(counts)} of {len(status.runs)} runs; {time_left(status)}"


def time_left(status: StudyStatus) -> str:
    """Format the estimated time left."""
    return in_words(status.seconds_left())


def in_words(seconds: float | None) -> str:
    """Format a duration as a rough time left."""
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


def resume_command(directory: Path) -> str:
    """Return the command that resumes a study."""
    return f"ratiosym study run --out {quote(str(directory))}"


def show_title(plan: Plan) -> None:
    """Show the name and description of a plan."""
    console.print(f"{plan.name}: {plan.about}" if plan.about else plan.name, soft_wrap=True)


def show_status(status: StudyStatus, directory: Path, again: str | None) -> None:
    """Show the status of a study. ``again`` is the command that resumes it, if it is stopped."""
    plan = status.plan
    labels = [a.label for a in plan.algorithms]
    table = Table(title=f"runs done of {len(plan.seeds)}", title_justify="left")
    table.add_column("task", no_wrap=True)
    for label in labels:
        table.add_column(label, justify="right")
    for task in plan.tasks:
        done = {
            label: sum(s.run.task == task and s.run.label == label for s in status.of("done"))
            for label in labels
        }
        table.add_row(task, *(str(done[label]) for label in labels))
    console.print(table)
    for state in status.of("running"):
        line = "  ".join([run_name(state), f"{state.steps / state.run.steps:.0%}", *numbers(state)])
        console.print(f"running  {line}", soft_wrap=True)
    show_failures(status, directory)
    console.print(
        f"{status.steps / status.total_steps:.0%} of all steps: {summary(status)}",
        soft_wrap=True,
    )
    left = len(status.of("interrupted")) + len(status.of("missing"))
    if left and again is not None and not status.of("running"):
        console.print(f"Resume with: {again}", soft_wrap=True)


def show_failures(status: StudyStatus, directory: Path) -> None:
    """List failed runs with the location of their errors."""
    for state in status.of("failed"):
        line = f"failed   {describe(state)} ({directory / state.run.path / 'failure.txt'})"
        console.print(line, soft_wrap=True)


def show_end(status: StudyStatus, directory: Path, again: str) -> None:
    """Show the outcome of a study. ``again`` is the command that resumes it."""
    show_failures(status, directory)
    console.print(f"{summary(status)}. Directory: {directory}", soft_wrap=True)
    if status.of("failed"):
        console.print(f"Retry the failed runs with: {again} --retry-failed", soft_wrap=True)


def show_report(analysis: Analysis, files: list[Path]) -> None:
    """Print Table 1, notes for the reader, and the location of all files."""

    def text(cell: Cell) -> Text:
        between = " " if len(scores.columns) <= 3 else "\n"
        rest = ("*" if cell.has_star else "") + (
            f"{between}({cell.interval})" if cell.interval else ""
        )
        return Text.assemble((cell.text, "bold" if cell.is_bold else ""), rest)

    scores = scores_table(analysis)
    title = f"{analysis.results.name}: {scores.title.lower()}"
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
        show_edge=False,
    )
    table.add_column(scores.corner)
    for title in scores.columns.values():
        table.add_column(title, justify="right", overflow="fold")
    for row in scores.rows:
        table.add_row(row.name, *map(text, row.cells))
    console.print(table)
    console.print(scores.about)
    for verdict in analysis.verdicts.values():
        console.print(verdict)
    for note in analysis.notes:
        console.print(f"Note: {note}")
    for absence in analysis.results.absent:
        reason = printable(absence.reason)
        console.print(f"Not finished: {absence.path}: {reason}", soft_wrap=True)
    console.print(f"Page: {files[0]}", soft_wrap=True)
    console.print(f"Figures, tables and numbers: {files[1].parent}/", soft_wrap=True)
    for path in files[1:]:
        console.print(f"  {path.name}", soft_wrap=True)
