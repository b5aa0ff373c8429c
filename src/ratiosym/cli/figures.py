"""``ratiosym figures``: draw objectives, runs, trust regions and AeroJAX's flight model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ratiosym.cli.arguments import Arg, Command
from ratiosym.errors import InputError


@dataclass(frozen=True)
class Figures(Command):
    """Draw objectives, learning curves, returns by trust region, or AeroJAX's flight model.

    examples:
      ratiosym figures objectives --out figure1.png
      ratiosym figures runs runs/mars runs/mappo --out curves.png
      ratiosym figures runs runs/mars --show mean_return rooms_cleared entropy
      ratiosym figures response studies/search-* --out response.png
      ratiosym figures aerojax --out aerojax.png

    Figures 2 and 3 of the paper are part of 'ratiosym report'.
    """

    what: Annotated[
        Literal["objectives", "runs", "curves", "response", "aerojax"],
        Arg("{objectives,runs,response,aerojax}", is_positional=True),
    ]
    """objectives: Figure 1, the three surrogates and their gradients. runs (or curves): learning
    curves and ratios. response: return against the width of the trust region, for every objective
    and task. aerojax: turn rates, energy, glide and stall, as measured in flight and as
    the equations predict."""
    directories: Annotated[tuple[Path, ...], Arg("DIR", is_positional=True)] = ()
    """For 'runs': directories of runs. For 'response': studies whose labels share an objective and
    differ in its parameters, directories of 'ratiosym reproduce', or searches of the trust
    region."""
    out: Annotated[Path | None, Arg("FILE")] = None
    """The picture, .png or .pdf (default: objectives.png, curves.png, response.png or aerojax.png).
    Ratios go into a second file, as in curves-ratios.png; AeroJAX has four, as in
    aerojax-turns.png."""
    show: Annotated[tuple[str, ...], Arg("COLUMN")] = ("mean_return",)
    """For 'runs': columns of evaluations.csv or training.csv, one panel each
    (docs/concepts/run-directory.md)."""

    def check(self) -> None:
        """Reject a wrong file name and directories that hold nothing to draw."""
        from ratiosym.runs.directory import all_runs
        from ratiosym.runs.files import check_suffix

        if self.out is not None:
            check_suffix(self.out, (".png", ".pdf"))
        if self.what in ("objectives", "aerojax") and self.directories:
            raise InputError(
                f"Unexpected argument '{self.directories[0]}': only 'runs' and 'response' take DIR."
            )
        if self.what in ("runs", "curves"):
            all_runs(self.directories)
        if self.what == "response" and not self.directories:
            raise InputError("'response' needs at least one DIR: a study or searches.")

    def run(self) -> None:
        """Draw."""
        for path in self.draw():
            print(path)

    def draw(self) -> list[Path]:
        """Draw the figures and return their files."""
        if self.what == "objectives":
            from ratiosym.report.figures import objectives_figure

            path = self.out or Path("objectives.png")
            objectives_figure(path)
            return [path]
        if self.what == "aerojax":
            from ratiosym.report.aerojax import draw_all

            return draw_all(self.out or Path("aerojax.png"))
        if self.what == "response":
            return self.draw_response(self.out or Path("response.png"))
        from ratiosym.report.runs import draw_runs

        return draw_runs(self.directories, self.out or Path("curves.png"), self.show)

    def draw_response(self, path: Path) -> list[Path]:
        """Draw the response figure."""
        from ratiosym.report.response import read_response, response_figure

        response_figure(read_response(self.directories), path)
        return [path]
