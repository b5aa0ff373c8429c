"""The report as one self-contained HTML file.

It contains verdicts, sortable tables, interactive curves, figures, films, settings, filters, the
plan and the runs.
"""

import base64
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Set
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import numpy as np

from ratiosym.report.analysis import ALL, Analysis
from ratiosym.report.charts import charts_section, page_data, response_styles
from ratiosym.report.published import published_table, signs_table
from ratiosym.report.results import Study
from ratiosym.report.settings import settings_table
from ratiosym.report.style import LineStyle, line_styles
from ratiosym.report.tables import Cell, Row, Table, make_tables

ASSETS = Path(__file__).with_name("assets")
RECORDS = ("config.json", "evaluations.csv", "training.csv", "absolute_metric.csv", "summary.json")
FIGURES = {
    "figure2": "Figure 2: curves by environment, with the probability of improvement",
    "figure3": "Figure 3: returns, largest and smallest ratios",
}
LARGEST_FILM = 4_000_000  # bytes; larger films are linked instead of embedded


def make_page(analysis: Analysis, path: Path, files: Iterable[Path] = ()) -> str:
    """Return the page for ``path``, to which links to runs and files are relative."""
    files, results = list(files), analysis.results
    style = line_styles(analysis.titles)
    sections = {name: html for name, html in make_sections(analysis, path, files).items() if html}
    num_runs = f"{len(results.runs)} of {len(results.runs) + len(results.absent)} runs finished"
    return Template((ASSETS / "page.html").read_text()).substitute(
        title=escape(f"Study {results.name}"),
        about=escape(results.about),
        facts=escape(
            f"{count(len(results.algorithms), 'algorithm')}, {count(len(results.tasks), 'task')}, "
            f"{count(len(results.seeds), 'seed')}; {num_runs}."
        ),
        css=colours(style, response_styles(analysis)) + (ASSETS / "page.css").read_text(),
        nav=" ".join(f'<a href="#{name}">{heading(html)}</a>' for name, html in sections.items()),
        **filters(analysis),
        main=notes(analysis)
        + "".join(f'<section id="{k}">\n{v}</section>\n' for k, v in sections.items()),
        data=embed(page_data(analysis, style)),
        script=(ASSETS / "page.js").read_text(),
    )


def make_sections(analysis: Analysis, path: Path, files: list[Path]) -> dict[str, str]:
    """Return the sections of the page in order; a section may be empty."""
    labels = set(analysis.titles)
    tables = {table.name: table_section(table, labels) for table in all_tables(analysis)}
    return {
        "verdicts": verdicts_section(analysis),
        "scores": tables["table1"],
        "improvement": tables.get("improvement", ""),
        "signs": tables.get("signs", ""),
        "environments": charts_section(analysis, "suite"),
        "curves": charts_section(analysis, "task"),
        "figures": figures_section(files),
        "response": charts_section(analysis, "response") + below(tables.get("response", "")),
        "profile": charts_section(analysis, "profile"),
        "films": films_section(analysis, path),
        "tasks": tables["tasks"],
        "published": tables.get("published", ""),
        "settings": tables["settings"],
        "runs": runs_section(analysis, path),
        "files": files_section(path, files),
        "plan": plan_section(analysis),
    }


def all_tables(analysis: Analysis) -> list[Table]:
    """Return every table of a report."""
    beside = (signs_table(analysis), published_table(analysis))
    return [
        *make_tables(analysis),
        settings_table(analysis),
        *(table for table in beside if table is not None),
    ]


def below(section: str) -> str:
    """Turn a section into a subsection by lowering its heading."""
    return section.replace("<h2>", "<h3>").replace("</h2>", "</h3>")


def count(num: int, what: str) -> str:
    """3 tasks, 1 task."""
    return f"{num:,} {what}{'' if num == 1 else 's'}"


def heading(section: str) -> str:
    """Return the title of a section from its heading."""
    return section.split("<h2>")[1].split("</h2>")[0]


def colours(style: Mapping[str, LineStyle], objectives: Mapping[str, LineStyle]) -> str:
    """Return the colours of algorithms and objectives as CSS variables, lighter in dark mode."""
    names = {f"a{i}": line_style.colour for i, line_style in enumerate(style.values())}
    names |= {f"o{i}": line_style.colour for i, line_style in enumerate(objectives.values())}
    light = "".join(f"--{name}: {colour};" for name, colour in names.items())
    dark = "".join(f"--{name}: {lighter(colour)};" for name, colour in names.items())
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def lighter(colour: str) -> str:
    """Blend a colour halfway to white, or more for dark colours."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    share = 0.55 if rgb.max() < 128 else 0.3
    return "#" + "".join(f"{round(x):02x}" for x in rgb + share * (255 - rgb))


def notes(analysis: Analysis) -> str:
    """Return the notes for the reader and the list of missing runs."""
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


def filters(analysis: Analysis) -> dict[str, str]:
    """Return a checkbox per suite and per algorithm; the latter are the legend."""
    suites = {suite.name: suite.title for suite in analysis.suites.values()}
    return {
        "suites": boxes("suite", "Suites", suites),
        "legend": boxes("algorithm", "Algorithms", analysis.titles),
    }


def boxes(name: str, title: str, options: Mapping[str, str]) -> str:
    """Return checkboxes, with a coloured line for each algorithm."""
    labels = "".join(
        f'<label><input type="checkbox" name="{name}" value="{escape(value)}" checked>'
        + (f'<span data-swatch="{escape(value)}"></span>' if name == "algorithm" else "")
        + f"{escape(text)}</label>"
        for value, text in options.items()
    )
    return (
        f"<fieldset><legend>{title}</legend>{labels}"
        f'<button type="button" data-all="{name}" '
        f'aria-label="All or none of the {title.lower()}">all / none</button></fieldset>'
    )


def verdicts_section(analysis: Analysis) -> str:
    """Return one sentence per environment."""
    if not analysis.verdicts:
        return ""
    items = "".join(
        f'<li data-suite="{escape(suite)}">{keep_together(escape(text))}</li>'
        for suite, text in analysis.verdicts.items()
    )
    reference = escape(analysis.titles[analysis.reference])
    about = (
        f"P is the probability that a run of {reference} scores higher than a run of the other, "
        "with its 95% bootstrap interval; better or worse means that the interval does not "
        "contain 0.5."
    )
    return f'<h2>In short</h2>\n<p class="about">{about}</p>\n<ul class="verdicts">{items}</ul>\n'


def keep_together(text: str) -> str:
    """Keep numbers from breaking across lines."""
    return re.sub(r"(?<=P) = |(?<=\d) to (?=\d)", lambda m: m[0].replace(" ", "&nbsp;"), text)


# ------------------------------------------------------------------------------------------- tables


def table_section(table: Table, labels: Set[str]) -> str:
    """Return a table of estimates, whose columns are filtered by algorithm."""
    whose = [name if name in labels else None for name in table.columns]
    heads = [head(table.corner), *map(head, table.columns.values(), whose)]
    rows = "\n".join(table_row(row, whose) for row in table.rows)
    kind = "tall" if len(table.rows) > 20 else ""
    return (
        f'<h2>{escape(table.title)}</h2>\n<p class="about">{escape(table.about)}</p>\n'
        f'<div class="scroll {kind}" role="region" aria-label="{escape(table.title)}" tabindex="0">'
        f'<table class="scores" id="table-{table.name}"><thead><tr>{"".join(heads)}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>\n"
    )


def head(title: str, label: str | None = None) -> str:
    """Return a sortable heading: names ascending first, numbers descending."""
    whose = f' data-algorithm="{escape(label)}" data-first="descending"' if label else ""
    return f'<th scope="col"{whose}><button type="button">{escape(title)}</button></th>'


def table_row(row: Row, labels: list[str | None]) -> str:
    """Return a row of a table."""
    whose = ' class="total"' if row.suite == ALL else f' data-suite="{escape(row.suite)}"'
    whose += f' data-algorithm="{escape(row.algorithm)}"' if row.algorithm else ""
    cells = "".join(table_cell(cell, label) for cell, label in zip(row.cells, labels, strict=True))
    return f'<tr{whose}><th scope="row">{escape(row.name)}</th>{cells}</tr>'


def table_cell(cell: Cell, label: str | None) -> str:
    """Return a cell with an estimate or a word, and the value to sort by."""
    whose = f' data-algorithm="{escape(label)}"' if label else ""
    if math.isnan(cell.value) and cell.text != Cell().text:
        return f'<td class="text"{whose}>{escape(cell.text)}</td>'
    value = "" if math.isnan(cell.value) else repr(cell.value)
    text = f"<strong>{cell.text}</strong>" if cell.is_bold else cell.text
    star = '<span class="star">*</span>' if cell.has_star else ""
    interval = f' <span class="interval">({cell.interval})</span>' if cell.interval else ""
    return f'<td{whose} data-value="{value}">{text}{star}{interval}</td>'


def runs_section(analysis: Analysis, path: Path) -> str:
    """List every finished run with links to its record."""
    rows = []
    for run in analysis.results.runs:
        links = " ".join(
            f'<a href="{link(run.directory / name, path)}">{name}</a>'
            for name in RECORDS
            if (run.directory / name).exists()
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
    """List the files next to the page."""
    links = "".join(
        f'<li><a href="{link(file, path)}">{escape(file.name)}</a></li>' for file in files
    )
    about = "Figures for a paper, tables as LaTeX and Markdown, and the numbers for other tools."
    return f'<h2>Files</h2>\n<p class="about">{about}</p>\n<ul>{links}</ul>\n' if links else ""


def link(file: Path, page: Path) -> str:
    """Return the URL of a file relative to the page."""
    return quote(Path(os.path.relpath(file, page.parent)).as_posix())


def plan_section(analysis: Analysis) -> str:
    """Return the plan and versions of every directory."""
    return "<h2>Plan and versions</h2>\n" + "".join(map(plan_of, analysis.results.studies))


def plan_of(study: Study) -> str:
    """Return the plan and versions of one directory."""
    versions = study.details.get("versions") or {}
    facts = {
        name: study.details.get(name)
        for name in ("commit", "processor", "devices", "platform", "command")
    }
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="text">{escape(words(value))}</td></tr>'
        for name, value in {**versions, **facts}.items()
        if value
    )
    plan, name = escape(json.dumps(study.plan.to_dict(), indent=2)), escape(study.plan.name)
    return (
        f'<div class="scroll" role="region" aria-label="Versions of {name}" tabindex="0">'
        f"<table><tbody>{rows}</tbody></table></div>\n"
        f"<details><summary>The whole plan {name}</summary>"
        f'<pre tabindex="0">{plan}</pre></details>\n'
    )


def words(value: Any) -> str:
    """Format a value as text."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def embed(data: Any) -> str:
    """Return JSON that cannot close the surrounding script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


# -------------------------------------------------------------------------------- figures and films


def figures_section(files: Iterable[Path]) -> str:
    """Embed the paper's figures of this study."""
    pictures = {file.stem: file for file in files if file.suffix == ".png"}
    figures = "\n".join(
        picture(pictures[name], title) for name, title in FIGURES.items() if name in pictures
    )
    if not figures:
        return ""
    about = "As in the paper, with 95% bootstrap intervals; PDF files are among the files below."
    return f'<h2>Figures 2 and 3</h2>\n<p class="about">{about}</p>\n{figures}\n'


def picture(file: Path, title: str) -> str:
    """Embed a picture or a film."""
    data = base64.b64encode(file.read_bytes()).decode()
    return (
        f'<figure class="picture"><figcaption>{escape(title)}</figcaption>'
        f'<img src="data:image/{file.suffix[1:]};base64,{data}" alt="{escape(title)}"></figure>'
    )


def films_section(analysis: Analysis, path: Path) -> str:
    """Embed films of trained teams: every .gif in the directory of a run."""
    films = []
    for run in analysis.results.runs:
        title = f"{analysis.titles[run.label]} on {run.task}, seed {run.seed}"
        suite = escape(analysis.tasks[run.task].suite)
        for file in sorted(run.directory.glob("*.gif")):
            is_small = file.stat().st_size <= LARGEST_FILM
            address = f'<a href="{link(file, path)}">{escape(title)}</a>'
            shown = picture(file, title) if is_small else address
            films.append(
                f'<div data-suite="{suite}" data-algorithm="{escape(run.label)}">{shown}</div>'
            )
    if not films:
        return ""
    about = "One episode each, with sampled actions, made by 'ratiosym render'."
    charts = f'<div class="charts">{"".join(films)}</div>'
    return f'<h2>Films</h2>\n<p class="about">{about}</p>\n{charts}\n'
