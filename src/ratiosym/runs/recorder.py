"""Recording of runs during training: tables, checkpoints, summaries and trackers."""

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
from ratiosym.runs.state import flatten, is_key
from ratiosym.runs.tables import Row, restore_table, write_table
from ratiosym.runs.trackers import MakeTracker, RunInfo, TrackerGroup
from ratiosym.types import EnvSpec


class Recorder:
    """Writes the tables, trackers, checkpoints and summaries of runs.

    With several processes, only the first one writes; the others only take part in gathering.
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
        self.checkpoint_seconds = checkpoint_seconds  # minimum time between checkpoints
        self.began = self.last_saved = monotonic()
        self.waiting: list[list[Row]] = []  # updates before the first evaluation
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
        """Report problems such as a full disk with a message that says what to do."""
        first = self.runs[0].directory
        out = first if len(self.runs) == 1 else first.parent
        return files.reporting_write_errors(
            out,
            f"The run has stopped; everything written before is kept. Once the problem is fixed, "
            f"resume it with: ratiosym train --resume '{out}'",
        )

    def add_updates(self, rows: list[Row]) -> None:
        """Record an update of every seed.

        The first one waits for the checkpoint of the evaluation before training, which comes after
        it: a checkpoint covers all rows written before it.
        """
        self.waiting.append(rows)
        if self.runs[0].returns:
            self.write_waiting()

    def write_waiting(self) -> None:
        """Write the updates that have not been written yet."""
        while self.waiting:
            self.append("training", self.waiting.pop(0))

    def add_evaluations(self, rows: list[Row]) -> None:
        """Record an evaluation of every seed."""
        for run, row in zip(self.runs, rows, strict=True):
            run.note_evaluation(row)
        self.append("evaluations", rows)

    def append(self, table: str, rows: list[Row]) -> None:
        """Append a row per seed to its table and its trackers."""
        if not self.written:
            return
        with self.reporting():
            for tables, row in zip(self.tables, rows, strict=True):
                tables[table].append(row)
        for group, row in zip(self.trackers, rows, strict=True):
            group.log(table.removesuffix("s"), row)

    def is_checkpoint_due(self, update: int) -> bool:
        """Whether to save: at the first and last evaluation, and if enough time has passed."""
        if update in (0, self.runs[0].config.num_updates):
            return True
        # The first process decides, as clocks differ and the state is gathered from all processes.
        return agree(monotonic() - self.last_saved >= self.checkpoint_seconds)

    def save(self, update: int, state: TrainState) -> None:
        """Save a checkpoint of each seed, after flushing the rows that belong to it."""
        plain = jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, state)
        states = split_seeds(to_host(plain), len(self.runs))
        with self.reporting():
            for run, tables, one in zip(self.written, self.tables, states, strict=False):
                extents = {name: dataclasses.asdict(table.sync()) for name, table in tables.items()}
                checkpoint.save(run.checkpoints, flatten(one), self.meta(run, update, extents))
        self.last_saved = monotonic()
        self.write_waiting()

    def meta(self, run: Run, update: int, extents: dict[str, dict[str, Any]]) -> checkpoint.Meta:
        """Return the metadata of a checkpoint."""
        return checkpoint.Meta(
            update=update,
            config=run.config.to_dict(),
            spec=self.spec.to_dict(),
            versions=provenance.versions(),
            returns=dataclasses.asdict(run.returns) if run.returns else {},
            tables=extents,
        )

    def finish(self, episodes: list[Episodes]) -> None:
        """Write the summaries, and restore tables that were removed in the meantime."""
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
                    # The summary comes last, as a sign that everything else is complete.
                    write_table(run.directory / ABSOLUTE, episode_rows(absolute))
                    files.write_json(run.directory / SUMMARY, run.summary)


def from_first_process(value: float) -> float:
    """Return the first process's number on every process."""
    if jax.process_count() == 1:
        return value
    from jax.experimental import multihost_utils

    return float(multihost_utils.broadcast_one_to_all(np.float32(value)))
