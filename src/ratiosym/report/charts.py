"""The charts of the page, and the data from which the script draws them."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from ratiosym.report.analysis import THRESHOLDS, Analysis, Series
from ratiosym.report.response import Region
from ratiosym.report.style import LineStyle, objective_styles

METRICS = {"normalised": "normalised return", "return": "return"}
RATIO_TITLES = {"ratio_max": "largest ratio", "ratio_min": "smallest ratio"}
SECTIONS = {
    "suite": (
        "Curves by environment",
        "Normalised return, mean over tasks and runs; the bands are 95% stratified bootstrap "
        "intervals.",
    ),
    "profile": (
        "Performance profile",
        "The share of runs, mean over all tasks, whose normalised absolute metric is above a "
        "score; the bands are 95% stratified bootstrap intervals.",
    ),
    "task": (
        "Curves and ratios by task",
        "Mean over runs and 95% bootstrap intervals. Ratios: the largest and the smallest among "
        "all samples, the extreme of each stretch of training, geometric mean over runs.",
    ),
    "response": (
        "Which trust region?",
        "Return (mean over the last 20% of the evaluations) against the width of the trust "
        "region, ln(upper / lower) of its two target ratios, on a logarithmic axis. Bars: 95% "
        "bootstrap intervals over seeds.",
    ),
}


def list_charts(analysis: Analysis) -> list[dict[str, Any]]:
    """List all charts in the order of the page, with their curves."""
    charts: list[dict[str, Any]] = [
        {
            "kind": "suite",
            "title": suite.title,
            "suite": suite.name,
            "lines": {"normalised": suite.returns},
        }
        for suite in analysis.suites.values()
        if suite.returns
    ]
    for task in analysis.tasks.values():
        whose = {"suite": task.suite, "low": task.low, "high": task.high}
        own = {"return": task.returns}
        charts.append({"kind": "task", "title": task.name, "lines": own, **whose})
        for name, what in RATIO_TITLES.items():
            title, own = f"{task.name}: {what}", {name: task.ratios[name]}
            charts.append({"kind": "ratio", "title": title, "lines": own, **whose})
    for name in dict.fromkeys(region.task for region in analysis.response):
        regions = [region for region in analysis.response if region.task == name]
        suite = analysis.tasks[name].suite if name in analysis.tasks else ""
        charts.append({"kind": "response", "title": name, "suite": suite, "regions": regions})
    if analysis.profile:
        profile = {label: Series(THRESHOLDS, curve) for label, curve in analysis.profile.items()}
        charts.append(
            {"kind": "profile", "title": "All tasks", "suite": "", "lines": {"normalised": profile}}
        )
    return charts


# -------------------------------------------------------------------------------------- in the page


def charts_section(analysis: Analysis, kind: str) -> str:
    """Return the placeholders for the charts of one kind, which the script fills."""
    kinds = ("task", "ratio") if kind == "task" else (kind,)
    charts = [
        (index, chart)
        for index, chart in enumerate(list_charts(analysis))
        if chart["kind"] in kinds
    ]
    if not charts:
        return ""
    title, about = SECTIONS[kind]
    figures = "\n".join(
        f'<figure data-chart="{index}"{suite_of(chart)}>'
        f"<figcaption>{escape(chart['title'])}</figcaption></figure>"
        for index, chart in charts
    )
    layout = " triples" if kind == "task" else ""
    return (
        f'<h2>{title}</h2>\n<p class="about">{about}</p>\n{choice(kind)}'
        f'<div class="charts{layout}">\n{figures}\n</div>\n'
    )


def choice(kind: str) -> str:
    """Return the controls above the charts of a kind."""
    if kind == "response":
        return '<p class="choose" id="objectives"></p>\n'  # the script writes a legend
    if kind != "task":
        return ""
    options = "".join(f'<option value="{name}">{text}</option>' for name, text in METRICS.items())
    return (
        '<p class="choose"><label for="metric">Show</label>'
        f'<select id="metric">{options}</select></p>\n'
    )


def suite_of(chart: Mapping[str, Any]) -> str:
    """Return the attribute by which a chart is filtered."""
    return f' data-suite="{escape(chart["suite"])}"' if chart["suite"] else ""


# ---------------------------------------------------------------------------------- for the script


def page_data(analysis: Analysis, style: Mapping[str, LineStyle]) -> dict[str, Any]:
    """Return the data for the script. Steps are stored once and referenced by curves."""
    grids: dict[tuple[float, ...], int] = {}

    def line(series: Series) -> dict[str, Any]:
        x = grids.setdefault(tuple(series.steps.tolist()), len(grids))
        low_high = {"low": series.curve.low, "high": series.curve.high}
        found = {k: digits(v) for k, v in low_high.items() if len(v) and np.isfinite(v).all()}
        return {"x": x, "y": digits(series.curve.value), **found}

    def drawn(chart: dict[str, Any]) -> dict[str, Any]:
        if chart["kind"] == "response":
            rest = {name: x for name, x in chart.items() if name != "regions"}
            return {**rest, "points": region_points(chart["regions"])}
        lines = {m: {label: line(s) for label, s in c.items()} for m, c in chart["lines"].items()}
        return {**chart, "lines": lines}

    charts = [drawn(chart) for chart in list_charts(analysis)]
    return {
        "algorithms": script_styles(style, "a"),
        "objectives": script_styles(response_styles(analysis), "o"),
        "charts": charts,
        "steps": [list(grid) for grid in grids],
    }


def response_styles(analysis: Analysis) -> dict[str, LineStyle]:
    """Return the styles of objectives in charts over the trust region."""
    return objective_styles(list(dict.fromkeys(r.objective for r in analysis.response)))


def script_styles(style: Mapping[str, LineStyle], letter: str) -> list[dict[str, str]]:
    """Return line styles for the script."""
    return [
        {
            "label": label,
            "title": line_style.title,
            "colour": f"var(--{letter}{i})",
            # for a line about two units wide
            "dash": " ".join(f"{2 * d:g}" for d in line_style.dashes),
        }
        for i, (label, line_style) in enumerate(style.items())
    ]


def region_points(regions: list[Region]) -> dict[str, list[dict[str, Any]]]:
    """Return the points of each objective: width, value, interval, target ratios."""
    points: dict[str, list[dict[str, Any]]] = {}
    for region in regions:
        has_interval = region.estimate.has_interval
        point = {
            "x": digit(region.width),
            "y": digit(region.estimate.value),
            "low": digit(region.estimate.low) if has_interval else None,
            "high": digit(region.estimate.high) if has_interval else None,
            "words": region.words,
        }
        points.setdefault(region.objective, []).append(point)
    return points


def digit(value: float) -> float:
    """Round to five significant digits, more than a screen shows."""
    return float(f"{value:.5g}")


def digits(values: np.ndarray) -> list[float]:
    """Round the numbers of a curve."""
    return [digit(value) for value in values]
