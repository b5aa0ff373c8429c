"""Terminal output of ``ratiosym reproduce``, and of ``ratiosym study status`` for its results."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ratiosym.cli.display import console
from ratiosym.cli.study_display import StudyView, in_words, show_end, show_status
from ratiosym.experiments.reproduce import ExperimentStatus
from ratiosym.experiments.tuning import SearchStatus
from ratiosym.learning.devices import num_cores


def resume_command(directory: Path) -> str:
    """Return the command that resumes an experiment."""
    return f"ratiosym reproduce --out {quote(str(directory))}"


class ExperimentView:
    """Display of a running experiment: a bar per stage and all that is running, or lines."""

    def __init__(self, live: Live | None) -> None:
        self.live = live
        self.runs = StudyView(live)
        self.told: set[tuple[str, str]] | None = None  # searches already reported as over

    def show(self, status: ExperimentStatus) -> None:
        """Show the status of both stages."""
        if status.searches:
            self.tell_searches(status.searches)
        if status.study.runs:
            self.runs.tell(status.study)
        if self.live is not None:
            self.live.update(self.picture(status), refresh=True)

    def tell_searches(self, searches: Sequence[SearchStatus]) -> None:
        """Print a line for each search that has ended."""
        over = {s.pair[:2]: s for s in searches if s.state == "done"}
        if self.told is None:
            self.told = set(over)
            if self.live is None:
                console.print(f"tuning: {tuning_summary(searches)}", soft_wrap=True)
        for key, search in over.items():
            if key not in self.told and self.live is None:
                line = f"tuned   {describe_search(search)}  ({tuning_summary(searches)})"
                console.print(line, soft_wrap=True)
        self.told |= set(over)

    def picture(self, status: ExperimentStatus) -> Group:
        """Return a bar for each stage and one line per running search or run."""
        parts: list[RenderableType] = []
        if status.searches:
            bar = Table.grid(padding=(0, 1))
            share = sum(s.share for s in status.searches) / len(status.searches)
            words = f"{share:.0%}  {tuning_summary(status.searches)}"
            bar.add_row(Text("tuning", "bold"), ProgressBar(1.0, share, width=24), words)
            lines = Table.grid(padding=(0, 2))
            for search in status.searches:
                if search.state == "running":
                    lines.add_row(f"  {search_name(search)}", search_progress(search))
            parts += [bar, lines]
        if status.study.runs:
            parts.append(self.runs.picture(status.study))
        return Group(*parts)


def search_name(search: SearchStatus) -> str:
    """Name a search."""
    return f"{search.pair.task} {search.pair.label}"


def search_progress(search: SearchStatus) -> str:
    """Format the number of finished trials and the best value."""
    best = "" if search.best is None else f"  best {search.best:.4g}"
    return f"{search.trials} of {search.num_trials} trials{best}"


def describe_search(search: SearchStatus) -> str:
    """Describe a search in one line."""
    return f"{search_name(search)}  {search_progress(search)}"


def tuning_summary(searches: Sequence[SearchStatus]) -> str:
    """Summarise how many searches have ended and the time left."""
    num_done = sum(s.state == "done" for s in searches)
    return f"{num_done} of {len(searches)} searches; {in_words(seconds_left(searches))}"


def seconds_left(searches: Sequence[SearchStatus]) -> float | None:
    """Estimate the time left from the time per seed so far, assuming that nothing is pruned."""
    left = [s for s in searches if s.state != "done"]
    if not left:
        return 0.0
    times = [s.seconds for s in searches if s.seconds is not None]
    usual = sum(times) / len(times) if times else None
    each = [s.seconds_left(usual) for s in left]
    total = sum(seconds for seconds in each if seconds is not None)
    num_running = sum(s.state == "running" for s in left)
    workers = max(num_running, num_cores())  # a search may have several
    return None if None in each else total / workers


def show_experiment_status(status: ExperimentStatus, directory: Path) -> None:
    """Show the status of both stages."""
    plan = status.plan
    labels = [a.label for a in plan.algorithms]
    table = Table(title="trials finished", title_justify="left")
    table.add_column("task", no_wrap=True)
    for label in labels:
        table.add_column(label, justify="right")
    by_pair = {search.pair[:2]: search for search in status.searches}
    for task in plan.tasks:
        cells = (by_pair[task, label] for label in labels)
        table.add_row(task, *(f"{s.trials}/{s.num_trials}" for s in cells))
    console.print(table)
    for search in status.searches:
        if search.state == "running":
            console.print(f"running  {describe_search(search)}", soft_wrap=True)
    frozen = directory / "settings.json"
    where = f"; settings: {frozen}" if frozen.exists() else ""
    console.print(f"tuning: {tuning_summary(status.searches)}{where}", soft_wrap=True)
    is_active = any(s.state == "running" for s in status.searches)
    show_status(status.study, directory, None if is_active else resume_command(directory))


def show_experiment_end(status: ExperimentStatus, directory: Path) -> None:
    """Show the outcome of both stages."""
    if status.searches:
        console.print(f"tuning: {tuning_summary(status.searches)}", soft_wrap=True)
    if status.study.runs:
        show_end(status.study, directory, resume_command(directory))
