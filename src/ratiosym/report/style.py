"""Common style of all figures: colours, lines, legends and saving."""

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation

from ratiosym.errors import InputError
from ratiosym.objectives import OBJECTIVES
from ratiosym.runs.files import write_whole

INK = "#333333"
OTHER = "#999999"  # anything that is not an objective
WIDTH = 7.0  # inches, the text width of a paper
OFFSET: dict[str, Any] = {"textcoords": "offset points"}

STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,  # embed text as text
}

# Each objective has its own colour, from the colour-blind-safe Okabe-Ito palette (with grey for
# black). The paper's variants also have dashed lines, so that no figure relies on colour alone.
_DASHES: dict[str, tuple[float, ...]] = {
    "mappo-asymmetric": (4, 1.5),
    "maspo-asymmetric": (4, 1.5),
    "mars-multiplicative": (5, 1, 1, 1),
    "mars-additive": (1.5, 1),
}
_FREE_DASHES = ((3.0, 1.0), (1.0, 1.0), (6.0, 1.0, 1.0, 1.0, 1.0, 1.0))


class LineStyle(NamedTuple):
    """Line style of one algorithm, in every figure and on the page."""

    title: str
    colour: str
    dashes: tuple[float, ...]  # lengths in line widths; empty for a solid line

    def line(self, linewidth: float = 1.6) -> dict[str, Any]:
        """Return arguments of ``plot``."""
        pattern = (0, self.dashes) if self.dashes else "-"
        return {
            "color": self.colour,
            "linestyle": pattern,
            "linewidth": linewidth,
            "label": self.title,
        }

    def band(self, alpha: float = 0.18) -> dict[str, Any]:
        """Return arguments of ``fill_between``."""
        return {"color": self.colour, "alpha": alpha, "linewidth": 0}


def line_styles(titles: Mapping[str, str]) -> dict[str, LineStyle]:
    """Return a style per algorithm label.

    Objectives have their own colour; other labels get unused colours and dashed lines.
    """
    free = [o.colour for name, o in OBJECTIVES.items() if name not in titles]
    others = [name for name in titles if name not in OBJECTIVES]
    styles = {}
    for name, title in titles.items():
        if name in OBJECTIVES:
            styles[name] = LineStyle(title, OBJECTIVES[name].colour, _DASHES.get(name, ()))
        else:
            index = others.index(name)
            colour = free[index] if index < len(free) else OTHER
            styles[name] = LineStyle(title, colour, _FREE_DASHES[index % len(_FREE_DASHES)])
    return styles


def objective_styles(
    names: Mapping[str, Any] | list[str] | tuple[str, ...],
) -> dict[str, LineStyle]:
    """Return styles with the objectives' titles, or the names themselves."""
    return line_styles({n: OBJECTIVES[n].title if n in OBJECTIVES else n for n in names})


def add_legend(figure: Figure, styles: Mapping[str, LineStyle], place: str = "upper") -> None:
    """Add one legend outside all panels, above them as in the paper, and room for it."""
    width, height = figure.get_size_inches()
    widest = 0.6 + 0.062 * max(len(style.title) for style in styles.values())  # inches, at 8 points
    columns = min(len(styles), max(1, int(width / widest)))
    figure.set_size_inches(width, height + 0.17 * -(-len(styles) // columns))
    handles = [Line2D([], [], **style.line()) for style in styles.values()]
    figure.legend(handles=handles, loc=f"outside {place} center", ncols=columns)


class PlainLogFormatter(LogFormatterSciNotation):
    """Logarithmic labels that show 1.02 rather than 1.02 × 10⁰."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Format one tick."""
        label = super().__call__(x, pos)
        return f"{x:g}" if label and 1e-2 <= x <= 1e2 else label


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Save atomically as .png or .pdf."""
    path = Path(path)
    if path.suffix not in (".png", ".pdf"):
        raise InputError(
            f"A figure is saved as .png or .pdf, not as '{path.suffix}' ({path}). Change the "
            f"suffix."
        )
    content = io.BytesIO()
    # Without a date, the same numbers give the same bytes.
    metadata = {"CreationDate": None} if path.suffix == ".pdf" else None
    figure.savefig(content, format=path.suffix[1:], dpi=200, metadata=metadata)
    write_whole(path, content.getvalue())
