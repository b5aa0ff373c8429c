"""One HTML file with everything in it: tables that sort, curves that tell their values, filters,
the plan, the runs.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import numpy as np

from ratiosym.report.analysis import ALL, THRESHOLDS, Analysis, Series
from ratiosym.report.style import LineStyle, line_styles
from ratiosym.report.tables import Cell, Row, Table, make_tables

ASSETS = Path(__file__).with_name("assets")
RECORDS = ("config.json", "evaluations.csv", "training.csv", "summary.json")
METRICS = {
    "normalised": "normalised return",
    "return": "return",
    "ratio_max": "largest ratio (an update's extreme)",
    "ratio_min": "smallest ratio (an update's extreme)",
}


def make_page(analysis: Analysis, path: Path, files: Iterable[Path] = ()) -> str:
    """The page as it is to be written to ``path``: links to runs and files are relative to it."""
    plan, results = analysis.results.plan, analysis.results
    style = line_styles(analysis.titles)
    sections = {
        "scores": table_section(make_tables(analysis)[0]),
        **{t.name: table_section(t) for t in make_tables(analysis)[1:] if t.name == "improvement"},
        "environments": charts_section(analysis, "suite"),
        "profile": charts_section(analysis, "profile"),
        "curves": charts_section(analysis, "task"),
        "tasks": table_section(make_tables(analysis)[-1]),
        "runs": runs_section(analysis, path),
        "files": files_section(path, files),
        "plan": plan_section(analysis),
    }
    sections = {name: html for name, html in sections.items() if html}
    num_runs = f"{len(results.runs)} of {len(results.runs) + len(results.absent)} runs finished"
    return Template((ASSETS / "page.html").read_text()).substitute(
        title=escape(f"Study {plan.name}"),
        about=escape(plan.about),
        facts=escape(
            f"{count(len(plan.algorithms), 'algorithm')}, {count(len(plan.tasks), 'task')}, "
            f"{count(len(plan.seeds), 'seed')}; {num_runs}."
        ),
        css=colours(style) + (ASSETS / "page.css").read_text(),
        nav=" ".join(f'<a href="#{name}">{heading(html)}</a>' for name, html in sections.items()),
        filters=filters(analysis),
        main=notes(analysis)
        + "".join(f'<section id="{k}">\n{v}</section>\n' for k, v in sections.items()),
        data=embed(page_data(analysis, style)),
        script=(ASSETS / "page.js").read_text(),
    )


def count(num: int, what: str) -> str:
    """3 tasks, 1 task."""
    return f"{num:,} {what}{'' if num == 1 else 's'}"


def heading(section: str) -> str:
    """What a section is called, from its own heading."""
    return section.split("<h2>")[1].split("</h2>")[0]


def colours(style: Mapping[str, LineStyle]) -> str:
    """The algorithms' colours as CSS variables; on a dark ground they are lighter."""
    light = "".join(f"--a{i}: {look.colour};" for i, look in enumerate(style.values()))
    dark = "".join(f"--a{i}: {lighter(look.colour)};" for i, look in enumerate(style.values()))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def lighter(colour: str) -> str:
    """Half way to white, for dark colours more."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    share = 0.55 if rgb.max() < 128 else 0.3
    return "#" + "".join(f"{round(x):02x}" for x in rgb + share * (255 - rgb))


def notes(analysis: Analysis) -> str:
    """What a reader has to know, and the runs that are missing."""
    text = ""
    if analysis.notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in analysis.notes)
        text += f'<div class="note" id="notes"><ul>{items}</ul></div>\n'
    if analysis.results.absent:
        items = "".join(
            f"<li>{escape(str(a.path))}: {escape(a.reason)}</li>" for a in analysis.results.absent
        )
        is_open = " open" if len(analysis.results.absent) <= 12 else ""
        words = f"{count(len(analysis.results.absent), 'run')} not finished or not usable"
        text += (
            f'<details class="note" id="absent"{is_open}><summary>{words}</summary>'
            f"<ul>{items}</ul></details>\n"
        )
    return text


def filters(analysis: Analysis) -> str:
    """A box for each suite and each algorithm."""
    suites = {suite.name: suite.title for suite in analysis.suites.values()}
    return "\n".join(
        f"<fieldset><legend>{title}</legend>"
        + "".join(
            f'<label><input type="checkbox" name="{name}" value="{escape(value)}" checked>'
            + (f'<span data-swatch="{escape(value)}"></span>' if name == "algorithm" else "")
            + f"{escape(text)}</label>"
            for value, text in options.items()
        )
        + f'<button type="button" data-all="{name}" '
        + f'aria-label="All or none of the {title.lower()}">all / none</button>'
        + "</fieldset>"
        for name, title, options in (
            ("suite", "Suites", suites),
            ("algorithm", "Algorithms", analysis.titles),
        )
    )


# ------------------------------------------------------------------------------------------- tables


def table_section(table: Table) -> str:
    """A table of estimates."""
    heads = [head(table.corner), *(head(title, label) for label, title in table.columns.items())]
    rows = "\n".join(table_row(row, list(table.columns)) for row in table.rows)
    kind = "tall" if len(table.rows) > 20 else ""
    return (
        f'<h2>{escape(table.title)}</h2>\n<p class="about">{escape(table.about)}</p>\n'
        f'<div class="scroll {kind}" role="region" aria-label="{escape(table.title)}" tabindex="0">'
        f'<table class="scores" id="table-{table.name}"><thead><tr>{"".join(heads)}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>\n"
    )


def head(title: str, label: str | None = None) -> str:
    """A heading that sorts: names begin with the first, numbers with the largest."""
    whose = f' data-algorithm="{escape(label)}" data-first="descending"' if label else ""
    return f'<th scope="col"{whose}><button type="button">{escape(title)}</button></th>'


def table_row(row: Row, labels: list[str]) -> str:
    """A line of a table."""
    whose = ' class="total"' if row.suite == ALL else f' data-suite="{escape(row.suite)}"'
    cells = "".join(table_cell(cell, label) for cell, label in zip(row.cells, labels, strict=True))
    return f'<tr{whose}><th scope="row">{escape(row.name)}</th>{cells}</tr>'


def table_cell(cell: Cell, label: str) -> str:
    """An estimate; what it is sorted by is beside it."""
    value = "" if math.isnan(cell.value) else repr(cell.value)
    text = f"<strong>{cell.text}</strong>" if cell.is_bold else cell.text
    star = '<span class="star">*</span>' if cell.has_star else ""
    interval = f' <span class="interval">({cell.interval})</span>' if cell.interval else ""
    return f'<td data-algorithm="{escape(label)}" data-value="{value}">{text}{star}{interval}</td>'


def runs_section(analysis: Analysis, path: Path) -> str:
    """Every finished run, with links to its record."""
    study = Path(os.path.relpath(analysis.results.directory, path.parent))
    rows = []
    for run in analysis.results.runs:
        links = " ".join(
            f'<a href="{quote((study / run.path / name).as_posix())}">{name}</a>'
            for name in RECORDS
            if (analysis.results.directory / run.path / name).exists()
        )
        suite = analysis.tasks[run.task].suite
        rows.append(
            f'<tr data-suite="{escape(suite)}" data-algorithm="{escape(run.label)}">'
            f'<th scope="row">{escape(run.task)}</th>'
            f'<td class="text">{escape(analysis.titles[run.label])}</td>'
            f'<td>{run.seed}</td><td data-value="{run.absolute!r}">{run.absolute:.4g}</td>'
            f'<td data-value="{run.steps[-1]:.0f}">{run.steps[-1]:,.0f}</td>'
            f'<td class="text">{links}</td></tr>'
        )
    names = ("Task", "Algorithm", "Seed", "Absolute metric", "Steps")
    heads = "".join(f'<th scope="col"><button type="button">{name}</button></th>' for name in names)
    return (
        '<h2>Runs</h2>\n<p class="about">Every finished run and its record.</p>\n'
        '<div class="scroll tall" role="region" aria-label="Runs" tabindex="0">'
        f'<table id="table-runs"><thead><tr>{heads}<th scope="col" class="text">Record</th></tr>'
        "</thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>\n"
    )


def files_section(path: Path, files: Iterable[Path]) -> str:
    """What lies beside the page."""
    links = "".join(
        f'<li><a href="{quote(Path(os.path.relpath(file, path.parent)).as_posix())}">'
        f"{escape(file.name)}</a></li>"
        for file in files
    )
    about = "Figures for a paper, tables as LaTeX and Markdown, and the numbers for other tools."
    return f'<h2>Files</h2>\n<p class="about">{about}</p>\n<ul>{links}</ul>\n' if links else ""


def plan_section(analysis: Analysis) -> str:
    """What was planned, and with which versions."""
    results = analysis.results
    versions = results.details.get("versions") or {}
    facts = {
        name: results.details.get(name)
        for name in ("commit", "processor", "devices", "platform", "command")
    }
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="text">{escape(words(value))}</td></tr>'
        for name, value in {**versions, **facts}.items()
        if value
    )
    plan = escape(json.dumps(results.plan.to_dict(), indent=2))
    return (
        "<h2>Plan and versions</h2>\n"
        '<div class="scroll" role="region" aria-label="Versions" tabindex="0">'
        f"<table><tbody>{rows}</tbody></table></div>\n"
        f'<details><summary>The plan, whole</summary><pre tabindex="0">{plan}</pre></details>\n'
    )


def words(value: Any) -> str:
    """A fact as text."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# ------------------------------------------------------------------------------------------- curves


def charts_section(analysis: Analysis, kind: str) -> str:
    """Places for the curves of one kind; the script draws them."""
    charts = [
        (index, chart) for index, chart in enumerate(list_charts(analysis)) if chart["kind"] == kind
    ]
    if not charts:
        return ""
    title, about = {
        "suite": (
            "Curves by environment",
            "Normalised return, mean over tasks and runs; the bands are 95% stratified bootstrap "
            "intervals.",
        ),
        "profile": (
            "Performance profile",
            "The share of runs, over all tasks, whose normalised absolute metric is above a score.",
        ),
        "task": (
            "Curves by task",
            "Mean over runs and 95% bootstrap intervals. Ratios: the extreme of each stretch of "
            "training, geometric "
            "mean over runs.",
        ),
    }[kind]
    choice = ""
    if kind == "task":
        options = "".join(
            f'<option value="{name}">{text}</option>' for name, text in METRICS.items()
        )
        choice = (
            '<p class="choose"><label for="metric">Show</label>'
            f'<select id="metric">{options}</select></p>\n'
        )
    figures = "\n".join(
        f'<figure data-chart="{index}"{suite_of(chart)}>'
        f"<figcaption>{escape(chart['title'])}</figcaption></figure>"
        for index, chart in charts
    )
    wide = " wide" if kind == "profile" else ""
    return (
        f'<h2>{title}</h2>\n<p class="about">{about}</p>\n{choice}'
        f'<div class="charts{wide}">\n{figures}\n</div>\n'
    )


def suite_of(chart: Mapping[str, Any]) -> str:
    """What a chart is filtered by."""
    return f' data-suite="{escape(chart["suite"])}"' if chart["suite"] else ""


def list_charts(analysis: Analysis) -> list[dict[str, Any]]:
    """All charts in the order of the page; curves as they are."""
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
    if analysis.profile:
        profile = {label: Series(THRESHOLDS, curve) for label, curve in analysis.profile.items()}
        charts.append(
            {"kind": "profile", "title": "All tasks", "suite": "", "lines": {"normalised": profile}}
        )
    charts += [
        {
            "kind": "task",
            "title": task.name,
            "suite": task.suite,
            "low": task.low,
            "high": task.high,
            "lines": {"return": task.returns, **task.ratios},
        }
        for task in analysis.tasks.values()
    ]
    return charts


def page_data(analysis: Analysis, style: Mapping[str, LineStyle]) -> dict[str, Any]:
    """What the script draws from. Steps are kept once; curves point to them."""
    grids: dict[tuple[float, ...], int] = {}

    def line(series: Series) -> dict[str, Any]:
        x = grids.setdefault(tuple(series.steps.tolist()), len(grids))
        low_high = {"low": series.curve.low, "high": series.curve.high}
        found = {k: digits(v) for k, v in low_high.items() if len(v) and np.isfinite(v).all()}
        return {"x": x, "y": digits(series.curve.value), **found}

    charts = [
        {
            **chart,
            "lines": {
                m: {label: line(s) for label, s in c.items()} for m, c in chart["lines"].items()
            },
        }
        for chart in list_charts(analysis)
    ]
    algorithms = [
        {
            "label": label,
            "title": look.title,
            "colour": f"var(--a{i})",
            "dash": " ".join(f"{2 * d:g}" for d in look.dashes),  # of a line about two units wide
        }
        for i, (label, look) in enumerate(style.items())
    ]
    return {"algorithms": algorithms, "charts": charts, "steps": [list(grid) for grid in grids]}


def digits(values: np.ndarray) -> list[float]:
    """Five digits are more than a screen shows."""
    return [float(f"{value:.5g}") for value in values]


def embed(data: Any) -> str:
    """JSON that cannot end the script it stands in."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
