"""Trackers: where else the numbers of a run go while it trains.

A tracker has three methods (``Tracker``). ``tensorboard`` and ``wandb`` are built in; one of your
own is named as ``package.module:function`` or ``path/to/file.py:function``, a function or class
without arguments that gives a tracker. Each seed has a tracker of its own. None is used unless
asked for, and its library is not loaded before.
"""

import os
import secrets
import time
import warnings
from collections.abc import Callable, Sequence
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
    """What a tracker learns of its run."""

    directory: Path
    config: RunConfig
    resumed_at: int | None  # the update after which the run continues; None for a new one

    @property
    def first_step(self) -> int:
        """Rows to come are of this number of environment steps, or of more."""
        if self.resumed_at is None:
            return 0
        return self.resumed_at * self.config.shape.steps_per_update + 1


class Tracker(Protocol):
    """Takes in one run. Called by the process that writes the run's files, and by no other."""

    def begin(self, run: RunInfo) -> None:
        """Before the first row. Rows that an interrupted run logged from ``run.first_step`` on come
        again.
        """

    def log(self, table: str, row: Row) -> None:
        """A row of ``training.csv`` or ``evaluations.csv``: ``table`` is "training" or
        "evaluation", ``row`` has "update", "steps" and the table's columns.
        """

    def end(self, summary: dict[str, Any] | None) -> None:
        """After the last row, with ``summary.json``, or None where the run was interrupted."""


MakeTracker = Callable[[], Tracker]


class TrackerGroup:
    """The trackers of one run. One that raises is left out from then on: training matters more."""

    def __init__(self, trackers: dict[str, MakeTracker], run: RunInfo) -> None:
        self._trackers: dict[str, Tracker] = {}
        for name, make in trackers.items():
            if (tracker := self._try(name, make)) is not None:
                self._trackers[name] = tracker
        self._each(lambda tracker: tracker.begin(run))

    def log(self, table: str, row: Row) -> None:
        """Pass a row on."""
        self._each(lambda tracker: tracker.log(table, row))

    def end(self, summary: dict[str, Any] | None) -> None:
        """Close all."""
        self._each(lambda tracker: tracker.end(summary))

    def _each(self, action: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            self._try(name, lambda tracker=tracker: action(tracker))  # type: ignore[misc]

    def _try(self, name: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            self._trackers.pop(name, None)
            warnings.warn(
                f"The tracker '{name}' has failed and gets no more of this run, which continues "
                f"({type(error).__name__}: {error}).",
                RuntimeWarning,
                stacklevel=2,
            )
            return None


def load_trackers(names: Sequence[str]) -> dict[str, MakeTracker]:
    """Trackers by name; InputError for an unknown one or where its library is missing."""
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
            f"that gives a tracker."
        )
    return make


def scalars(table: str, row: Row) -> Row:
    """The finite numbers of a row, named ``table/column``."""
    return {
        f"{table}/{name}": value
        for name, value in row.items()
        if name not in ("update", "steps") and np.isfinite(value)
    }


class TensorBoard:
    """Events under ``tensorboard/``; see them with ``tensorboard --logdir DIR``.

    Written here and not through tensorboardX's ``SummaryWriter``: its queue cannot be flushed, and
    what a checkpoint has behind it must be on disk.
    """

    def begin(self, run: RunInfo) -> None:
        """Open a further file of events. What an interrupted run wrote after the checkpoint is
        hidden by TensorBoard itself, which the event of a new start tells to: the history is not
        written again.
        """
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        self._proto, self._summary = event_pb2, summary_pb2
        directory = run.directory / "tensorboard"
        directory.mkdir(exist_ok=True)
        earlier = len(list(directory.glob("events*")))
        # Names hold the second in which a file was opened; two within a second must differ.
        self._writer = EventsWriter(str(directory / "events"), f".{earlier:04d}")
        if earlier:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._write(run.first_step, session_log=start)

    def log(self, table: str, row: Row) -> None:
        """Draw a row at its number of environment steps."""
        values = [
            self._summary.Summary.Value(tag=name, simple_value=value)
            for name, value in scalars(table, row).items()
        ]
        self._write(int(row["steps"]), summary=self._summary.Summary(value=values))
        if table == "evaluation":
            self._writer.flush()  # a checkpoint may follow

    def end(self, summary: dict[str, Any] | None) -> None:
        """Write what is still in memory."""
        self._writer.close()

    def _write(self, step: int, **content: Any) -> None:
        event = self._proto.Event(wall_time=time.time(), step=step, **content)
        self._writer.write_event(event)


class WeightsAndBiases:
    """A run on Weights & Biases; the same one again after a resume. Its project is the environment
    variable WANDB_PROJECT, or else ``ratiosym``.
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
            reinit="create_new",  # seeds side by side have a run each
        )
        self._run.define_metric("*", step_metric="steps")

    def log(self, table: str, row: Row) -> None:
        """Send a row."""
        self._run.log({**scalars(table, row), "steps": row["steps"]})

    def end(self, summary: dict[str, Any] | None) -> None:
        """Send what is left."""
        self._run.finish()


BUILT_IN: dict[str, tuple[MakeTracker, str]] = {
    "tensorboard": (TensorBoard, "tensorboardX"),
    "wandb": (WeightsAndBiases, "wandb"),
}
