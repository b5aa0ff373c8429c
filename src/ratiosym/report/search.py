"""Figures of a search: values over trials, by hyperparameter, and importance."""

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ratiosym.errors import InputError
from ratiosym.objectives import get_objective
from ratiosym.report.style import INK, OTHER, STYLE, WIDTH, save_figure
from ratiosym.runs.files import read_json

_PRUNED: dict[str, Any] = {"color": OTHER, "marker": "x", "markersize": 4, "linestyle": ""}


@dataclass(frozen=True)
class Point:
    """A finished trial with a value."""

    trial: int
    is_complete: bool
    value: float  # for a pruned trial, the mean over its seeds
    params: dict[str, float]


def draw_search(directory: str | os.PathLike[str]) -> list[Path]:
    """Draw all figures of a search to its directory."""
    directory = Path(directory)
    settings = read_json(directory / "search.json")["settings"]
    title, colour = (
        f"{settings['run']['task']} {settings['run']['objective']}",
        get_objective(settings["run"]["objective"]).colour,
    )
    points = read_trials(directory / "trials.csv", list(settings["space"]))
    if not any(point.is_complete for point in points):
        return []
    paths = [directory / "values.png", directory / "hyperparameters.png"]
    values_figure(paths[0], points, title, colour)
    hyperparameters_figure(paths[1], points, settings["space"], title, colour)
    importance = read_json(directory / "importance.json")["main_effects"]
    if importance:
        paths.append(directory / "importance.png")
        importance_figure(paths[-1], importance, title, colour)
    return paths


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the rows of ``trials.csv``."""
    try:
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    except OSError:
        raise InputError(
            f"There is no '{path}': 'ratiosym tune' writes it when a search has ended."
        ) from None


def read_trials(path: Path, names: Sequence[str]) -> list[Point]:
    """Read ``trials.csv``, without trials that have no finished seed."""
    points = []
    for row in read_rows(path):
        seeds = [float(value) for name, value in row.items() if name.startswith("seed-") and value]
        if row["state"] in ("complete", "pruned") and seeds:
            params = {name: float(row[name]) for name in names}
            points.append(
                Point(int(row["trial"]), row["state"] == "complete", float(np.mean(seeds)), params)
            )
    return points


def values_figure(path: Path, points: Sequence[Point], title: str, colour: str) -> Figure:
    """Draw the value of every trial, and the best so far."""
    complete = [p for p in points if p.is_complete]
    pruned = [p for p in points if not p.is_complete]
    numbers, values = np.array([p.trial for p in complete]), np.array([p.value for p in complete])
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
        axis = figure.subplots()
        axis.plot(
            [p.trial for p in pruned],
            [p.value for p in pruned],
            label="pruned (mean of its seeds)",
            **_PRUNED,
        )
        axis.plot(numbers, values, "o", color=colour, markersize=4, label="complete")
        axis.step(
            numbers,
            np.maximum.accumulate(values),
            where="post",
            color=INK,
            linewidth=1.2,
            label="best so far",
        )
        axis.set(title=title, xlabel="trial", ylabel="mean return, last 20%")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=3)
        save_figure(figure, path)
    return figure


def hyperparameters_figure(
    path: Path, points: Sequence[Point], space: dict[str, list[float]], title: str, colour: str
) -> Figure:
    """Draw the trials' values by hyperparameter, with bars at the medians of complete trials."""
    num_columns = 4
    num_rows = -(-len(space) // num_columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.4 + 1.7 * num_rows), layout="constrained")
        axes = figure.subplots(num_rows, num_columns, sharey=True, squeeze=False).flatten()
        for axis, (name, choices) in zip(axes, space.items(), strict=False):
            choices = sorted(choices)
            for point in points:
                # Shift marks slightly by the trial's number, to avoid overlaps.
                x = choices.index(point.params[name]) + 0.3 * ((point.trial * 0.618) % 1 - 0.5)
                style = {"color": colour, "marker": "o", "markersize": 3, "linestyle": ""}
                axis.plot(
                    x, point.value, **(style if point.is_complete else {**_PRUNED, "markersize": 3})
                )
            for i, choice in enumerate(choices):
                values = [p.value for p in points if p.is_complete and p.params[name] == choice]
                if values:
                    axis.hlines(np.median(values), i - 0.35, i + 0.35, color=INK, linewidth=1.2)
            axis.set(
                title=name.replace("_", " "),
                xticks=range(len(choices)),
                xlim=(-0.6, len(choices) - 0.4),
            )
            axis.set_xticklabels([f"{choice:g}" for choice in choices], fontsize=6)
            axis.grid(axis="x", visible=False)
        for axis in axes[len(space) :]:
            axis.set_axis_off()
        figure.supylabel("mean return, last 20%", fontsize=8.5)
        figure.suptitle(title, fontsize=9)
        save_figure(figure, path)
    return figure


def importance_figure(path: Path, importance: dict[str, float], title: str, colour: str) -> Figure:
    """Draw the importance of each hyperparameter."""
    names = sorted(importance, key=lambda name: importance[name])
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.8 + 0.24 * len(names)), layout="constrained")
        axis = figure.subplots()
        bars = axis.barh(
            [name.replace("_", " ") for name in names],
            [importance[name] for name in names],
            color=colour,
        )
        axis.bar_label(bars, fmt="%.2f", padding=3)
        axis.set(
            title=title,
            xlabel="share of what the hyperparameters explain by themselves",
            xlim=(0, 1.12 * max(importance.values())),
        )
        axis.grid(axis="y", visible=False)
        save_figure(figure, path)
    return figure
