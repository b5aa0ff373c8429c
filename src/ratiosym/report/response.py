"""Return against the width of the trust region: which target ratios suit an objective on a task.

The numbers come from searches over the trust region only (``search = "trust-region"`` in a plan),
and from studies in which several labels share an objective with different parameters. On a task,
everything but the objective and its parameters must be equal.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ratiosym.errors import InputError
from ratiosym.objectives import OBJECTIVES, Bounds, get_objective
from ratiosym.report.results import RunResult, StudyResults, load
from ratiosym.report.search import read_rows
from ratiosym.report.statistics import ENOUGH_RUNS, Estimate, generator, mean_estimate
from ratiosym.report.style import (
    OFFSET,
    STYLE,
    WIDTH,
    LineStyle,
    add_legend,
    objective_styles,
    save_figure,
)
from ratiosym.runs.files import read_json

LATE = 0.2  # fraction of the evaluations, at the end, whose mean is a seed's value
MOST_LABELS = 10  # on an axis


@dataclass(frozen=True)
class Region:
    """Returns of an objective on a task with one trust region."""

    task: str
    objective: str
    bounds: Bounds
    seeds: dict[int, float]  # value of each seed
    estimate: Estimate  # mean over seeds

    @property
    def width(self) -> float:
        """ln(upper / lower), which is comparable between objectives.

        Equal factors of a ratio, up or down, count equally.
        """
        return math.log(self.bounds.upper / self.bounds.lower)

    @property
    def words(self) -> str:
        """The two target ratios."""
        return f"{self.bounds.lower:.3g} to {self.bounds.upper:.3g}"


Found = tuple[str, str, dict[str, float], dict[int, float]]  # task, objective, parameters, seeds


def response_of(
    results: StudyResults, searches: Sequence[str | os.PathLike[str]], seed: int
) -> tuple[Region, ...]:
    """Return the regions varied by a study, by the searches in its directories, and by others."""
    found = [*study_values(results)]
    for study in results.studies:
        found += tree_values(study.directory / "tuning")
    for directory in searches:
        found += directory_values(Path(directory))
    return make_regions(found, seed, [algorithm.objective for algorithm in results.algorithms])


def read_response(
    directories: Sequence[str | os.PathLike[str]], seed: int = 0
) -> tuple[Region, ...]:
    """Read the regions of directories of studies, searches or trees of searches."""
    found = [x for d in directories for x in directory_values(Path(d))]
    return make_regions(found, seed, list(OBJECTIVES))


def directory_values(directory: Path) -> list[Found]:
    """Read the values of one directory; raise ``InputError`` if it varies no trust region."""
    if not directory.is_dir():
        raise InputError(f"'{directory}' is not a directory. Name a study or searches.")
    if (directory / "plan.json").exists():
        found = tree_values(directory / "tuning")
        # A study whose searches have ended may have no finished run yet.
        found += study_values(load(directory)) if not found else []
    else:
        found = search_values(directory) or tree_values(directory)
    if not found:
        raise InputError(
            f"'{directory}' varies no trust region. Name the directory of a study in which labels "
            f"share an objective and differ in its parameters alone, or of finished searches with "
            f'search = "trust-region".'
        )
    return found


def study_values(results: StudyResults) -> list[Found]:
    """Return runs on tasks on which an objective has several regions and nothing else varies."""
    found: list[Found] = []
    for task in results.tasks:
        runs = [run for run in results.runs if run.task == task]
        regions = {(run.config.objective, bounds_of(run)) for run in runs}
        is_varied = len(regions) > len({objective for objective, _ in regions})
        if is_varied and len({fixed_settings(run) for run in runs}) == 1:
            found += [
                (
                    task,
                    run.config.objective,
                    run.config.objective_parameters,
                    {run.seed: late_return(run.returns)},
                )
                for run in runs
            ]
    return found


def bounds_of(run: RunResult) -> Bounds:
    """Return the target ratios of a run."""
    return get_objective(run.config.objective).bounds(**run.config.objective_parameters)


def fixed_settings(run: RunResult) -> str:
    """Return all settings except the objective, its parameters and the seed."""
    own = ("objective", "objective_parameters", "seed")
    return str({name: x for name, x in run.config.to_dict().items() if name not in own})


def late_return(returns: Float[np.ndarray, "N"]) -> float:
    """Return the mean return over the last 20% of the evaluations, rounded up.

    The evaluation before training does not count. The value of a seed in a search is defined in the
    same way.
    """
    after = returns[1:] if len(returns) > 1 else returns
    return float(after[-math.ceil(LATE * len(after)) :].mean())


def tree_values(tree: Path) -> list[Found]:
    """Read all searches in TREE/TASK/LABEL."""
    paths = sorted(tree.glob("*/*/search.json"))
    return [found for path in paths for found in search_values(path.parent)]


def search_values(directory: Path) -> list[Found]:
    """Read the complete trials of a search over the trust region only.

    Returns nothing for any other search, or one that has not ended.
    """
    if not all((directory / name).exists() for name in ("search.json", "trials.csv")):
        return []
    settings: Any = read_json(directory / "search.json").get("settings") or {}
    try:
        task, objective = settings["run"]["task"], settings["run"]["objective"]
        searched = set(settings["space"])
    except (KeyError, TypeError):
        raise InputError(f"'{directory / 'search.json'}' is not the record of a search.") from None
    if not searched <= set(get_objective(objective).defaults):
        return []
    return [
        (
            task,
            objective,
            {name: float(row[name]) for name in searched},
            {int(n.removeprefix("seed-")): float(x) for n, x in row.items() if n[:5] == "seed-"},
        )
        for row in read_rows(directory / "trials.csv")
        if row["state"] == "complete"
    ]


def make_regions(
    found: Iterable[Found], seed: int, order: Sequence[str] = ()
) -> tuple[Region, ...]:
    """Group seeds by region, sorted by task, objective and width."""
    values: dict[tuple[str, str, Bounds], dict[int, float]] = {}
    for task, objective, parameters, seeds in found:
        bounds = get_objective(objective).bounds(**parameters)
        known = values.setdefault((task, objective, bounds), {})
        known.update({s: x for s, x in seeds.items() if s not in known})
    regions = []
    for (task, objective, bounds), seeds in values.items():
        what = ("response", task, objective, str(bounds.lower), str(bounds.upper))
        scores = {task: np.array([seeds[s] for s in sorted(seeds)])}
        estimate = mean_estimate(scores, generator(seed, *what))
        regions.append(Region(task, objective, bounds, dict(sorted(seeds.items())), estimate))
    tasks = list(dict.fromkeys(region.task for region in regions))
    objectives = list(dict.fromkeys([*order, *(region.objective for region in regions)]))
    return tuple(
        sorted(regions, key=lambda r: (tasks.index(r.task), objectives.index(r.objective), r.width))
    )


# ------------------------------------------------------------------------------------------- figure


def response_figure(regions: Sequence[Region], *paths: Path) -> Figure:
    """Draw return against log-width, one panel per task and one line per objective.

    Saves the figure to each path. Bars are 95% bootstrap intervals over seeds. Fewer than five
    seeds are also drawn individually. Points are labelled with their target ratios on the axis, or,
    if there are too many, at the best one of each objective.
    """
    if not regions:
        raise InputError("There are no trust regions to draw. Give at least one.")
    tasks = list(dict.fromkeys(region.task for region in regions))
    styles = objective_styles(list(dict.fromkeys(region.objective for region in regions)))
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    with matplotlib.rc_context(STYLE):
        size = (min(WIDTH, 2.6 * columns + 0.8), 2.35 * rows)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis, task in zip(axes.flat, tasks, strict=False):
            _draw_task(axis, [r for r in regions if r.task == task], styles)
            axis.set_title(task, fontsize=8)
        for axis in axes.flat[len(tasks) :]:
            axis.set_axis_off()
        for row in axes:
            row[0].set_ylabel("return, last 20%")
        figure.supxlabel("target ratios, at their log-width ln(upper / lower)", fontsize=8.5)
        add_legend(figure, styles)
        for path in paths:
            save_figure(figure, path)
    return figure


def _draw_task(axis: Axes, regions: Sequence[Region], styles: Mapping[str, LineStyle]) -> None:
    for objective in dict.fromkeys(region.objective for region in regions):
        own = [region for region in regions if region.objective == objective]
        style = styles[objective]
        line = {**style.line(1.2), **({} if is_line(own) else {"linestyle": ""})}
        widths = [region.width for region in own]
        axis.plot(widths, [r.estimate.value for r in own], marker="o", markersize=3, **line)
        for region in own:
            if region.estimate.has_interval:
                ends = (region.estimate.low, region.estimate.high)
                axis.plot([region.width] * 2, ends, color=style.colour, linewidth=1)
            if len(region.seeds) < ENOUGH_RUNS:
                values = list(region.seeds.values())
                places = [region.width] * len(values)
                axis.plot(places, values, "_", color=style.colour, markersize=4)
    axis.set_xscale("log")
    axis.xaxis.set_minor_locator(NullLocator())
    label_regions(axis, regions)


def is_line(regions: Sequence[Region]) -> bool:
    """Whether the regions of an objective are nested, rather than a grid of two parameters.

    In a grid, many regions have about the same width.
    """
    return all(
        a.bounds.lower >= b.bounds.lower and a.bounds.upper <= b.bounds.upper
        for a, b in pairwise(regions)
    )


def label_regions(axis: Axes, regions: Sequence[Region]) -> None:
    """Label the axis with target ratios instead of widths; if there are too many, only the best."""
    by_width = {round(region.width, 3): region for region in regions}
    if len(by_width) <= MOST_LABELS:
        names = [region.words.replace(" to ", "–") for region in by_width.values()]
        axis.set_xticks(list(by_width), names, rotation=50, ha="right", fontsize=6)
        return
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    for objective in dict.fromkeys(region.objective for region in regions):
        own = [region for region in regions if region.objective == objective]
        best = max(own, key=lambda region: region.estimate.value)
        place = (best.width, best.estimate.value)
        axis.annotate(best.words.replace(" to ", "–"), place, (3, 3), fontsize=6, **OFFSET)
