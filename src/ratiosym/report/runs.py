"""Figures of runs on disk."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ratiosym.errors import InputError
from ratiosym.report.figures import curves_figure, ratios_figure
from ratiosym.runs.directory import all_runs, read_config
from ratiosym.runs.tables import read_table


def draw_runs(
    directories: Sequence[Path], path: Path, columns: Sequence[str] = ("mean_return",)
) -> list[Path]:
    """Draw learning curves to ``path`` and ratio diagnostics next to it, one colour per objective.

    ``columns`` of ``evaluations.csv`` or ``training.csv`` are drawn in one panel each.
    """
    runs = all_runs(directories)
    panels: dict[str, dict[str, list[tuple[np.ndarray, np.ndarray]]]] = {
        label(column): {} for column in columns
    }
    training: dict[str, list[dict[str, np.ndarray]]] = {}
    for run in runs:
        objective = read_config(run).objective
        evaluations, updates = (read_rows(run, name) for name in ("evaluations", "training"))
        training.setdefault(objective, []).append(updates)
        for column in columns:
            table = find_table(column, evaluations, updates)
            panels[label(column)].setdefault(objective, []).append((table["steps"], table[column]))
    tasks = sorted({read_config(run).task for run in runs})
    if len(tasks) > 1:
        raise InputError(
            f"These runs are of different tasks ({', '.join(tasks)}); draw one task at a time."
        )
    beside = path.with_name(f"{path.stem}-ratios{path.suffix}")
    curves_figure(path, panels, title=tasks[0])
    ratios_figure(
        beside, {name: over_seeds(tables) for name, tables in training.items()}, title=tasks[0]
    )
    return [path, beside]


def read_rows(run: Path, name: str) -> dict[str, np.ndarray]:
    """Read a table of a run; raise ``InputError`` if it has no rows yet, or rows without steps."""
    path = run / f"{name}.csv"
    table = read_table(path) if path.exists() else {}
    if not table or ("steps" in table and not table["steps"].size):
        raise InputError(
            f"'{run}' has no {path.name} yet: it has not reached its first evaluation."
        )
    if "steps" not in table:
        raise InputError(
            f"'{path}' has no column 'steps'. 'ratiosym train --resume' restores the tables of a "
            f"run."
        )
    return table


def label(column: str) -> str:
    """Return the axis label of a column."""
    return "evaluation return" if column == "mean_return" else column.replace("_", " ")


def find_table(column: str, *tables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the first table with this column."""
    for table in tables:
        if column in table:
            return table
    names = sorted({name for table in tables for name in table} - {"update", "steps"})
    raise InputError(f"These runs have no column '{column}'. They have: {', '.join(names)}.")


def over_seeds(tables: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Combine the tables of seeds: extremes of the extremes, means of all other columns."""
    length = min(len(t["steps"]) for t in tables)
    if any(not np.array_equal(t["steps"][:length], tables[0]["steps"][:length]) for t in tables):
        raise InputError(
            "Runs of one objective have updates of different sizes; draw them in separate figures."
        )
    stacked = {name: np.stack([t[name][:length] for t in tables]) for name in tables[0]}
    return {
        name: x.min(0)
        if name.endswith("ratio_min")
        else x.max(0)
        if name.endswith("ratio_max")
        else x.mean(0)
        for name, x in stacked.items()
    }
