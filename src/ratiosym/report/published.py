"""Comparison of a study with published numbers: the paper's Table 1, and single tasks.

The numbers and their sources are in ``assets/published.toml``. As budgets differ, the sign of a
difference says more than its size.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ratiosym.report.analysis import Analysis
from ratiosym.report.statistics import Estimate, overlap
from ratiosym.report.tables import Cell, Row, Table, text_cell

DATA = Path(__file__).with_name("assets") / "published.toml"
HIGHER, LOWER, SAME = "higher", "lower", "no clear difference"


@cache
def read_published() -> dict[str, Any]:
    """Read the file of published numbers."""
    return tomllib.loads(DATA.read_text())


def sign(one: Estimate, other: Estimate) -> str:
    """Say whether a score is higher or lower than another, or their intervals overlap."""
    if not (one.has_interval and other.has_interval):
        return "no interval"
    if overlap(one, other):
        return SAME
    return HIGHER if one.value > other.value else LOWER


def signs_table(analysis: Analysis) -> Table | None:
    """Compare the reference to the others, here and in the paper's Table 1, by the same rule.

    Returns None if the paper has nothing to compare to.
    """
    paper = read_published()["table1"]
    reference = analysis.reference
    others = [x for x in analysis.titles if x != reference and x in ("mars", "mappo", "maspo")]
    suites = [s for s in analysis.suites.values() if s.name in paper and reference in s.scores]
    if reference != "mars" or not others or not suites:
        return None
    rows = []
    for suite in suites:
        cells = []
        for label in others:
            theirs = [Estimate(*paper[suite.name][x]) for x in (reference, label)]
            both = [suite.scores.get(x) for x in (reference, label)]
            ours = sign(both[0], both[1]) if both[0] and both[1] else "–"
            cells += [text_cell(ours), text_cell(sign(*theirs))]
        rows.append(Row(suite.title, suite.name, tuple(cells)))
    title = analysis.titles[reference]
    columns = {
        f"{label} {whose}": f"than {analysis.titles[label]}, {where}"
        for label in others
        for whose, where in (("here", "here"), ("paper", "in the paper"))
    }
    about = (
        f"Whether {title}'s score (Table 1) is higher or lower than the other's, here and in the "
        f"paper: their 95% intervals must not overlap. The paper has all tasks of an environment, "
        f"10 seeds and more steps."
    )
    name = "Signs, here and in the paper"
    return Table("signs", name, about, "Environment", columns, tuple(rows))


def published_table(analysis: Analysis) -> Table | None:
    """Compare our results to published numbers in the same unit, with their sources."""
    found = [n for n in read_published()["numbers"] if n["task"] in analysis.tasks]
    if not found:
        return None
    rows = tuple(
        Row(
            entry["task"],
            analysis.tasks[entry["task"]].suite,
            (
                text_cell(entry["metric"].replace("_", " ")),
                *(our_cell(analysis, entry, label) for label in analysis.titles),
                text_cell(steps_of(analysis, entry["task"])),
                text_cell(entry["value"]),
                text_cell(entry["source"]),
            ),
        )
        for entry in found
    )
    columns = {
        "metric": "Metric",
        **analysis.titles,
        "steps": "Steps here",
        "published": "Published",
        "source": "Source",
    }
    about = (
        "Mean over runs of the absolute metric beside numbers that others have published for the "
        "task. Budgets, settings and versions of the environments differ."
    )
    return Table("published", "Beside published numbers", about, "Task", columns, rows)


def our_cell(analysis: Analysis, entry: dict[str, Any], label: str) -> Cell:
    """Return the result of an algorithm in the unit of a published number."""
    values = [
        run.absolute_metric.get(entry["metric"])
        for run in analysis.results.of(entry["task"], label)
    ]
    known = [x for x in values if x is not None]
    if not known:
        return Cell()
    value = float(np.mean(known))
    return Cell(f"{value:.3g}", value=value)


def steps_of(analysis: Analysis, task: str) -> str:
    """Return the length of a study's runs on a task."""
    ends = {int(run.steps[-1]) for run in analysis.results.runs if run.task == task}
    return " to ".join(f"{end:,}" for end in sorted({min(ends), max(ends)}))
