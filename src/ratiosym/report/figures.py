"""Figures of the three surrogates (the paper's Figure 1), learning curves and ratios.

Each function draws one figure, saves it atomically (PNG or PDF, by suffix) and returns it.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from ratiosym.errors import InputError
from ratiosym.objectives import OBJECTIVES, Bounds, Surrogate
from ratiosym.report.statistics import ENOUGH_RUNS, mean_curve
from ratiosym.report.style import (
    INK,
    OFFSET,
    STYLE,
    WIDTH,
    LineStyle,
    PlainLogFormatter,
    add_legend,
    objective_styles,
    save_figure,
)

Numbers = Float[np.ndarray, "N"]
Column = Float[np.ndarray, "_"]  # of a table; runs may have different numbers of rows
Curve = tuple[Column, Column]  # steps and values
MAIN = ("mappo", "maspo", "mars")  # the paper's three


def objectives_figure(path: str | os.PathLike[str], epsilon: float = 0.2) -> Figure:
    """Draw the paper's Figure 1: each surrogate and its gradient over the ratio, for both signs.

    All three have the targets 1 − ε and 1 + ε, so they only differ in their geometry.
    """
    bounds = OBJECTIVES["mappo"].bounds(epsilon=epsilon)
    r = np.concatenate(
        [np.geomspace(1e-3, 0.05, 200, endpoint=False), np.linspace(0.05, 2.5, 1000)]
    )
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        # At r = 0, MASPO's penalty is 1/2ε and its gradient about 1/ε; the limits show both.
        axes[0, 0].set(xlim=(0, r[-1]), ylim=(-1.2 / epsilon, 2), ylabel="surrogate $L$")
        axes[1, 0].set(
            ylim=(-1.2 / epsilon, 2 / epsilon), ylabel=r"ratio-gradient $\partial L/\partial r$"
        )
        for column, advantage in enumerate((1.0, -1.0)):
            _draw_objectives(axes[0, column], axes[1, column], r, advantage, bounds)
        add_legend(figure, objective_styles(MAIN), "lower")
        save_figure(figure, path)
    return figure


def _draw_objectives(top: Any, bottom: Any, r: Numbers, advantage: float, bounds: Bounds) -> None:
    """Draw one column of the figure: values above, gradients below, and notes on outliers."""
    is_up = advantage > 0
    target = bounds.upper if is_up else bounds.lower
    cut_off = (target, r[-1]) if is_up else (0, target)
    for axis in (top, bottom):
        axis.axvspan(*cut_off, color=OBJECTIVES["mappo"].colour, alpha=0.09, linewidth=0)
        axis.axvline(target, color=INK, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    label = rf"target $1{'+' if is_up else '-'}\epsilon$"
    top.annotate(
        label, (target, 1), (0, 3), xycoords=("data", "axes fraction"), ha="center", **OFFSET
    )
    top.set_title(rf"$\hat{{A}}={advantage:+.0f}$", loc="left")
    bottom.set_xlabel("probability ratio $r$")
    bottom.axhline(0, color=INK, linewidth=0.8, zorder=1)

    styles, drawn = objective_styles(MAIN), {}
    for name in MAIN:
        drawn[name] = value, gradient = _value_and_gradient(
            OBJECTIVES[name].surrogate, r, advantage, bounds
        )
        top.plot(r, value, **styles[name].line())
        top.plot(
            target, np.interp(target, r, value), "o", color=OBJECTIVES[name].colour, markersize=4
        )
        bottom.plot(r, gradient, **styles[name].line())

    text = {name: {"color": OBJECTIVES[name].colour, **OFFSET} for name in drawn}
    lift, va = (4, "bottom") if is_up else (-4, "top")
    middle = 0.5 * (cut_off[0] + cut_off[1])
    bottom.annotate(
        "MAPPO:\nno gradient", (middle, 0), (0, lift), ha="center", va=va, **text["mappo"]
    )
    at_zero = (0, drawn["maspo"][0][0])
    top.plot(
        *at_zero,
        "o",
        color=OBJECTIVES["maspo"].colour,
        markerfacecolor="white",
        clip_on=False,
        zorder=5,
    )
    top.annotate("finite", at_zero, (4, -4), va="top", **text["maspo"])
    value, gradient = drawn["mars"]  # both leave the panel: annotate where
    low, high = 0.9 * top.get_ylim()[0], 0.9 * bottom.get_ylim()[1]
    top.annotate(r"$\to-\infty$", (r[value > low][0], low), (4, -4), **text["mars"])
    bottom.annotate(r"$\to+\infty$", (r[gradient < high][0], high), (4, 0), **text["mars"])


def curves_figure(
    path: str | os.PathLike[str],
    panels: Mapping[str, Mapping[str, Sequence[Curve]]],
    title: str = "",
) -> Figure:
    """Draw learning curves, one panel per quantity, as mean and 95% bootstrap interval.

    Each name has one (steps, values) pair per seed. Fewer than five seeds are also drawn
    individually, as an interval of so few says little. Seeds evaluated at different steps are
    interpolated to the steps of the first, up to the shortest run.
    """
    _refuse_nothing(panels, "panels")
    for curves in panels.values():
        _refuse_nothing(curves, "curves")
    styles = objective_styles([name for curves in panels.values() for name in curves])
    with matplotlib.rc_context(STYLE):
        width = max(WIDTH / 2, WIDTH / 3 * len(panels))
        figure = Figure(figsize=(width, 2.8), layout="constrained")
        for axis, (label, curves) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            for name, seeds in curves.items():
                _draw_seeds(axis, styles[name], seeds)
            axis.set(xlabel="environment steps", ylabel=label)
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        figure.suptitle(title)
        add_legend(figure, styles, "lower")
        save_figure(figure, path)
    return figure


def _draw_seeds(axis: Axes, style: LineStyle, seeds: Sequence[Curve]) -> None:
    steps, values = _align(seeds)  # [N], [seeds, N]
    axis.plot(steps, values.mean(axis=0), **style.line(1.6 if len(seeds) > 1 else 0.8))
    if len(seeds) >= ENOUGH_RUNS:
        curve = mean_curve({"": values}, np.random.default_rng(0))
        axis.fill_between(steps, curve.low, curve.high, **style.band(0.2))
    elif len(seeds) > 1:
        axis.plot(steps, values.T, color=style.colour, linewidth=0.6, alpha=0.6)


def ratios_figure(
    path: str | os.PathLike[str], training: Mapping[str, Mapping[str, Column]], title: str = ""
) -> Figure:
    """Draw ratios over training: largest, smallest, the middle 98%, and the fraction beyond target.

    Each name has the columns ``steps``, ``ratio_min``, ``ratio_max``, ``ratio_q01`` ...
    ``ratio_q99`` and ``beyond_target``. Ratios are clipped to 1e-12 and 1e12.
    """
    _refuse_nothing(training, "training records")
    styles = objective_styles(training)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True)
        largest, smallest, middle, share = axes.flat
        for name, columns in training.items():
            steps, line = columns["steps"], styles[name].line(1.2)
            low, high, q01, q99 = (
                np.clip(columns[f"ratio_{key}"], 1e-12, 1e12)
                for key in ("min", "max", "q01", "q99")
            )
            largest.plot(steps, high, **line)
            smallest.plot(steps, low, **line)
            middle.plot(steps, q01, **line)
            middle.plot(steps, q99, **line)
            middle.fill_between(steps, q01, q99, **styles[name].band(0.12))
            share.plot(steps, columns["beyond_target"], **line)
        for axis in (largest, smallest, middle):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(PlainLogFormatter())
            axis.yaxis.set_minor_formatter(PlainLogFormatter())
            axis.axhline(1, color=INK, linewidth=0.8, zorder=1)
        largest.set_title("largest ratio")
        smallest.set_title("smallest ratio")
        middle.set_title("1% to 99% of the ratios")
        share.set(title="fraction beyond the target", ylim=(0, None))
        share.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
        for axis in axes[1]:
            axis.set_xlabel("environment steps")
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        figure.suptitle(title)
        add_legend(figure, styles, "lower")
        save_figure(figure, path)
    return figure


def _align(seeds: Sequence[Curve]) -> tuple[Numbers, Float[np.ndarray, "seeds N"]]:
    """Return common steps and one row of values per seed."""
    start = max(steps[0] for steps, _ in seeds)
    end = min(steps[-1] for steps, _ in seeds)
    common = np.asarray(seeds[0][0])
    common = common[(common >= start) & (common <= end)]
    return common, np.stack([np.interp(common, steps, values) for steps, values in seeds])


def _value_and_gradient(
    surrogate: Surrogate, r: Numbers, advantage: float, bounds: Bounds
) -> tuple[Numbers, Numbers]:
    """Return L and ∂L/∂r = (∂L/∂u) / r of the function used in training."""
    import jax
    import jax.numpy as jnp

    u, A = jnp.log(r), jnp.full(len(r), advantage)
    gradient = jax.grad(lambda u: surrogate(u, A, bounds).sum())(u)
    return np.asarray(surrogate(u, A, bounds)), np.asarray(gradient) / r


def _refuse_nothing(data: Mapping[str, Any], what: str) -> None:
    empty = [name for name, value in data.items() if len(value) == 0]
    if not data or empty:
        whose = f" for {', '.join(empty)}" if empty else ""
        raise InputError(f"There are no {what} to draw{whose}. Pass at least one for each name.")
