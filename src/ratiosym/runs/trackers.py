"""Trackers, which log the progress of a run to other tools.

A tracker has three methods (``Tracker``). ``tensorboard`` and ``wandb`` are built in. Custom ones
are given as ``package.module:function`` or ``path/to/file.py:function``: a function or class
without arguments that returns a tracker. Each seed has its own tracker. None is used by default,
and libraries are loaded only when used.
"""

import os
import secrets
import time
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ratiosym.errors import InputError, MissingLibraryError
from ratiosym.learning.config import RunConfig
from ratiosym.plain import unknown_name
from ratiosym.references import canonical_reference, is_reference, load_reference
from ratiosym.runs.files import write_whole
from ratiosym.runs.tables import Row


@dataclass(frozen=True)
class RunInfo:
    """Information about a run for its trackers."""

    directory: Path
    config: RunConfig
    resumed_at: int | None  # update after which the run continues; None for a new run

    @property
    def first_step(self) -> int:
        """Smallest number of environment steps among the rows to come."""
        if self.resumed_at is None:
            return 0
        return self.resumed_at * self.config.shape.steps_per_update + 1


class Tracker(Protocol):
    """Logs one run. Called only in the process that writes the run's files."""

    def begin(self, run: RunInfo) -> None:
        """Called before the first row.

        Rows from ``run.first_step`` on that an interrupted run already logged are logged again.
        """

    def log(self, table: str, row: Row) -> None:
        """Log a row of ``training.csv`` or ``evaluations.csv``.

        ``table`` is "training" or "evaluation"; ``row`` has "update", "steps" and the table's other
        columns.
        """

    def end(self, summary: dict[str, Any] | None) -> None:
        """Called after the last row, with ``summary.json``, or None if the run was interrupted."""


MakeTracker = Callable[[], Tracker]


class TrackerGroup:
    """The trackers of one run. One that raises is dropped, so that training continues."""

    def __init__(self, trackers: dict[str, MakeTracker], run: RunInfo) -> None:
        self._trackers: dict[str, Tracker] = {}
        for name, make in trackers.items():
            if (tracker := self._try(name, make)) is not None:
                self._trackers[name] = tracker
        self._each(lambda tracker: tracker.begin(run))

    def log(self, table: str, row: Row) -> None:
        """Pass a copy of a row to each tracker."""
        self._each(lambda tracker: tracker.log(table, dict(row)))

    def end(self, summary: dict[str, Any] | None) -> None:
        """Close all, with a copy of the summary for each."""
        self._each(lambda tracker: tracker.end(deepcopy(summary)))

    def _each(self, action: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            self._try(name, lambda tracker=tracker: action(tracker))  # type: ignore[misc]

    def _try(self, name: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            self._trackers.pop(name, None)
            warnings.warn(
                f"The tracker '{name}' has failed ({type(error).__name__}: {error}). The run "
                f"continues without it.",
                RuntimeWarning,
                stacklevel=2,
            )
            return None


def load_trackers(names: Sequence[str]) -> dict[str, MakeTracker]:
    """Load trackers by name; raise ``InputError`` if one is unknown or its library missing."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"`track` is {names!r}; it must be a list of names, such as ['tensorboard']."
        )
    return {canonical_reference(name): _load_tracker(name) for name in names}


def _load_tracker(name: str) -> MakeTracker:
    if name in BUILT_IN:
        make, library = BUILT_IN[name]
        try:
            __import__(library)
        except ImportError:
            raise MissingLibraryError(
                f"The tracker '{name}' needs the library {library}. Install it with: "
                f"pip install 'ratiosym[{name}]'"
            ) from None
        return make
    if not is_reference(name):
        raise unknown_name(
            "tracker",
            name,
            BUILT_IN,
            f" Choose one of: {', '.join(BUILT_IN)}; or package.module:function.",
        )
    make = load_reference(name, "tracker")
    if not callable(make):
        raise InputError(
            f"The tracker '{name}' is {make!r}; it must be a function or class without arguments "
            f"that returns a tracker."
        )
    return make


def scalars(table: str, row: Row) -> Row:
    """Return the finite numbers of a row, named ``table/column``."""
    return {
        f"{table}/{name}": value
        for name, value in row.items()
        if name not in ("update", "steps") and np.isfinite(value)
    }


class TensorBoard:
    """Writes events to ``tensorboard/``; view them with ``tensorboard --logdir DIR``.

    tensorboardX's ``SummaryWriter`` is not used, as its queue cannot be flushed, and everything
    before a checkpoint must be on disk.
    """

    def begin(self, run: RunInfo) -> None:
        """Open another event file.

        The start event makes TensorBoard hide what an interrupted run wrote after the checkpoint,
        so the history need not be rewritten.
        """
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        self._proto, self._summary = event_pb2, summary_pb2
        directory = run.directory / "tensorboard"
        directory.mkdir(exist_ok=True)
        earlier = len(list(directory.glob("events*")))
        # File names contain the second in which they are opened; two within a second must differ.
        self._writer = EventsWriter(str(directory / "events"), f".{earlier:04d}")
        if earlier:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._write(run.first_step, session_log=start)

    def log(self, table: str, row: Row) -> None:
        """Log a row at its number of environment steps."""
        values = [
            self._summary.Summary.Value(tag=name, simple_value=value)
            for name, value in scalars(table, row).items()
        ]
        self._write(int(row["steps"]), summary=self._summary.Summary(value=values))
        if table == "evaluation":
            self._writer.flush()  # a checkpoint may follow

    def end(self, summary: dict[str, Any] | None) -> None:
        """Flush what is still in memory."""
        self._writer.close()

    def _write(self, step: int, **content: Any) -> None:
        event = self._proto.Event(wall_time=time.time(), step=step, **content)
        self._writer.write_event(event)


class WeightsAndBiases:
    """Logs to a run on Weights & Biases, which is continued after a resume.

    The project is the environment variable WANDB_PROJECT, or ``ratiosym``.
    """

    def begin(self, run: RunInfo) -> None:
        """Open it."""
        import wandb

        identity = run.directory / "wandb.id"
        if not identity.exists():
            write_whole(identity, secrets.token_hex(4))
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "ratiosym"),
            id=identity.read_text(),
            resume="allow",
            dir=run.directory,
            config=run.config.to_dict(),
            settings=wandb.Settings(silent=True, console="off"),
            reinit="create_new",  # parallel seeds have a run each
        )
        self._run.define_metric("*", step_metric="steps")

    def log(self, table: str, row: Row) -> None:
        """Send a row."""
        self._run.log({**scalars(table, row), "steps": row["steps"]})

    def end(self, summary: dict[str, Any] | None) -> None:
        """Send the rest."""
        self._run.finish()


BUILT_IN: dict[str, tuple[MakeTracker, str]] = {
    "tensorboard": (TensorBoard, "tensorboardX"),
    "wandb": (WeightsAndBiases, "wandb"),
}
