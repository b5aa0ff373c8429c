"""The figures: the three surrogates (the paper's Figure 1), learning curves, ratios over training.

Each function draws one figure, saves it whole or not at all (PNG or PDF, by the suffix) and returns
it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogFormatterSciNotation

from ratiosym.errors import InputError
from ratiosym.objectives import OBJECTIVES, Bounds, Surrogate

Numbers = Float[np.ndarray, "N"]

# One colour for each objective in every figure: the Okabe-Ito palette (grey for its black), which
# is safe for colour-blind eyes. Lines of the ablations are broken as well, so that no figure rests
# on colour alone.
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


class Look(NamedTuple):
    """How one algorithm is drawn, in every figure and on the page."""

    title: str
    colour: str
    dashes: tuple[float, ...]  # lengths in line widths; none for a solid line


def looks(titles: Mapping[str, str]) -> dict[str, Look]:
    """A look for each algorithm; those that are not among the seven take colours that are free,
    broken otherwise.
    """
    free = [colour for name, colour in COLOURS.items() if name not in titles]
    others = [name for name in titles if name not in COLOURS]
    patterns = ((3.0, 1.0), (1.0, 1.0), (6.0, 1.0, 1.0, 1.0, 1.0, 1.0))
    found = {}
    for name, title in titles.items():
        if name in COLOURS:
            found[name] = Look(title, COLOURS[name], _DASHES[name][1] if name in _DASHES else ())
        else:
            index = others.index(name)
            colour = free[index] if index < len(free) else _OTHER
            found[name] = Look(title, colour, patterns[index % len(patterns)])
    return found


_INK = "#333333"
_OFFSET: dict[str, Any] = {"textcoords": "offset points"}

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
    """The paper's Figure 1: each surrogate and its gradient over the ratio, for either sign of the
    advantage.

    All three have the targets 1 − ε and 1 + ε, so that what differs is their geometry.
    """
    bounds = OBJECTIVES["mappo"].bounds(epsilon=epsilon)
    r = np.concatenate(
        [np.geomspace(1e-3, 0.05, 200, endpoint=False), np.linspace(0.05, 2.5, 1000)]
    )
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, 4.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        # MASPO's cost at r = 0 is 1/2ε and its gradient there about 1/ε: high enough to see both.
        axes[0, 0].set(xlim=(0, r[-1]), ylim=(-1.2 / epsilon, 2), ylabel="surrogate $L$")
        axes[1, 0].set(
            ylim=(-1.2 / epsilon, 2 / epsilon), ylabel=r"ratio-gradient $\partial L/\partial r$"
        )
        for column, advantage in enumerate((1.0, -1.0)):
            _draw_objectives(axes[0, column], axes[1, column], r, advantage, bounds)
        _legend(figure, ("mappo", "maspo", "mars"))
        _save(figure, path)
    return figure


def _draw_objectives(top: Any, bottom: Any, r: Numbers, advantage: float, bounds: Bounds) -> None:
    """One column of the figure: values above, gradients below, and what becomes of an outlier."""
    is_up = advantage > 0
    target = bounds.upper if is_up else bounds.lower
    cut_off = (target, r[-1]) if is_up else (0, target)
    for axis in (top, bottom):
        axis.axvspan(*cut_off, color=COLOURS["mappo"], alpha=0.09, linewidth=0)
        axis.axvline(target, color=_INK, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    label = rf"target $1{'+' if is_up else '-'}\epsilon$"
    top.annotate(
        label, (target, 1), (0, 3), xycoords=("data", "axes fraction"), ha="center", **_OFFSET
    )
    top.set_title(rf"$\hat{{A}}={advantage:+.0f}$", loc="left")
    bottom.set_xlabel("probability ratio $r$")
    bottom.axhline(0, color=_INK, linewidth=0.8, zorder=1)

    drawn = {}
    for name in ("mappo", "maspo", "mars"):
        drawn[name] = value, gradient = _value_and_gradient(
            OBJECTIVES[name].surrogate, r, advantage, bounds
        )
        top.plot(r, value, **_line(name))
        top.plot(target, np.interp(target, r, value), "o", color=COLOURS[name], markersize=4)
        bottom.plot(r, gradient, **_line(name))

    text = {name: {"color": COLOURS[name], **_OFFSET} for name in drawn}
    lift, va = (4, "bottom") if is_up else (-4, "top")
    middle = 0.5 * (cut_off[0] + cut_off[1])
    bottom.annotate(
        "MAPPO:\nno gradient", (middle, 0), (0, lift), ha="center", va=va, **text["mappo"]
    )
    at_zero = (0, drawn["maspo"][0][0])
    top.plot(
        *at_zero, "o", color=COLOURS["maspo"], markerfacecolor="white", clip_on=False, zorder=5
    )
    top.annotate("finite", at_zero, (4, -4), va="top", **text["maspo"])
    value, gradient = drawn["mars"]  # both leave the panel: say where to, beside the place
    low, high = 0.9 * top.get_ylim()[0], 0.9 * bottom.get_ylim()[1]
    top.annotate(r"$\to-\infty$", (r[value > low][0], low), (4, -4), **text["mars"])
    bottom.annotate(r"$\to+\infty$", (r[gradient < high][0], high), (4, 0), **text["mars"])


def curves_figure(
    path: str | os.PathLike[str],
    panels: Mapping[str, Mapping[str, Sequence[tuple[Numbers, Numbers]]]],
    title: str = "",
) -> Figure:
    """Learning curves, a panel for each quantity: for each name its seeds' (steps, values), as mean
    and 95% interval.

    Fewer than five seeds are drawn one by one beside their mean: an interval of so few says little.
    Seeds evaluated at different steps are interpolated to the steps of the first, as far as all of
    them reach.
    """
    _refuse_nothing(panels, "panels")
    for curves in panels.values():
        _refuse_nothing(curves, "curves")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(
            figsize=(max(_WIDTH / 2, _WIDTH / 3 * len(panels)), 2.8), layout="constrained"
        )
        for axis, (label, curves) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            for name, seeds in curves.items():
                _draw_seeds(axis, name, seeds)
            axis.set(xlabel="environment steps", ylabel=label)
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        figure.suptitle(title)
        _legend(figure, list(dict.fromkeys(name for curves in panels.values() for name in curves)))
        _save(figure, path)
    return figure


_ENOUGH_SEEDS = 5  # for an interval of their mean


def _draw_seeds(axis: Axes, name: str, seeds: Sequence[tuple[Numbers, Numbers]]) -> None:
    steps, values = _align(seeds)  # [N], [seeds, N]
    mean = values.mean(axis=0)
    axis.plot(steps, mean, **_line(name, linewidth=1.6 if len(seeds) > 1 else 0.8))
    if len(seeds) >= _ENOUGH_SEEDS:
        half = half_interval(values)
        axis.fill_between(steps, mean - half, mean + half, **_band(name, 0.2))
    elif len(seeds) > 1:
        axis.plot(steps, values.T, color=COLOURS.get(name, _OTHER), linewidth=0.6, alpha=0.6)


def ratios_figure(
    path: str | os.PathLike[str], training: Mapping[str, Mapping[str, Numbers]], title: str = ""
) -> Figure:
    """Ratios over training: largest, smallest, the middle 98%, and the share beyond the target.

    For each name the columns ``steps``, ``ratio_min``, ``ratio_max``, ``ratio_q01`` ...
    ``ratio_q99`` and ``beyond_target``. Ratios are drawn no further than 1e-12 and 1e12.
    """
    _refuse_nothing(training, "training records")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, 4.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True)
        largest, smallest, middle, share = axes.flat
        for name, columns in training.items():
            steps, line = columns["steps"], _line(name, linewidth=1.2)
            low, high, q01, q99 = (
                np.clip(columns[f"ratio_{key}"], 1e-12, 1e12)
                for key in ("min", "max", "q01", "q99")
            )
            largest.plot(steps, high, **line)
            smallest.plot(steps, low, **line)
            middle.plot(steps, q01, **line)
            middle.plot(steps, q99, **line)
            middle.fill_between(steps, q01, q99, **_band(name, 0.12))
            share.plot(steps, columns["beyond_target"], **line)
        for axis in (largest, smallest, middle):
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(_PlainLogFormatter())
            axis.yaxis.set_minor_formatter(_PlainLogFormatter())
            axis.axhline(1, color=_INK, linewidth=0.8, zorder=1)
        largest.set_title("largest ratio")
        smallest.set_title("smallest ratio")
        middle.set_title("1% to 99% of the ratios")
        share.set(title="share beyond the target", ylim=(0, None))
        share.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
        for axis in axes[1]:
            axis.set_xlabel("environment steps")
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        figure.suptitle(title)
        _legend(figure, list(training))
        _save(figure, path)
    return figure


class _PlainLogFormatter(LogFormatterSciNotation):
    """Labels where a logarithmic axis wants them, and 1.02 rather than 1.02 × 10⁰."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        label = super().__call__(x, pos)
        return f"{x:g}" if label and 1e-2 <= x <= 1e2 else label


def half_interval(values: Float[np.ndarray, "seeds N"]) -> Numbers:
    """Half the width of the 95% confidence interval of the mean over seeds (Student's t, n − 1
    degrees).
    """
    num_seeds = len(values)
    degrees = num_seeds - 1
    if degrees <= len(_T_975):
        t = _T_975[degrees - 1]
    else:
        t = 1.95996 + 2.37227 / degrees + 2.82250 / degrees**2  # its expansion for many degrees
    return t * values.std(axis=0, ddof=1) / np.sqrt(num_seeds)


# The 97.5% point of Student's t for 1, 2, ... 10 degrees of freedom.
_T_975 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


def _align(
    seeds: Sequence[tuple[Numbers, Numbers]],
) -> tuple[Numbers, Float[np.ndarray, "seeds N"]]:
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


def _line(name: str, linewidth: float = 1.6) -> dict[str, Any]:
    return {
        "color": COLOURS.get(name, _OTHER),
        "linestyle": _DASHES.get(name, "-"),
        "linewidth": linewidth,
        "label": OBJECTIVES[name].title if name in OBJECTIVES else name,
    }


def _band(name: str, alpha: float) -> dict[str, Any]:
    return {"color": COLOURS.get(name, _OTHER), "alpha": alpha, "linewidth": 0}


def _legend(figure: Figure, names: Sequence[str]) -> None:
    """One legend under all panels, and the height it takes."""
    width, height = figure.get_size_inches()
    num_columns = min(len(names), int(width / 1.7))
    num_rows = -(-len(names) // num_columns)
    figure.set_size_inches(width, height + 0.17 * num_rows)
    handles = [Line2D([], [], **_line(name)) for name in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=num_columns)


def _refuse_nothing(data: Mapping[str, Any], what: str) -> None:
    empty = [name for name, value in data.items() if len(value) == 0]
    if not data or empty:
        whose = f" for {', '.join(empty)}" if empty else ""
        raise InputError(f"There are no {what} to draw{whose}. Give at least one for each name.")


def _save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write beside the place, then move there: a reader finds the old figure or the new one, never
    a part.
    """
    path = Path(path)
    if path.suffix not in (".png", ".pdf"):
        raise InputError(
            f"A figure is saved as .png or .pdf, not as '{path.suffix}' ({path}). Change the "
            f"suffix."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        # A PDF without its date: the same numbers give the same bytes.
        figure.savefig(
            unfinished, dpi=200, metadata={"CreationDate": None} if path.suffix == ".pdf" else None
        )
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
