"""``ratiosym report``: a study as a page, tables and figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from ratiosym.report.analysis import Analysis


@dataclass(frozen=True)
class Report:
    """Make tables, figures and one page of a study.

    ratiosym report studies/smoke

    ratiosym report studies/smoke --out results/smoke.html

    The page opens offline in any browser: tables that sort, curves that tell their values, filters,
    links to each run's record. Beside it, in PAGE-files/, are the paper's Table 1 (LaTeX,
    Markdown), Figures 2 and 3, the curves of every task (PNG, PDF), and the numbers: runs.csv and
    marl-eval.json. docs/report.md explains them.
    """

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The directory of a study, as 'ratiosym study' made it; it may still be running."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PAGE")] = None
    """The page (.html). By default report.html in the study's directory."""
    seed: int = 0
    """Of the bootstrap. The same study and seed give the same files, byte for byte."""

    def run(self) -> None:
        """Write the report and show its table."""
        from ratiosym.report.write import write_report

        analysis, files = write_report(self.directory, self.out, self.seed)
        show_report(analysis, files)


def show_report(analysis: "Analysis", files: list[Path]) -> None:
    """Table 1 in the terminal, what a reader has to know, and where everything is."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from ratiosym.cli.display import console
    from ratiosym.report.tables import Cell, scores_table

    def text(cell: Cell) -> Text:
        between = " " if len(scores.columns) <= 3 else "\n"
        rest = ("*" if cell.has_star else "") + (
            f"{between}({cell.interval})" if cell.interval else ""
        )
        return Text.assemble((cell.text, "bold" if cell.is_bold else ""), rest)

    scores = scores_table(analysis)
    title = f"{analysis.results.plan.name}: {scores.title.lower()}"
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
        show_edge=False,
    )
    table.add_column(scores.corner)
    for title in scores.columns.values():
        table.add_column(title, justify="right", overflow="fold")
    for row in scores.rows:
        table.add_row(row.name, *map(text, row.cells))
    console.print(table)
    console.print(scores.about)
    for note in analysis.notes:
        console.print(f"Note: {note}")
    for absence in analysis.results.absent:
        console.print(f"Not finished: {absence.path}: {absence.reason}", soft_wrap=True)
    console.print(f"Page: {files[0]}", soft_wrap=True)
    console.print(f"Figures, tables and numbers: {files[1].parent}/", soft_wrap=True)
    for path in files[1:]:
        console.print(f"  {path.name}", soft_wrap=True)
