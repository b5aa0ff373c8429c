"""A run of a study as a job, with its progress and errors recorded.

``DIR/work/TASK/LABEL/`` contains the workers' files: ``seed-S.lock``, held while the run is being
worked on, ``seed-S.json``, its progress, and ``seed-S.log``, the output of its process.
"""

import traceback
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from time import monotonic
from typing import TYPE_CHECKING, Any

from ratiosym.experiments.jobs import job_file
from ratiosym.experiments.jobs.job import ending
from ratiosym.experiments.plans import PlannedRun
from ratiosym.runs import checkpoint
from ratiosym.runs.directory import clear_failure, read_failure, write_failure
from ratiosym.runs.files import clear_leftovers, write_json

if TYPE_CHECKING:
    from ratiosym.runs.loop import Progress

PROGRESS_SECONDS = 2.0  # between two records of a run's progress


@dataclass(frozen=True)
class RunJob:
    """A planned run, in the directory of its study."""

    study: Path
    planned: PlannedRun
    track: tuple[str, ...] = ()  # trackers
    origin: dict[str, Any] = field(default_factory=dict)  # of its settings, for its record

    @property
    def name(self) -> str:
        """Path of the run within the study."""
        return str(self.planned.path)

    @property
    def path(self) -> Path:
        """Prefix of its lock, log and notes.

        They are not in the run's directory, which contains exactly what 'ratiosym train' writes.
        """
        return self.study / "work" / self.planned.path.relative_to("runs")

    @property
    def directory(self) -> Path:
        """The run's own directory."""
        return self.study / self.planned.path

    @property
    def notes(self) -> Path:
        """File in which its worker records the progress."""
        return job_file(self, ".json")

    @property
    def is_done(self) -> bool:
        """Whether the run has finished."""
        return (self.directory / "summary.json").exists()

    def is_over(self) -> bool:
        """Whether the run has finished or failed."""
        return self.is_done or read_failure(self.directory) is not None

    def progress(self) -> float:
        """Environment steps up to the newest checkpoint, from which the run would be resumed."""
        updates = checkpoint.updates(self.directory / "checkpoint")
        return updates[-1] * self.planned.config.shape.steps_per_update if updates else 0

    def run(self) -> None:
        """Start the run or resume it."""
        from ratiosym.runs import loop  # imports JAX, which a study itself does not need

        clear_leftovers(self.directory)
        notes = ProgressNotes(self.notes)
        try:
            if (self.directory / "config.json").exists():
                loop.resume(self.directory, on_progress=notes.take, track=self.track)
            else:
                loop.start(
                    self.planned.config,
                    self.directory,
                    on_progress=notes.take,
                    track=self.track,
                    origin=self.origin,
                )
        except Exception as error:
            if ending.is_set():
                # Libraries turn the interrupt into errors of their own, which are not failures.
                raise KeyboardInterrupt from error
            what = f"{type(error).__name__}: {error}"
            write_failure(self.directory, what, traceback.format_exc())
        else:
            notes.write()

    def give_up(self, reason: str) -> None:
        """Record that the run failed because its workers died."""
        write_failure(self.directory, *reason.split("\n", 1))

    def forget_failure(self) -> None:
        """Make a failed run resumable."""
        clear_failure(self.directory)


class ProgressNotes:
    """Progress of a run, written to a file regularly.

    Times only cover this process, including its start.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began, self.written = monotonic(), float("-inf")
        self.first_steps: int | None = None
        self.values: dict[str, Any] = {}

    def take(self, progress: "Progress") -> None:
        """Update the notes."""
        if self.first_steps is None:
            self.first_steps = progress.steps
        self.values["steps"] = max(progress.steps, self.values.get("steps", 0))
        if progress.evaluations:
            self.values["mean_return"] = mean(row["mean_return"] for row in progress.evaluations)
        if progress.rows:
            self.values["steps_per_second"] = progress.rows[0]["steps_per_second"]
        if monotonic() - self.written >= PROGRESS_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the notes to disk."""
        self.written = monotonic()
        timed = self.values["steps"] - (self.first_steps or 0)
        times = {"timed_steps": timed, "seconds": self.written - self.began}
        write_json(self.path, {**self.values, **times})
