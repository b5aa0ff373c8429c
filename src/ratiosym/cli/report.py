"""``ratiosym report``: turn a study into a page, tables and figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ratiosym.cli.arguments import MAX_SEED, Arg, Command


@dataclass(frozen=True)
class Report(Command):
    """Turn a study into tables, figures and one page.

    examples:
      ratiosym report studies/smoke
      ratiosym report studies/smoke --out results/smoke.html

    The page works offline in any browser, with sortable tables, curves that show their values,
    filters, and links to the records of all runs. PAGE-files/ next to it contains the paper's
    Table 1 (LaTeX, Markdown), Figures 2 and 3, the curves of every task (PNG, PDF), and the numbers
    in runs.csv and marl-eval.json. docs/report.md explains them.
    """

    directory: Annotated[Path, Arg("DIR", is_positional=True)]
    """The directory of a study created by 'ratiosym study run', which may still be running."""
    out: Annotated[Path | None, Arg("PAGE")] = None
    """The page, .html (default: report.html in the study's directory)."""
    seed: Annotated[int, Arg(low=0, high=MAX_SEED)] = 0
    """The seed of the bootstrap. The same study and seed produce identical files."""

    def run(self) -> None:
        """Write the report and show its table."""
        from ratiosym.cli.study_display import show_report
        from ratiosym.report.write import write_report

        analysis, files = write_report(self.directory, self.out, self.seed)
        show_report(analysis, files)
