"""The figures: the three surrogates (the paper's Figure 1), learning curves, ratios over training.

Each function draws one figure, saves it whole or not at all (PNG or PDF, by the suffix) and returns it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, PercentFormatter

from ratiosym.objectives import OBJECTIVES, Bounds, Surrogate

Numbers = Float[np.ndarray, "N"]

# One colour for each objective in every figure: the Okabe-Ito palette, told apart with any colour vision.
# Lines of the ablations are broken as well, so that no figure rests on colour alone.
COLOURS: dict[str, str] = {
    "mars": "#D55E00",
    "mappo": "#0072B2",
    "maspo": "#009E73",
    "mappo-asymmetric": "#56B4E9",
    "maspo-asymmetric": "#4D4D4D",
    "mars-multiplicative": "#CC79A7",
    "mars-additive": "#E69F00",
}
_DASHES: dict[str, Any] = {
    "mappo-asymmetric": (0, (4, 1.5)),
    "maspo-asymmetric": (0, (4, 1.5)),
    "mars-multiplicative": (0, (5, 1, 1, 1)),
    "mars-additive": (0, (1.5, 1)),
}
_OTHER = "#999999"  # anything that is not one of the seven
_INK = "#333333"
_OFFSET: dict[str, Any] = {
    "xycoords": ("data", "axes fraction"),
    "textcoords": "offset points",
    "fontsize": 7.5,
}

_STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,  # text stays text
}
_WIDTH = 7.0  # inches, a paper's text


def objectives_figure(path: str | os.PathLike[str], epsilon: float = 0.2) -> Figure:
    """The paper's Figure 1: each surrogate and its gradient over the ratio, for either sign of the advantage.

    All three have the targets 1 − ε and 1 + ε, so that what differs is their geometry.
    """
    bounds = OBJECTIVES["mappo"].bounds(epsilon=epsilon)
    r = np.concatenate([np.geomspace(1e-3, 0.05, 200, endpoint=False), np.linspace(0.05, 2.5, 1000)])
    shown = ("mappo", "maspo", "mars")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, 4.8), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for column, (advantage, target) in enumerate(((1.0, bounds.upper), (-1.0, bounds.lower))):
            top, bottom = axes[:, column]
            for name in shown:
                value, gradient = _value_and_gradient(OBJECTIVES[name].surrogate, r, advantage, bounds)
                top.plot(r, value, **_line(name))
                top.plot(target, np.interp(target, r, value), "o", color=COLOURS[name], markersize=4)
                bottom.plot(r, gradient, **_line(name))
            for axis in (top, bottom):
                cut_off = (target, r[-1]) if advantage > 0 else (0, target)
                axis.axvspan(*cut_off, color=COLOURS["mappo"], alpha=0.09, linewidth=0)
                axis.axvline(target, color=_INK, linewidth=0.8, linestyle=(0, (2, 2)))
                sign = "+" if advantage > 0 else "−"
                axis.annotate(
                    f"target $1{sign}\\epsilon$", (target, 1), (3, -3), **_OFFSET, va="top", ha="left"
                )
            top.set_title(f"$\\hat{{A}}={advantage:+.0f}$")
            bottom.axhline(0, color=_INK, linewidth=0.8)
            bottom.set_xlabel("probability ratio $r$")
        axes[0, 0].set(xlim=(0, r[-1]), ylim=(-6, 2), ylabel="surrogate $L$")
        axes[1, 0].set(ylim=(-6, 10), ylabel=r"ratio-gradient $\partial L/\partial r$")
        _legend(figure, shown)
        _save(figure, path)
    return figure


def curves_figure(
    path: str | os.PathLike[str],
    curves: Mapping[str, Sequence[tuple[Numbers, Numbers]]],
    ylabel: str = "evaluation return",
    title: str = "",
) -> Figure:
    """Learning curves: for each name the (steps, values) of its seeds, drawn as their mean and its 95% interval.

    One seed is a thin line and has no interval. Seeds evaluated at different steps are interpolated to the
    steps of the first, as far as all of them reach.
    """
    _refuse_nothing(curves, "curves")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH / 2, 2.8), layout="constrained")
        axis = figure.subplots()
        for name, seeds in curves.items():
            steps, values = _align(seeds)  # [N], [seeds, N]
            mean = values.mean(axis=0)
            axis.plot(steps, mean, **_line(name, linewidth=1.6 if len(seeds) > 1 else 0.8))
            if len(seeds) > 1:
                half = half_interval(values)
                axis.fill_between(
                    steps, mean - half, mean + half, color=_colour(name), alpha=0.2, linewidth=0
                )
        axis.set(xlabel="environment steps", ylabel=ylabel, title=title)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        _legend(figure, list(curves))
        _save(figure, path)
    return figure


def ratios_figure(
    path: str | os.PathLike[str], training: Mapping[str, Mapping[str, Numbers]], title: str = ""
) -> Figure:
    """Ratios over training: largest, smallest, the middle 98%, and the share beyond the target.

    For each name the columns ``steps``, ``ratio_min``, ``ratio_max``, ``ratio_q01`` ... ``ratio_q99`` and
    ``beyond_target``. Ratios are drawn no further than 1e-12 and 1e12.
    """
    _refuse_nothing(training, "training records")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, 4.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True)
        largest, smallest, middle, share = axes.flat
        for name, columns in training.items():
            steps = columns["steps"]
            ratio = {
                key: np.clip(columns[f"ratio_{key}"], 1e-12, 1e12)
                for key in ("min", "max", "q01", "q50", "q99")
            }
            largest.plot(steps, ratio["max"], **_line(name, linewidth=1.2))
            smallest.plot(steps, ratio["min"], **_line(name, linewidth=1.2))
            middle.fill_between(
                steps, ratio["q01"], ratio["q99"], color=_colour(name), alpha=0.12, linewidth=0
            )
            for key in ("q01", "q99"):
                middle.plot(steps, ratio[key], **_line(name, linewidth=1.0))
            share.plot(steps, columns["beyond_target"], **_line(name, linewidth=1.2))
        for axis, label in (
            (largest, "largest ratio"),
            (smallest, "smallest ratio"),
            (middle, "1% to 99% of ratios"),
        ):
            axis.set_yscale("log")
            axis.axhline(1, color=_INK, linewidth=0.8)
            axis.set_title(label)
        share.set(title="share beyond target", ylim=(0, None))
        share.yaxis.set_major_formatter(PercentFormatter(1.0))
        for axis in axes[1]:
            axis.set_xlabel("environment steps")
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        figure.suptitle(title)
        _legend(figure, list(training))
        _save(figure, path)
    return figure


def half_interval(values: Float[np.ndarray, "seeds N"]) -> Numbers:
    """Half the width of the 95% confidence interval of the mean over seeds (Student's t, n − 1 degrees)."""
    num_seeds = len(values)
    degrees = num_seeds - 1
    if degrees <= len(_T_975):
        t = _T_975[degrees - 1]
    else:
        t = 1.95996 + 2.37227 / degrees + 2.82250 / degrees**2  # its expansion for many degrees
    return t * values.std(axis=0, ddof=1) / np.sqrt(num_seeds)


# The 97.5% point of Student's t for 1, 2, ... 10 degrees of freedom.
_T_975 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


def _align(seeds: Sequence[tuple[Numbers, Numbers]]) -> tuple[Numbers, Float[np.ndarray, "seeds N"]]:
    """Common steps and one row of values for each seed."""
    start = max(steps[0] for steps, _ in seeds)
    end = min(steps[-1] for steps, _ in seeds)
    common = np.asarray(seeds[0][0])
    common = common[(common >= start) & (common <= end)]
    return common, np.stack([np.interp(common, steps, values) for steps, values in seeds])


def _value_and_gradient(
    surrogate: Surrogate, r: Numbers, advantage: float, bounds: Bounds
) -> tuple[Numbers, Numbers]:
    """L and ∂L/∂r of the very function that is trained with: ∂L/∂r = (∂L/∂u) / r."""
    u, A = jnp.log(r), jnp.full(len(r), advantage)
    gradient = jax.grad(lambda u: surrogate(u, A, bounds).sum())(u)
    return np.asarray(surrogate(u, A, bounds)), np.asarray(gradient) / r


def _colour(name: str) -> str:
    return COLOURS.get(name, _OTHER)


def _line(name: str, linewidth: float = 1.6) -> dict[str, Any]:
    title = OBJECTIVES[name].title if name in OBJECTIVES else name
    return {
        "color": _colour(name),
        "linestyle": _DASHES.get(name, "-"),
        "linewidth": linewidth,
        "label": title,
    }


def _legend(figure: Figure, names: Sequence[str]) -> None:
    handles = [Line2D([], [], **_line(name)) for name in names]
    width, _ = figure.get_size_inches()
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(names), int(width / 1.7)))


def _refuse_nothing(data: Mapping[str, Any], what: str) -> None:
    empty = [name for name, value in data.items() if len(value) == 0]
    if not data or empty:
        whose = f" for {', '.join(empty)}" if empty else ""
        raise ValueError(
            f"There are no {what} to draw{whose}: give at least one for each name, or leave the name out."
        )


def _save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write beside the place, then move there: a reader finds the old figure or the new one, never a part."""
    path = Path(path)
    if path.suffix not in (".png", ".pdf"):
        raise ValueError(
            f"A figure is saved as .png or .pdf, not as '{path.suffix}' ({path}). Change the suffix."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        figure.savefig(unfinished, dpi=200)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
