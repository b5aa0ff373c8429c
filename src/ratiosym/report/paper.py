"""The paper's figures for a study: Figures 2 and 3, curves of every task, performance profiles.

Each function draws one figure, saves it as PNG and PDF, and returns it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, NullLocator

from ratiosym.report.analysis import THRESHOLDS, Analysis, Series, SuiteNumbers, TaskNumbers
from ratiosym.report.response import response_figure
from ratiosym.report.statistics import Curve, normalise
from ratiosym.report.style import (
    INK,
    STYLE,
    WIDTH,
    LineStyle,
    PlainLogFormatter,
    add_legend,
    line_styles,
    save_figure,
)

ABLATION_TASKS = ("aerojax-8v8", "jaxnav-11x11x4a")  # of the paper's Figure 3
SUFFIXES = (".png", ".pdf")


def draw_paper(analysis: Analysis, directory: Path) -> list[Path]:
    """Draw all figures of a study to a directory."""
    drawn = {"figure3": ablation_figure, "tasks": tasks_figure}
    if _compared(analysis):
        drawn = {"figure2": suites_figure, **drawn}
    if analysis.profile:
        drawn["profiles"] = profiles_figure
    if analysis.response:
        drawn["response"] = _draw_response
    paths = []
    for name, draw in drawn.items():
        draw(analysis, directory / name)
        paths += [directory / f"{name}{suffix}" for suffix in SUFFIXES]
    return paths


def _draw_response(analysis: Analysis, stem: Path) -> Figure:
    paths = [stem.with_name(stem.name + suffix) for suffix in SUFFIXES]
    return response_figure(analysis.response, *paths)


def _compared(analysis: Analysis) -> list[SuiteNumbers]:
    return [suite for suite in analysis.suites.values() if suite.tasks]


def suites_figure(analysis: Analysis, stem: Path) -> Figure:
    """Draw the paper's Figure 2: normalised returns by suite, and probability of improvement."""
    suites, style = _compared(analysis), line_styles(analysis.titles)
    columns = min(4, len(suites))
    rows = -(-len(suites) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(
            figsize=(min(WIDTH, 2.4 * columns + 0.4), 1.75 * rows), layout="constrained"
        )
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for axis, suite, letter in zip(axes.flat, suites, "abcdefghijklmnop", strict=False):
            _draw_curves(axis, suite.returns, style)
            axis.set_title(f"({letter}) {suite.title}", fontsize=8)
            _normalised(axis)
            if suite.improvement:
                _draw_improvement(axis, suite, style, analysis.titles[analysis.reference])
        _finish(figure, axes, len(suites), style, "normalised return")
        _save_both(figure, stem)
    return figure


def _draw_improvement(
    axis: Axes, suite: SuiteNumbers, style: Mapping[str, LineStyle], reference: str
) -> None:
    """Draw the inset of P(reference > other) with intervals, where the curves leave room."""
    num = len(suite.improvement)
    titles = [style[label].title for label in suite.improvement]
    is_short = max(map(len, titles)) <= 8  # longer ones do not fit; line and colour identify them
    width, height = 0.37, min(0.42, 0.09 + 0.06 * num)
    corners = ((0.6, 0.13), (0.26 if is_short else 0.06, 0.88 - height))  # lower right, upper left
    boxes = [(*corner, width, height) for corner in corners]
    inset = axis.inset_axes(min(boxes, key=lambda box: _crowd(suite, box)), zorder=6)
    inset.patch.set_alpha(0.85)
    inset.axvline(0.5, color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    for place, (label, found) in enumerate(suite.improvement.items()):
        if found.has_interval:
            inset.plot((found.low, found.high), (place, place), **style[label].line(1.2))
        inset.plot(found.value, place, "o", color=style[label].colour, markersize=2.5)
    inset.set(xlim=(-0.03, 1.03), ylim=(num - 0.5, -0.5))
    inset.set_yticks(range(num) if is_short else [], titles if is_short else [], fontsize=5)
    inset.set_xticks((0, 0.5, 1), ("0", "0.5", "1"), fontsize=5)
    inset.tick_params(length=1.5, width=0.5, pad=1)
    inset.set_title(f"P({reference} better)", fontsize=5, pad=1.5)
    inset.grid(visible=False)


def _crowd(suite: SuiteNumbers, box: tuple[float, ...]) -> int:
    """Count the points of curves under an inset (in panel coordinates) and its labels."""
    left, bottom, width, height = box
    num = 0
    for steps, curve in suite.returns.values():
        x = (steps - steps[0]) / max(1.0, steps[-1] - steps[0])
        y = curve.value
        num += int(
            (
                (x > left - 0.1)
                & (x < left + width)
                & (y > bottom - 0.1)
                & (y < bottom + height + 0.1)
            ).sum()
        )
    return num


def tasks_figure(analysis: Analysis, stem: Path) -> Figure:
    """Draw the normalised returns of every task (the paper's Appendix F)."""
    tasks, style = list(analysis.tasks.values()), line_styles(analysis.titles)
    columns = min(5, len(tasks))
    rows = -(-len(tasks) // columns)
    with matplotlib.rc_context({**STYLE, "font.size": 6, "axes.labelsize": 6.5}):
        figure = Figure(figsize=(min(WIDTH, 2.0 * columns + 0.4), 1.2 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for axis, task in zip(axes.flat, tasks, strict=False):
            _draw_curves(axis, normalised(task), style, linewidth=1.0)
            axis.set_title(task.name, fontsize=6.5, pad=3)
            _normalised(axis)
            axis.tick_params(length=2, pad=1.5)
        _finish(figure, axes, len(tasks), style, "normalised return")
        _save_both(figure, stem)
    return figure


def ablation_figure(analysis: Analysis, stem: Path) -> Figure:
    """Draw the paper's Figure 3: returns, largest and smallest ratios.

    It shows the paper's two tasks if the study has them, else its first two.
    """
    names = [name for name in ABLATION_TASKS if name in analysis.tasks] or list(analysis.tasks)[:2]
    style = line_styles(analysis.titles)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 1.9 * len(names)), layout="constrained")
        axes = figure.subplots(len(names), 3, squeeze=False)
        for row, name in zip(axes, names, strict=True):
            task = analysis.tasks[name]
            for axis, title, curves in zip(
                row,
                ("returns", "max ratios", "min ratios"),
                (task.returns, task.ratios["ratio_max"], task.ratios["ratio_min"]),
                strict=True,
            ):
                _draw_curves(axis, curves, style, linewidth=1.2)
                axis.set_title(f"{name}: {title}", fontsize=8)
                if title != "returns":
                    axis.set_yscale("log")
                    axis.yaxis.set_major_formatter(PlainLogFormatter())
                    axis.yaxis.set_minor_formatter(PlainLogFormatter())
                    axis.axhline(1, color=INK, linewidth=0.8, zorder=1)
            row[0].set_ylabel("evaluation return")
        _finish(figure, axes, axes.size, style)
        _save_both(figure, stem)
    return figure


def profiles_figure(analysis: Analysis, stem: Path) -> Figure:
    """Draw performance profiles: the fraction of runs above each score, over all tasks."""
    style = line_styles(analysis.titles)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH / 2, 2.4), layout="constrained")
        axes = figure.subplots(1, 1, squeeze=False)
        curves = {label: Series(THRESHOLDS, curve) for label, curve in analysis.profile.items()}
        _draw_curves(axes[0, 0], curves, style)
        axes[0, 0].set(
            xlabel="normalised score",
            ylabel="share of runs above it",
            xlim=(0, 1),
            ylim=(-0.02, 1.02),
        )
        add_legend(figure, style)
        _save_both(figure, stem)
    return figure


def normalised(task: TaskNumbers) -> dict[str, Series]:
    """Normalise a task's returns between the smallest and the largest."""
    return {
        label: Series(steps, Curve(*(normalise(x, task.low, task.high) for x in curve)))
        for label, (steps, curve) in task.returns.items()
    }


def _draw_curves(
    axis: Axes, curves: Mapping[str, Series], style: Mapping[str, LineStyle], linewidth: float = 1.4
) -> None:
    for label, (steps, curve) in curves.items():
        axis.plot(steps, curve.value, **style[label].line(linewidth))
        if np.isfinite(curve.low).all():
            axis.fill_between(steps, curve.low, curve.high, **style[label].band())


def _normalised(axis: Axes) -> None:
    axis.set(ylim=(-0.03, 1.03), yticks=(0, 0.5, 1))


def _finish(
    figure: Figure, axes: Any, num: int, style: Mapping[str, LineStyle], label: str | None = None
) -> None:
    """Add step axes, outer labels and the legend, and remove unused panels."""
    columns = axes.shape[1]
    for index, axis in enumerate(axes.flat):
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 4, 5, 10]))
        axis.xaxis.set_minor_locator(NullLocator())
        if index >= num:
            axis.set_axis_off()
        if index + columns >= num and index < num:
            axis.set_xlabel("environment steps")
    if label:
        for row in axes:
            row[0].set_ylabel(label)
    add_legend(figure, style)


def _save_both(figure: Figure, stem: Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    for suffix in suffixes:
        save_figure(figure, stem.with_name(stem.name + suffix))
