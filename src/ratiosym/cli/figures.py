"""``ratiosym figures``: draw objectives, runs and AeroJAX's flight model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ratiosym.cli.arguments import Arg, Command
from ratiosym.errors import InputError


@dataclass(frozen=True)
class Figures(Command):
    """Draw objectives, learning curves, or AeroJAX's flight model.

    examples:
      ratiosym figures objectives --out figure1.png
      ratiosym figures runs runs/mars runs/mappo --out curves.png
      ratiosym figures runs runs/mars --show mean_return rooms_cleared entropy
      ratiosym figures aerojax --out aerojax.png

    Figures 2 and 3 of the paper are part of 'ratiosym report'.
    """

    what: Annotated[
        Literal["objectives", "runs", "curves", "aerojax"],
        Arg("{objectives,runs,aerojax}", is_positional=True),
    ]
    """objectives: Figure 1, the three surrogates and their gradients. runs (or curves): learning
    curves and ratios. aerojax: turn rates, energy, glide and stall, as measured in flight and as
    the equations predict."""
    directories: Annotated[tuple[Path, ...], Arg("DIR", is_positional=True)] = ()
    """The directories of runs, for 'runs'."""
    out: Annotated[Path | None, Arg("FILE")] = None
    """The picture, .png or .pdf (default: objectives.png, curves.png or aerojax.png). Ratios go
    into a second file, as in curves-ratios.png; AeroJAX has four, as in aerojax-turns.png."""
    show: Annotated[tuple[str, ...], Arg("COLUMN")] = ("mean_return",)
    """For 'runs': columns of evaluations.csv or training.csv, one panel each (docs/metrics.md)."""

    def run(self) -> None:
        """Draw."""
        if self.out is not None and self.out.suffix not in (".png", ".pdf"):
            raise InputError(f"`out` is '{self.out}'; its name must end in .png or .pdf.")
        if self.what not in ("runs", "curves") and self.directories:
            raise InputError(f"Unexpected argument '{self.directories[0]}': only 'runs' takes DIR.")
        for path in self.draw():
            print(path)

    def draw(self) -> list[Path]:
        """The pictures."""
        if self.what == "objectives":
            from ratiosym.report.figures import objectives_figure

            path = self.out or Path("objectives.png")
            objectives_figure(path)
            return [path]
        if self.what == "aerojax":
            from ratiosym.report.aerojax import draw_all

            return draw_all(self.out or Path("aerojax.png"))
        from ratiosym.report.runs import draw_runs

        return draw_runs(self.directories, self.out or Path("curves.png"), self.show)
