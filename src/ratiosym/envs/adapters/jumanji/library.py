"""Helpers of the adapters: importing jumanji, and drawing with its viewers."""

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from ratiosym.errors import MissingLibraryError


def check_library(task: str) -> None:
    """Raise an error that says how to install jumanji if it is missing."""
    if find_spec("jumanji") is None:
        raise MissingLibraryError(
            f"Task {task!r} needs the library jumanji. Install it with: pip install "
            f"'ratiosym[jumanji]'"
        )


@contextmanager
def making() -> Iterator[None]:
    """Context in which to import the library and create its objects, lazily, as both are slow.

    Arrays created inside are concrete, even while an outer function is being traced.
    """
    with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"), hidden_notebook():
        yield


@contextmanager
def hidden_notebook() -> Iterator[None]:
    """Hide IPython: imported in a notebook, jumanji switches matplotlib to a backend that may not
    be installed.
    """
    is_notebook = getattr(builtins, "__IPYTHON__", False)
    if is_notebook:
        builtins.__IPYTHON__ = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if is_notebook:
            builtins.__IPYTHON__ = is_notebook  # type: ignore[attr-defined]


def draw(viewer: Any, scene: Any, side: float | None = None) -> np.ndarray:
    """Draw ``scene`` with one of the library's viewers: uint8 ``[400, 400, 3]``.

    The viewer gets a canvas of ours: its own comes from pyplot, which keeps figures alive and would
    open a window. ``side`` fixes the square to show, instead of fitting it to the contents.
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
    """Convert a state to NumPy arrays, as the viewers read one number at a time."""
    return jax.tree.map(np.asarray, state.replace(key=None))
