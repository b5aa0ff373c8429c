"""What a run leaves on disk while it trains: tables, checkpoints, summaries; and its trackers."""

import dataclasses
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any

import jax
import numpy as np

from ratiosym.learning.devices import agree
from ratiosym.learning.evaluate import Episodes
from ratiosym.learning.learner import TrainState
from ratiosym.learning.mesh import to_host
from ratiosym.learning.train import split_seeds
from ratiosym.runs import checkpoint, files, provenance
from ratiosym.runs.directory import ABSOLUTE, SUMMARY, Run
from ratiosym.runs.rows import episode_rows, summarise
from ratiosym.runs.tables import Row, restore_table, write_table
from ratiosym.runs.trackers import MakeTracker, RunInfo, TrackerGroup
from ratiosym.types import EnvSpec


class Recorder:
    """Writes what happens to runs: tables, trackers, checkpoints, summaries.

    With several processes the first one writes, and the others only take part in gathering.
    """

    def __init__(
        self,
        runs: list[Run],
        spec: EnvSpec,
        resumed_at: int | None,
        trackers: dict[str, MakeTracker],
        checkpoint_seconds: float,
    ) -> None:
        self.runs, self.spec = runs, spec
        self.checkpoint_seconds = checkpoint_seconds  # evaluations closer than this share one
        self.began = self.last_saved = monotonic()
        self.written = runs if jax.process_index() == 0 else []
        with self.reporting():
            self.tables = [run.open_tables() for run in self.written]
        self.trackers = [
            TrackerGroup(trackers, RunInfo(run.directory, run.config, resumed_at))
            for run in self.written
        ]

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        for tables in self.tables:
            for table in tables.values():
                table.close()
        for run, group in zip(self.written, self.trackers, strict=True):
            group.end(run.summary or None)

    def reporting(self) -> AbstractContextManager[None]:
        """A full disk and the like in one sentence."""
        first = self.runs[0].directory
        out = first if len(self.runs) == 1 else first.parent
        return files.reporting_write_errors(
            out,
            f"The run has stopped; what it wrote before is kept. When the cause is gone, resume "
            f"it: ratiosym train --resume '{out}'",
        )

    def add_updates(self, rows: list[Row]) -> None:
        """An update of every seed."""
        self.append("training", rows)

    def add_evaluations(self, rows: list[Row]) -> None:
        """An evaluation of every seed."""
        for run, row in zip(self.runs, rows, strict=True):
            run.note_evaluation(row)
        self.append("evaluations", rows)

    def append(self, table: str, rows: list[Row]) -> None:
        """A row for every seed, to its table and its trackers."""
        if not self.written:
            return
        with self.reporting():
            for tables, row in zip(self.tables, rows, strict=True):
                tables[table].append(row)
        for group, row in zip(self.trackers, rows, strict=True):
            group.log(table.removesuffix("s"), row)

    def is_checkpoint_due(self, update: int) -> bool:
        """At the first and the last evaluation, and at others that are far enough apart in time."""
        if update in (0, self.runs[0].config.num_updates):
            return True
        # Clocks differ: the first process says when, for a state is gathered from all of them.
        return agree(monotonic() - self.last_saved >= self.checkpoint_seconds)

    def save(self, update: int, state: TrainState) -> None:
        """A checkpoint for each seed, after the rows that belong to it."""
        plain = jax.tree.map(lambda x: jax.random.key_data(x) if checkpoint.is_key(x) else x, state)
        states = split_seeds(to_host(plain), len(self.runs))
        with self.reporting():
            for run, tables, one in zip(self.written, self.tables, states, strict=False):
                extents = {name: dataclasses.asdict(table.sync()) for name, table in tables.items()}
                checkpoint.save(run.checkpoints, one, self.meta(run, update, extents))
        self.last_saved = monotonic()

    def meta(self, run: Run, update: int, extents: dict[str, dict[str, Any]]) -> checkpoint.Meta:
        """What a checkpoint says of itself."""
        return checkpoint.Meta(
            update=update,
            config=run.config.to_dict(),
            spec=self.spec.to_dict(),
            versions=provenance.versions(),
            returns=dataclasses.asdict(run.returns) if run.returns else {},
            tables=extents,
        )

    def finish(self, episodes: list[Episodes]) -> None:
        """Summaries, beside tables that are whole even if they were removed meanwhile."""
        seconds = monotonic() - self.began
        with self.reporting():
            for run, tables in zip(self.written, self.tables, strict=True):
                for name, table in tables.items():
                    restore_table(*run.table_files(name), table.sync())
        for run, absolute in zip(self.runs, episodes, strict=True):
            with self.reporting():
                speed = float(np.median(run.training["steps_per_second"])) if self.written else 0.0
                run.summary = summarise(run, absolute, from_first_process(speed), seconds)
                if self.written:
                    # The summary last: it says that everything else is there.
                    write_table(run.directory / ABSOLUTE, episode_rows(absolute))
                    files.write_json(run.directory / SUMMARY, run.summary)


def from_first_process(value: float) -> float:
    """A number of the first process, on every process."""
    if jax.process_count() == 1:
        return value
    from jax.experimental import multihost_utils

    return float(multihost_utils.broadcast_one_to_all(np.float32(value)))
