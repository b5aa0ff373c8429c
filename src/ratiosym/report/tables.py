"""Tables of a study, as data, LaTeX and Markdown.

These are Table 1, probabilities of improvement, returns by task and returns by trust region.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ratiosym.envs.suites import suite_of
from ratiosym.objectives import get_objective
from ratiosym.report.analysis import Analysis, SuiteNumbers, shown
from ratiosym.report.statistics import Estimate, is_significant


class Cell(NamedTuple):
    """An estimate or a word in a table."""

    text: str = "–"
    interval: str = ""  # "0.79, 0.85", or nothing
    is_bold: bool = False
    has_star: bool = False
    value: float = math.nan  # to sort by


@dataclass(frozen=True)
class Row:
    """A row of a suite or task, with a cell per column."""

    name: str
    suite: str
    cells: tuple[Cell, ...]
    algorithm: str = ""  # if the row belongs to a single one


@dataclass(frozen=True)
class Table:
    """A table, whose columns usually are algorithms."""

    name: str  # of its files
    title: str
    about: str
    corner: str  # title of the first column
    columns: dict[str, str]  # name (an algorithm's label, if it belongs to one): title
    rows: tuple[Row, ...]


def make_tables(analysis: Analysis) -> list[Table]:
    """Return the tables of a study's own numbers."""
    tables = [scores_table(analysis)]
    if len(analysis.titles) > 1:
        tables.append(improvement_table(analysis))
    tables.append(tasks_table(analysis))
    if analysis.response:
        tables.append(response_table(analysis))
    return tables


def scores_table(analysis: Analysis) -> Table:
    """Return the paper's Table 1, with one row per suite."""
    columns = dict(analysis.titles)

    def cell(suite: SuiteNumbers, label: str) -> Cell:
        if label not in suite.scores:
            return Cell()
        # Without a second algorithm, there is no best one.
        is_bold = suite.is_best(label) and len(suite.scores) > 1
        return make_cell(suite.scores[label], shown, is_bold, suite.has_star(label))

    rows = tuple(
        Row(suite.title, suite.name, tuple(cell(suite, label) for label in columns))
        for suite in sorted(analysis.suites.values(), key=lambda s: s.title.lower())
    )
    about = (
        "Interquartile mean (IQM) of the absolute metric, normalised per task between the least "
        "and the largest "
        "return, over runs and tasks of an environment, with 95% stratified bootstrap intervals. "
        "Bold: the highest. "
        "*: the interval overlaps that of the highest."
    )
    return Table("table1", "Scores by environment", about, "Environment", columns, rows)


def improvement_table(analysis: Analysis) -> Table:
    """Return the probabilities that the reference beats the others (insets of Figure 2)."""
    reference = analysis.titles[analysis.reference]
    columns = {
        label: f"than {title}"
        for label, title in analysis.titles.items()
        if label != analysis.reference
    }

    def cell(suite: SuiteNumbers, label: str) -> Cell:
        found = suite.improvement.get(label)
        return Cell() if found is None else make_cell(found, shown, is_significant(found))

    suites = sorted(analysis.suites.values(), key=lambda s: s.title.lower())
    if len(suites) > 1:
        suites.append(analysis.overall)
    rows = tuple(Row(s.title, s.name, tuple(cell(s, label) for label in columns)) for s in suites)
    about = (
        f"Probability that a run of {reference} is better than a run of the other algorithm, on a "
        f"task drawn at "
        f"random, with 95% stratified bootstrap intervals. Bold: above 0.5, and the interval does "
        f"not contain 0.5."
    )
    return Table(
        "improvement",
        f"Probability that {reference} is better than the others",
        about,
        "Environment",
        columns,
        rows,
    )


def tasks_table(analysis: Analysis) -> Table:
    """Return the absolute metric by task, not normalised."""

    def cell(found: Estimate | None) -> Cell:
        return Cell() if found is None else make_cell(found, "{:.4g}".format)

    rows = tuple(
        Row(
            task.name,
            task.suite,
            tuple(cell(task.absolute.get(label)) for label in analysis.titles),
        )
        for task in analysis.tasks.values()
    )
    about = (
        "Mean over runs of the absolute metric (the return of the best parameters in fresh "
        "episodes), as it is, with "
        "95% bootstrap intervals."
    )
    return Table("tasks", "Returns by task", about, "Task", dict(analysis.titles), rows)


def response_table(analysis: Analysis) -> Table:
    """Return the numbers of the response figure, by trust region."""
    rows = tuple(
        Row(
            region.task,
            suite_of(region.task).name,
            (
                text_cell(get_objective(region.objective).title),
                Cell(region.words, value=region.bounds.upper),
                Cell(f"{region.width:.2f}", value=region.width),
                make_cell(region.estimate, "{:.4g}".format),
                text_cell(", ".join(f"{x:.4g}" for x in region.seeds.values())),
            ),
        )
        for region in analysis.response
    )
    columns = {
        "objective": "Objective",
        "targets": "Target ratios",
        "width": "Log-width",
        "return": "Return",
        "seeds": "Each seed",
    }
    about = (
        "Mean over seeds of the mean return over the last 20% of the evaluations, with 95% "
        "bootstrap intervals, by the two target ratios. Log-width: ln(upper / lower)."
    )
    return Table("response", "Returns by trust region", about, "Task", columns, rows)


def text_cell(text: str) -> Cell:
    """Return a cell with a word instead of a number."""
    return Cell(text)


def make_cell(
    estimate: Estimate, form: Callable[[float], str], is_bold: bool = False, has_star: bool = False
) -> Cell:
    """Format an estimate."""
    interval = f"{form(estimate.low)}, {form(estimate.high)}" if estimate.has_interval else ""
    return Cell(form(estimate.value), interval, is_bold, has_star, estimate.value)


# ------------------------------------------------------------------------------------------ formats


def to_markdown(table: Table, notes: tuple[str, ...] = ()) -> str:
    """Format as Markdown, with the notes below."""

    def text(cell: Cell) -> str:
        value = f"**{cell.text}**" if cell.is_bold else cell.text
        return (
            value
            + ("\\*" if cell.has_star else "")
            + (f" ({cell.interval})" if cell.interval else "")
        )

    head = [table.corner, *table.columns.values()]
    lines = [head, ["---", *("---:" for _ in table.columns)]]
    lines += [[row.name, *map(text, row.cells)] for row in table.rows]
    below = "".join(f"\n- {note}" for note in notes)
    body = "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
    return f"**{table.title}**\n\n{body}\n\n{table.about}\n{below}".rstrip() + "\n"


def to_latex(table: Table, notes: tuple[str, ...] = ()) -> str:
    """Format as a booktabs table like the paper's, with the notes as comments."""

    def text(cell: Cell) -> str:
        if math.isnan(cell.value) or not is_number(cell.text):
            return escape(cell.text)
        value = rf"\mathbf{{{cell.text}}}" if cell.is_bold else cell.text
        interval = f"_{{({cell.interval.replace(' ', '')})}}" if cell.interval else ""
        return f"${value}{'^*' if cell.has_star else ''}{interval}$"

    comments = "".join(f"% {note}\n" for note in notes)
    head = " & ".join(escape(x) for x in (table.corner, *table.columns.values()))
    body = "\n".join(
        " " * 8 + " & ".join([escape(row.name), *map(text, row.cells)]) + r" \\"
        for row in table.rows
    )
    return (
        f"{comments}"
        "\\begin{table}[t]  % needs booktabs\n"
        "    \\centering\n"
        "    \\small\n"
        f"    \\caption{{\\textit{{{escape(table.title)}.}} {escape(table.about)}}}\n"
        f"    \\label{{tab:{table.name}}}\n"
        f"    \\begin{{tabular}}{{l{'c' * len(table.columns)}}}\n"
        "        \\toprule\n"
        f"        {head} \\\\\n"
        "        \\midrule\n"
        f"{body}\n"
        "        \\bottomrule\n"
        "    \\end{tabular}\n"
        "\\end{table}\n"
    )


def is_number(text: str) -> bool:
    """Whether a cell can be set in math mode."""
    return text.replace(".", "").replace("-", "").replace("e", "").replace("+", "").isdigit()


def escape(text: str) -> str:
    """Escape text for LaTeX."""
    for sign in "&%_#$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("–", "--").replace("\u00ad", r"\-")
