"""``ratiosym report``: turn a study into a page, tables and figures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ratiosym.cli.arguments import MAX_SEED, Arg, Command
from ratiosym.errors import InputError


@dataclass(frozen=True)
class Report(Command):
    """Turn a study into tables, figures and one page.

    examples:
      ratiosym report studies/smoke
      ratiosym report studies/smoke --out results/smoke.html
      ratiosym report studies/mpe studies/smax --out both.html       as one study
      ratiosym report studies/final --searches studies/search-*

    The page works offline in any browser, with sortable tables, curves that show their values,
    filters, settings, and links to the records of all runs. PAGE-files/ next to it contains the
    paper's Table 1 (LaTeX, Markdown), Figures 2 and 3, the curves of every task (PNG, PDF), and the
    numbers in runs.csv and marl-eval.json. docs/how-to/reports.md explains them.
    """

    directories: Annotated[tuple[Path, ...], Arg("DIR", is_positional=True)] = ()
    """The directory of a study, which may still be running; several directories are reported as one
    study. 'ratiosym study run' and 'ratiosym reproduce' create them."""
    out: Annotated[Path | None, Arg("PAGE")] = None
    """The page, .html (default: report.html in the first directory)."""
    searches: Annotated[tuple[Path, ...], Arg("DIR")] = ()
    """Directories that vary the trust region, used for the response figure only. The searches of
    'ratiosym reproduce' in DIR are found without this option."""
    seed: Annotated[int, Arg(low=0, high=MAX_SEED)] = 0
    """The seed of the bootstrap. The same study and seed produce identical files."""

    def check(self) -> None:
        """Reject a page that is not HTML, and directories without a study."""
        from ratiosym.experiments.study import read_study
        from ratiosym.runs.files import PAGE_SUFFIXES, check_suffix

        if self.out is not None:
            check_suffix(self.out, PAGE_SUFFIXES)
        if not self.directories:
            raise InputError("Name at least one DIR, created by 'ratiosym study run'.")
        for directory in self.directories:
            read_study(directory)

    def run(self) -> None:
        """Write the report and show its table."""
        from ratiosym.cli.study_display import show_report
        from ratiosym.report.write import write_report

        analysis, files = write_report(self.directories, self.out, self.seed, self.searches)
        show_report(analysis, files)
