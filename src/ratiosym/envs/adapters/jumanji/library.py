"""What the three adapters share: how the library is imported and called."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from ratiosym.errors import MissingLibraryError


def check_library(task: str) -> None:
    """One line on how to get jumanji for ``task``, where it is missing."""
    if find_spec("jumanji") is None:
        raise MissingLibraryError(
            f"Task {task!r} needs the library jumanji. Install it with: pip install "
            f"'ratiosym[jumanji]'"
        )


@contextmanager
def making() -> Iterator[None]:
    """The place to import the library and make its objects, which takes up to a second each: done
    when needed.

    Both make arrays: concrete ones here, even where an outer function is being traced.
    """
    with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
        yield


def draw(viewer: Any, scene: Any, side: float | None = None) -> np.ndarray:
    """What one of the library's viewers draws of ``scene``: uint8 ``[400, 400, 3]``.

    It draws on a canvas of ours: its own comes from pyplot, which keeps figures and would open a
    window. ``side`` is that of the square to be shown where the viewer would show what there is to
    see.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4), dpi=100, layout="tight")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    viewer._get_fig_ax = lambda *_, **__: (figure, axes)
    viewer.render(scene)
    if side is not None:
        axes.set(xlim=(0, side), ylim=(0, side), xticks=[], yticks=[], aspect="equal")
        canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def on_host(state: Any) -> Any:
    """A state of the library as NumPy arrays, which its viewers read one number at a time."""
    return jax.tree.map(np.asarray, state.replace(key=None))
