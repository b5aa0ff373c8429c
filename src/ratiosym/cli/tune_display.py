"""Terminal output of ``ratiosym tune``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from rich.progress import Progress
from rich.table import Table

from ratiosym.cli.arguments import to_flag
from ratiosym.cli.display import console, make_bar
from ratiosym.experiments.tuning import Outcome, Search, TrialRow, best_of


@contextmanager
def show_search_progress(search: Search) -> Iterator[Callable[[list[TrialRow]], None]]:
    """Show a bar on a terminal, or one line per finished trial elsewhere.

    After an interruption, say how to resume.
    """
    bar = make_bar()
    view = _SearchView(bar, search)
    try:
        with bar:
            yield view.show
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. Finished trials are in {search.out}; resume with the same command.",
            soft_wrap=True,
        )
        raise


class _SearchView:
    """Display of a running search."""

    def __init__(self, bar: Progress, search: Search) -> None:
        self.bar, self.objective, self.num_seeds = bar, search.config.objective, len(search.seeds)
        self.title = f"{search.config.task} {self.objective}"
        self.row = bar.add_task(self.title, total=None, state="starting")
        self.told: set[int] | None = None  # trials already reported as over

    def show(self, rows: list[TrialRow]) -> None:
        """Show the status of the trials."""
        over = {row.number: row for row in rows if row.state in ("complete", "pruned", "diverged")}
        if self.told is None:
            self.told = set(over)
            if over:
                words = summary(rows, self.objective)
                console.print(f"{self.title}  resuming: {words}", soft_wrap=True)
        for number in sorted(over.keys() - self.told):
            if not console.is_terminal:
                count = summary(rows, self.objective)
                line = f"{self.title}  {describe(over[number])}  ({count})"
                console.print(line, soft_wrap=True)
        self.told |= set(over)
        running = [row for row in rows if row.state == "running"]
        done = len(over) + sum(len(row.seeds) for row in running) / self.num_seeds
        seeds = ", ".join(
            f"{row.number} seed {min(len(row.seeds) + 1, self.num_seeds)}" for row in running
        )
        texts = [summary(rows, self.objective)]
        if running:
            texts.append(f"running: {seeds} of {self.num_seeds}")
        self.bar.update(self.row, total=len(rows), completed=done, state="  ".join(texts))


def describe(row: TrialRow) -> str:
    """Describe a finished trial."""
    value = "" if row.value is None else f" {row.value:.4g}"
    return f"trial {row.number} {row.state}{value} after {len(row.seeds)} seeds"


def summary(rows: list[TrialRow], objective: str) -> str:
    """Summarise the progress and the best trial so far."""
    counts = {
        state: sum(row.state == state for row in rows)
        for state in ("complete", "pruned", "diverged")
    }
    others = ", ".join(
        f"{counts[state]} {state}" for state in ("pruned", "diverged") if counts[state]
    )
    best = best_of(rows, objective)
    words = f"{sum(counts.values())} of {len(rows)} trials" + (f", {others}" if others else "")
    return words if best is None else f"{words}; best {best.value:.4g}, trial {best.number}"


def show_outcome(outcome: Outcome, pictures: list[Path]) -> None:
    """Show the best trial, the importance of hyperparameters, and the location of all files."""
    search, best = outcome.search, outcome.best
    title = f"{search.config.task} {search.config.objective}"
    console.print(f"{title}: {summary(outcome.rows, search.config.objective)}", soft_wrap=True)
    if best is None:
        console.print(
            "No trial was completed, so there is no best one. See trials.csv for the reasons, or "
            "raise --trials or --steps."
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
        table.add_row(to_flag(name), f"{value:g}", "" if share is None else f"{share:.2f}")
    console.print(table)
    console.print(
        "Importance: main effects in an additive model of all trials (docs/how-to/tuning.md)."
        if outcome.importance
        else "Too few trials to estimate the importance of hyperparameters."
    )
    for path in pictures:
        console.print(f"Picture: {path}", soft_wrap=True)
    console.print(
        f"Train with it: ratiosym train --config {quote(str(search.out / 'best.json'))}",
        soft_wrap=True,
    )
