"""The demonstration: MARS and MAPPO on one task and one budget, a table, pictures and a film."""

import sys
from pathlib import Path

from rich.table import Table

from ratiosym.cli.display import console, watch
from ratiosym.errors import InputError
from ratiosym.experiments.presets import configure
from ratiosym.report.film import draw_film
from ratiosym.report.runs import draw_runs
from ratiosym.runs import files
from ratiosym.runs.directory import read_config, run_directories
from ratiosym.runs.episodes import find_cast
from ratiosym.runs.loop import resume, start

# Equal for both, picked with MARS on another task so that minutes show something: no comparison
# (Decision 20).
SETTINGS = {
    "num_envs": 32,
    "rollout_length": 64,
    "actor_learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "num_evaluations": 20,
}


def run_demo(out: Path, task: str, steps: int) -> None:
    """Train both, draw, compare."""
    summaries = {}
    for objective in ("mars", "mappo"):
        directory = out / objective
        config = configure(task, "cpu", objective=objective, steps=steps, **SETTINGS)
        if run_directories(directory) and read_config(directory) != config:
            raise InputError(
                f"'{directory}' holds a run with other settings. Choose another --out; nothing was "
                f"changed."
            )
        if (directory / "summary.json").exists():
            console.print(f"{objective} has been trained before: {directory}")
        else:
            with watch(directory) as on_progress:
                if run_directories(directory):
                    resume(directory, on_progress=on_progress)
                else:
                    start(config, directory, 1, on_progress)
        summaries[objective] = files.read_json(directory / "summary.json")
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
        "Mean episode returns. One seed, and settings nobody tuned: it shows that both learn, not "
        "which is better."
    )
    for path in draw_runs([out / "mars", out / "mappo"], out / "curves.png"):
        console.print(f"Picture: {path}", soft_wrap=True)
    cast = find_cast(str(out / "mars"))
    draw_film(cast.plain, cast.record(seed=0), out / "episode.gif", cast.title)
    console.print(f"Film: {out / 'episode.gif'}", soft_wrap=True)
    console.print(f"Checkpoint: {out / 'mars' / 'checkpoint'}", soft_wrap=True)
    console.print(f"Try: {sys.argv[0]} evaluate {out / 'mars'}", soft_wrap=True)
