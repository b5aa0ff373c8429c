"""``ratiosym demo``: train MARS and MAPPO on one task; show a table, curves and an animation."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ratiosym.cli.arguments import Arg, Command
from ratiosym.errors import InputError

NUM_EPISODES = 3  # in the film


@dataclass(frozen=True)
class Demo(Command):
    """Watch MARS and MAPPO learn a task, in a few minutes.

    Both have the same budget and the settings that ship with ratiosym: a trust region that was
    chosen for each by a search, everything else equal. The results are a table, learning curves,
    the ratios of both, and an animation of the trained team beside a random one.
    """

    out: Annotated[Path, Arg("DIR")] = Path("demo")
    """The directory for runs and pictures. An existing demo is resumed, or shown again if it has
    finished."""
    task: Annotated[str, Arg("TASK")] = "connector-5x5x3a"
    """The task to learn. A task without shipped settings is learned with the defaults."""
    steps: int = 500_000
    """Environment steps per objective."""

    def run(self) -> None:
        """Train both objectives, show the table and draw the pictures."""
        import ratiosym.report.runs  # noqa: F401  a missing library is reported before training
        from ratiosym.learning.devices import start_jax

        start_jax()
        summaries = {
            objective: train(self.out / objective, self.task, objective, self.steps)
            for objective in ("mars", "mappo")
        }
        show_comparison(self.out, self.task, summaries)
        draw(self.out, self.task)


def train(directory: Path, task: str, objective: str, steps: int) -> dict[str, Any]:
    """Train or resume a run, or read a finished one, and return its summary."""
    from ratiosym.cli.display import console, show_progress
    from ratiosym.experiments.presets import configure
    from ratiosym.experiments.settings import read_shipped
    from ratiosym.runs import files
    from ratiosym.runs.directory import read_config, run_directories
    from ratiosym.runs.loop import resume, start

    tuned = objective in read_shipped().get(task, {})
    config = configure(task, "cpu", tuned, objective=objective, steps=steps)
    is_begun = bool(run_directories(directory))
    if is_begun and read_config(directory) != config:
        raise InputError(
            f"'{directory}' holds a run with other settings. Choose another `out`; nothing was "
            f"changed."
        )
    if (directory / "summary.json").exists():
        console.print(f"{objective} has already been trained: {directory}")
    else:
        with show_progress(directory) as on_progress:
            if is_begun:
                resume(directory, on_progress=on_progress)
            else:
                start(config, directory, 1, on_progress)
    return files.read_json(directory / "summary.json")


def show_comparison(out: Path, task: str, summaries: dict[str, dict[str, Any]]) -> None:
    """Show both runs in a table."""
    from rich.table import Table

    from ratiosym.cli.display import console
    from ratiosym.runs.directory import read_config
    from ratiosym.runs.tables import read_table

    steps = next(iter(summaries.values()))["steps"]
    table = Table(title=f"{task}, {steps:,} steps, one seed each", title_justify="left")
    table.add_column("objective")
    for column in ("region", "before", "after", "best", "ratios"):
        table.add_column(column, justify="right")
    for objective, summary in summaries.items():
        bounds = read_config(out / objective).bounds
        absolute = summary["absolute_metric"]
        error = absolute["std_return"] / absolute["episodes"] ** 0.5
        training = read_table(out / objective / "training.csv")
        table.add_row(
            objective,
            f"{bounds.lower:.3g} to {bounds.upper:.3g}",
            f"{summary['first_return']:.2f}",
            f"{summary['final_return']:.2f}",
            f"{absolute['mean_return']:.2f} ± {error:.2f}",
            f"{training['ratio_min'].min():.2g} to {training['ratio_max'].max():.2g}",
        )
    console.print(table)
    console.print(
        "region: the two target ratios. before, after, best: mean returns before and after "
        "training, and of 320 episodes with the best parameters. ratios: the smallest and the "
        "largest of all samples, which is how much less and more likely an action became within "
        "one update. One seed each shows that both learn, not which is better."
    )


def draw(out: Path, task: str) -> None:
    """Draw the curves of both runs, and animate episodes of the trained team and a random one."""
    from ratiosym.cli.display import console
    from ratiosym.report.film import draw_comparison
    from ratiosym.report.runs import draw_runs
    from ratiosym.runs.episodes import find_cast

    for path in draw_runs([out / "mars", out / "mappo"], out / "curves.png"):
        console.print(f"Picture: {path}", soft_wrap=True)
    casts = [find_cast(task), find_cast(str(out / "mars"))]
    episodes = [[cast.record(seed) for cast in casts] for seed in range(NUM_EPISODES)]
    draw_comparison(casts[0].plain, episodes, ("random team", "MARS"), out / "episode.gif")
    console.print(f"Film: {out / 'episode.gif'}", soft_wrap=True)
    console.print(f"Checkpoint: {out / 'mars' / 'checkpoint'}", soft_wrap=True)
    console.print(f"Try: {sys.argv[0]} evaluate {out / 'mars'}", soft_wrap=True)
