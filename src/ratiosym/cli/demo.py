"""``ratiosym demo``: train MARS and MAPPO on one task; show a table, curves and an animation."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ratiosym.cli.arguments import Arg, Command
from ratiosym.errors import InputError

# Equal for both objectives, and chosen with MARS on another task so that a few minutes suffice. The
# demo shows that both learn; it is not a comparison (docs/paper/decisions.md, 20).
SETTINGS: dict[str, Any] = {
    "num_envs": 32,
    "rollout_length": 64,
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "num_evaluations": 20,
}


@dataclass(frozen=True)
class Demo(Command):
    """Watch MARS and MAPPO learn a task, in a few minutes.

    Both have the same budget and settings. The results are a table, learning curves and an
    animation of the trained team.
    """

    out: Annotated[Path, Arg("DIR")] = Path("demo")
    """The directory for runs and pictures. An existing demo is resumed, or shown again if it has
    finished."""
    task: Annotated[str, Arg("TASK")] = "connector-5x5x3a"
    """The task to learn."""
    steps: int = 400_000
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
        show_comparison(self.task, summaries)
        draw(self.out)


def train(directory: Path, task: str, objective: str, steps: int) -> dict[str, Any]:
    """Train or resume a run, or read a finished one, and return its summary."""
    from ratiosym.cli.display import console, show_progress
    from ratiosym.experiments.presets import configure
    from ratiosym.runs import files
    from ratiosym.runs.directory import read_config, run_directories
    from ratiosym.runs.loop import resume, start

    config = configure(task, "cpu", objective=objective, steps=steps, **SETTINGS)
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


def show_comparison(task: str, summaries: dict[str, dict[str, Any]]) -> None:
    """Show both runs in a table."""
    from rich.table import Table

    from ratiosym.cli.display import console

    table = Table(title=f"{task}, one seed each, equal budget and settings", title_justify="left")
    for column in (
        "objective",
        "before training",
        "after",
        "best parameters, 320 episodes",
        "steps",
        "steps/s",
    ):
        table.add_column(column, justify="left" if column == "objective" else "right")
    for objective, s in summaries.items():
        absolute = s["absolute_metric"]
        error = absolute["std_return"] / absolute["episodes"] ** 0.5
        table.add_row(
            objective,
            f"{s['first_return']:.2f}",
            f"{s['final_return']:.2f}",
            f"{absolute['mean_return']:.2f} ± {error:.2f}",
            f"{s['steps']:,}",
            f"{s['median_steps_per_second']:,.0f}",
        )
    console.print(table)
    console.print(
        "Mean episode returns. With one seed each and untuned settings, this shows that both "
        "learn, not which is better."
    )


def draw(out: Path) -> None:
    """Draw the curves of both runs and animate an episode of the trained team."""
    from ratiosym.cli.display import console
    from ratiosym.report.film import draw_film
    from ratiosym.report.runs import draw_runs
    from ratiosym.runs.episodes import find_cast

    for path in draw_runs([out / "mars", out / "mappo"], out / "curves.png"):
        console.print(f"Picture: {path}", soft_wrap=True)
    cast = find_cast(str(out / "mars"))
    draw_film(cast.plain, cast.record(seed=0), out / "episode.gif", cast.title)
    console.print(f"Film: {out / 'episode.gif'}", soft_wrap=True)
    console.print(f"Checkpoint: {out / 'mars' / 'checkpoint'}", soft_wrap=True)
    console.print(f"Try: {sys.argv[0]} evaluate {out / 'mars'}", soft_wrap=True)
