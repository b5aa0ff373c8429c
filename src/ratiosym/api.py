"""The Python interface: what ``import ratiosym`` offers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratiosym.experiments.presets import configure
from ratiosym.runs.directory import Run, default_directory
from ratiosym.runs.loop import Progress, start


def train(
    task: str,
    objective: str = "mars",
    *,
    out: str | Path | None = None,
    seed: int = 0,
    num_seeds: int = 1,
    preset: str = "cpu",
    tuned: bool = False,
    on_progress: Callable[[Progress], None] = lambda _: None,
    wandb: str | None = None,
    **options: Any,
) -> list[Run]:
    """Train ``num_seeds`` seeds from ``seed`` on, side by side, and keep everything under ``out``.

    ``options`` are the fields of RunConfig, RunShape and Hyperparameters and the objective's
    parameters: ``steps=400_000``, ``num_envs=32``, ``actor_learning_rate=5e-4``, ``b_upper=2.0``
    ...
    """
    config = configure(task, preset, tuned, objective=objective, seed=seed, **options)
    return start(config, out or default_directory(config, num_seeds), num_seeds, on_progress, wandb)
