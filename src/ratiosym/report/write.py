"""Writing a whole report: the page, and a folder of figures, tables and numbers next to it."""

import os
from collections.abc import Sequence
from pathlib import Path

from ratiosym.errors import InputError
from ratiosym.report.analysis import Analysis, analyse
from ratiosym.report.export import to_csv, to_marl_eval
from ratiosym.report.page import all_tables, make_page
from ratiosym.report.paper import draw_paper
from ratiosym.report.results import load
from ratiosym.report.tables import to_latex, to_markdown
from ratiosym.runs.files import PAGE_SUFFIXES, check_suffix, write_whole


def write_report(
    directories: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    page: str | os.PathLike[str] | None = None,
    seed: int = 0,
    searches: Sequence[str | os.PathLike[str]] = (),
) -> tuple[Analysis, list[Path]]:
    """Report on the study in one or several directories; return its numbers and files, page first.

    ``page`` defaults to report.html in the (first) directory. ``searches`` are directories that
    vary the trust region: they are drawn, not compared. The same study and seed give identical
    files.
    """
    if isinstance(directories, str | os.PathLike):
        directories = [directories]
    page = Path(page) if page is not None else Path(directories[0]) / "report.html"
    check_suffix(page, PAGE_SUFFIXES)
    if seed < 0:
        raise InputError(f"--seed is {seed}; it must be 0 or more.")
    analysis = analyse(load(*directories), seed, searches)
    try:
        files = write_files(analysis, page.with_name(f"{page.stem}-files"))
        write_whole(page, make_page(analysis, page, files))
    except OSError as error:
        raise InputError(
            f"'{page}' cannot be written ({error.strerror}). Choose another --out."
        ) from None
    return analysis, [page, *files]


def write_files(analysis: Analysis, folder: Path) -> list[Path]:
    """Write everything except the page."""
    contents = {"runs.csv": to_csv(analysis), "marl-eval.json": to_marl_eval(analysis)}
    for table in all_tables(analysis):
        contents[f"{table.name}.md"] = to_markdown(table, analysis.notes)
        contents[f"{table.name}.tex"] = to_latex(table, analysis.notes)
    for name, content in contents.items():
        write_whole(folder / name, content)
    return [*draw_paper(analysis, folder), *(folder / name for name in contents)]
