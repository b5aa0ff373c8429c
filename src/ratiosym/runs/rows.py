"""Rows of ``evaluations.csv``, ``absolute_metric.csv`` and ``summary.json``, which
docs/concepts/run-directory.md explains.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from ratiosym.learning.config import RunConfig
from ratiosym.runs.directory import Run
from ratiosym.runs.tables import Row

if TYPE_CHECKING:
    from ratiosym.learning.evaluate import Episodes


def evaluation_row(config: RunConfig, update: int, episodes: "Episodes") -> Row:
    """Return a row of ``evaluations.csv``."""
    return {"update": update, "steps": update * config.shape.steps_per_update, **describe(episodes)}


def describe(episodes: "Episodes") -> Row:
    """Summarise episodes: mean and spread of returns, length, and the mean of each metric."""
    returns = np.asarray(episodes.returns, np.float64)
    return {
        "episodes": len(returns),
        "mean_return": float(returns.mean()),
        "std_return": float(returns.std(ddof=1)) if len(returns) > 1 else float("nan"),
        "min_return": float(returns.min()),
        "max_return": float(returns.max()),
        "mean_length": float(np.mean(episodes.lengths)),
        **{name: float(np.mean(values)) for name, values in sorted(episodes.metrics.items())},
    }


def episode_rows(episodes: "Episodes") -> list[Row]:
    """Return the rows of ``absolute_metric.csv``, one per episode."""
    columns = {
        "return": np.asarray(episodes.returns),
        "length": np.asarray(episodes.lengths),
        **{name: np.asarray(values) for name, values in sorted(episodes.metrics.items())},
    }
    return [
        {"episode": k, **{name: values[k].item() for name, values in columns.items()}}
        for k in range(len(episodes.returns))
    ]


def summarise(run: Run, episodes: "Episodes", speed: float, seconds: float) -> dict[str, Any]:
    """Summarise the results of a run."""
    assert run.returns is not None  # a run starts with an evaluation
    config, returns = run.config, run.returns
    return {
        "task": config.task,
        "objective": config.objective,
        "seed": config.seed,
        "steps": config.num_updates * config.shape.steps_per_update,
        "updates": config.num_updates,
        "first_return": returns.first["mean_return"],
        "final_return": returns.last["mean_return"],
        "best_return": returns.best["mean_return"],
        "best_update": returns.best["update"],
        "absolute_metric": describe(episodes),
        "median_steps_per_second": speed,
        "seconds_since_start_or_resume": round(seconds, 1),
    }
