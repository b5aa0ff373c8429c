"""A whole report: the page, and figures, tables and numbers in a folder beside it."""

import os
from pathlib import Path

from ratiosym.errors import InputError
from ratiosym.report.analysis import Analysis, analyse
from ratiosym.report.export import to_csv, to_marl_eval
from ratiosym.report.page import make_page
from ratiosym.report.paper import draw_paper
from ratiosym.report.results import load
from ratiosym.report.tables import make_tables, to_latex, to_markdown
from ratiosym.runs.files import write_whole


def write_report(
    directory: str | os.PathLike[str], page: str | os.PathLike[str] | None = None, seed: int = 0
) -> tuple[Analysis, list[Path]]:
    """Report on the study in a directory; the numbers, and the files: the page first.

    ``page`` is report.html in the study's directory unless given. The same study and seed give the
    same bytes.
    """
    page = Path(page) if page is not None else Path(directory) / "report.html"
    if page.suffix not in (".html", ".htm"):
        raise InputError(f"--out is '{page}'; the page's name must end in .html.")
    if seed < 0:
        raise InputError(f"--seed is {seed}; it must be 0 or more.")
    analysis = analyse(load(directory), seed)
    try:
        files = write_files(analysis, page.with_name(f"{page.stem}-files"))
        write_whole(page, make_page(analysis, page, files))
    except OSError as error:
        raise InputError(
            f"'{page}' cannot be written ({error.strerror}). Choose another --out."
        ) from None
    return analysis, [page, *files]


def write_files(analysis: Analysis, folder: Path) -> list[Path]:
    """Everything but the page."""
    contents = {"runs.csv": to_csv(analysis), "marl-eval.json": to_marl_eval(analysis)}
    for table in make_tables(analysis):
        contents[f"{table.name}.md"] = to_markdown(table, analysis.notes)
        contents[f"{table.name}.tex"] = to_latex(table, analysis.notes)
    for name, content in contents.items():
        write_whole(folder / name, content)
    return [*draw_paper(analysis, folder), *(folder / name for name in contents)]
