"""Progress bars and tables of the commands. Importing this module does not import JAX."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from statistics import mean
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from ratiosym.errors import InputError

if TYPE_CHECKING:
    from ratiosym.envs.teams import Team
    from ratiosym.learning.evaluate import Episodes
    from ratiosym.runs.directory import Run
    from ratiosym.runs.loop import Progress

console = Console(highlight=False, markup=False)  # print brackets literally


def make_bar() -> Bar:
    """Make a progress bar with a name and a status, shown only on a terminal."""
    return Bar(
        SpinnerColumn(),
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[state]}", markup=False),
        console=console,
        refresh_per_second=4,
        disable=not console.is_terminal,
    )


@contextmanager
def show_progress(directory: Path) -> "Iterator[Callable[[Progress], None]]":
    """Show a progress bar on a terminal, or one line per evaluation elsewhere.

    After an interruption, print the command that resumes.
    """
    from ratiosym.errors import NonFiniteLoss
    from ratiosym.runs.directory import run_directories

    bar = make_bar()
    view = _RunView(bar)
    again = f"ratiosym train --resume {quote(str(directory))}"
    try:
        with bar:
            yield view.show
    except KeyboardInterrupt:
        if run_directories(directory):
            console.print(f"Interrupted. Resume with: {again}", soft_wrap=True)
        else:
            console.print("Interrupted before the run had started; nothing was written.")
        raise
    except NonFiniteLoss as error:
        raise InputError(f"{error} The last good checkpoint is in '{directory}'.") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"'{error.filename or directory}' cannot be read or written "
            f"({error.strerror or error}). The last good checkpoint is safe. Once the problem is "
            f"fixed, resume with: {again}"
        ) from None


class _RunView:
    """Status of a run in the bar: return, steps per second, time left."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.row = bar.add_task("starting", total=None, state="")
        self.mean_return = float("nan")
        self.steps = 0
        # time and steps when everything had been compiled
        self.clock: tuple[float, int] | None = None

    def show(self, progress: "Progress") -> None:
        """Show the latest state of the run."""
        config = progress.config
        now = monotonic()
        if progress.evaluations:
            self.mean_return = mean(row["mean_return"] for row in progress.evaluations)
        is_late = progress.steps < self.steps  # the evaluation before training, just compiled
        self.steps = max(self.steps, progress.steps)
        if is_late or (progress.rows and self.clock is None):
            self.clock = (now, self.steps)
        total = config.num_updates * config.shape.steps_per_update
        name = f"{config.task} {config.objective}" + (
            f" x{len(progress.seeds)}" if len(progress.seeds) > 1 else ""
        )
        self.bar.update(
            self.row,
            description=name,
            total=total,
            completed=self.steps,
            state=self.state(progress, now, total),
        )
        if progress.evaluations and not console.is_terminal:
            console.print(
                f"{name}  {progress.steps:,} of {total:,} steps  "
                f"{self.state(progress, now, total)}",
                soft_wrap=True,
            )

    def state(self, progress: "Progress", now: float, total: int) -> str:
        """Format return, speed and time left."""
        words = [] if self.mean_return != self.mean_return else [f"return {self.mean_return:.2f}"]
        if self.clock is None:
            return "  ".join([*words, "compiling ..."])
        seconds, steps = now - self.clock[0], progress.steps - self.clock[1]
        if steps <= 0 or seconds <= 0:
            return "  ".join(words)
        speed = steps / seconds
        left = (total - progress.steps) / speed
        return "  ".join(
            [*words, f"{speed:,.0f} steps/s", f"{int(left // 60)}:{int(left % 60):02d} left"]
        )


def show_summaries(runs: "Sequence[Run]") -> None:
    """Show the results of each run."""
    table = Table(title=f"{runs[0].config.task} {runs[0].config.objective}", title_justify="left")
    for column in ("seed", "before", "after", "best", "absolute", "steps", "steps/s"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in runs:
        s = run.summary
        absolute = s["absolute_metric"]
        error = absolute["std_return"] / absolute["episodes"] ** 0.5
        table.add_row(
            str(s["seed"]),
            f"{s['first_return']:.2f}",
            f"{s['final_return']:.2f}",
            f"{s['best_return']:.2f}",
            f"{absolute['mean_return']:.2f} ± {error:.2f}",
            f"{s['steps']:,}",
            f"{s['median_steps_per_second']:,.0f}",
        )
    console.print(table)
    console.print(
        f"Mean returns of evaluation episodes. The absolute metric is the mean over "
        f"{runs[0].summary['absolute_metric']['episodes']} fresh episodes with the best parameters "
        f"(± standard error)."
    )
    for run in runs:
        console.print(f"Directory: {run.directory}", soft_wrap=True)


def show_episodes(title: str, episodes: "Episodes") -> None:
    """Show the results of an evaluation."""
    from ratiosym.runs.rows import describe

    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in describe(episodes).items():
        table.add_row(
            name.replace("_", " "), f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
        )
    console.print(table)


def show_baselines(
    task: str, played: "dict[str, tuple[Team, Episodes]]", references: dict[str, float]
) -> None:
    """Compare scripted teams: returns, reference values, metrics."""
    from ratiosym.runs.rows import describe

    rows = {name: describe(episodes) for name, (_, episodes) in played.items()}
    num_episodes = next(iter(rows.values()))["episodes"]
    table = Table(
        title=f"{task}, scripted teams, {num_episodes:,} episodes each", title_justify="left"
    )
    table.add_column("mean over episodes", no_wrap=True)
    for name in rows:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("return", *(f"{row['mean_return']:.2f}" for row in rows.values()))
    table.add_row(
        "  standard error",
        *(f"{r['std_return'] / num_episodes**0.5:.2f}" for r in rows.values()),
    )
    if references:
        table.add_row(
            "  reference", *(f"{references[name]:g}" if name in references else "" for name in rows)
        )
    for key in ("mean_length", *sorted(next(iter(played.values()))[1].metrics)):
        label = key.removeprefix("mean_").replace("_", " ")
        table.add_row(label, *(f"{row[key]:.3g}" for row in rows.values()))
    console.print(table)
    for name, (team, _) in played.items():
        console.print(f"{name}: {team.about}")


def show_tasks(rows: list[dict[str, Any]], missing: list[str], as_json: bool) -> None:
    """Show the table of tasks, and what to install for those whose library is missing."""
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(
        title=f"{len(rows)} tasks", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in ("task", "suite", "agents", "actions", "obs", "state", "steps"):
        table.add_column(
            name, justify="left" if name in ("task", "suite", "actions") else "right", no_wrap=True
        )
    for row in rows:
        if "num_agents" not in row:
            table.add_row(row["task"], row["suite"])
            continue
        actions = f"{row['action_size']} {row['action_kind']}"
        numbers = [str(row[name]) for name in ("observation_size", "state_size", "time_limit")]
        table.add_row(row["task"], row["suite"], str(row["num_agents"]), actions, *numbers)
    console.print(table)
    for line in missing:
        console.print(line, soft_wrap=True)
    console.print(
        "obs: size of each agent's observation. state: size of the critic's input. steps: time "
        "limit of an episode."
    )
