"""One run of a study: claimed by a lock, started or taken up again, its error kept if it fails.

``DIR/work/TASK/LABEL/`` holds what workers need beside the runs: ``seed-S.lock``, held while the
run is busy, ``seed-S.json``, where it stands, and ``seed-S.log``, what its process printed.
"""

import dataclasses
import fcntl
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Literal

import jax

from ratiosym.experiments.plans import PlannedRun
from ratiosym.learning.config import RunConfig
from ratiosym.learning.devices import start_jax
from ratiosym.runs import loop
from ratiosym.runs.directory import clear_failure, write_failure
from ratiosym.runs.files import clear_leftovers, write_json

PROGRESS_SECONDS = 2.0  # between two notes of where a run stands

Outcome = Literal["done", "failed", "busy"]

ending = Event()  # this process has been asked to end


def work_file(directory: Path, run: PlannedRun, suffix: str) -> Path:
    """A worker's file of a run. Not in the run's directory (Decision 52)."""
    return directory / "work" / run.path.relative_to("runs").with_suffix(suffix)


@contextmanager
def claim(directory: Path, run: PlannedRun, patience: float) -> Iterator[bool]:
    """Hold the lock of a run: whether it is ours. The system lets go of it with the process,
    however that ends.
    """
    path = work_file(directory, run, ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = monotonic() + patience
    with open(path, "w") as file:
        while not (is_ours := try_lock(file.fileno(), fcntl.LOCK_EX)) and monotonic() < deadline:
            sleep(0.05)
        yield is_ours


def is_claimed(directory: Path, run: PlannedRun) -> bool:
    """Whether somebody is busy with a run."""
    try:
        with open(work_file(directory, run, ".lock")) as file:
            return not try_lock(
                file.fileno(), fcntl.LOCK_SH
            )  # a lock that we got goes with the file
    except FileNotFoundError:
        return False


def try_lock(number: int, kind: int) -> bool:
    """Lock an open file, without waiting: whether that went."""
    try:
        fcntl.flock(number, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def carry_out(directory: Path, run: PlannedRun, patience: float = 1.0) -> Outcome:
    """Begin a run, or go on with it; a finished one is left as it is. ``patience`` outlasts a look
    at the lock.
    """
    place = directory / run.path
    with claim(directory, run, patience) as is_ours:
        if not is_ours:
            return "busy"
        if (place / "summary.json").exists():
            return "done"
        clear_remains(place)
        notes = Notes(work_file(directory, run, ".json"))
        try:
            if (place / "config.json").exists():
                loop.resume(place, on_progress=notes.take)
            else:
                loop.start(run.config, place, on_progress=notes.take)
        except Exception as error:
            if ending.is_set():
                # what the interrupt became on its way: no failure of the run
                raise KeyboardInterrupt from error
            write_failure(place, f"{type(error).__name__}: {error}", traceback.format_exc())
            return "failed"
        notes.write()
        return "done"


def clear_remains(place: Path) -> None:
    """Remove the error of an earlier try, and files that were being written when it was killed."""
    clear_failure(place)
    clear_leftovers(place)


class Notes:
    """Where a run stands, written down now and then. Times are of this process alone, start
    included.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began, self.written = monotonic(), float("-inf")
        self.first_steps: int | None = None
        self.values: dict[str, Any] = {}

    def take(self, progress: loop.Progress) -> None:
        """Take in what happened."""
        if self.first_steps is None:
            self.first_steps = progress.steps
        self.values["steps"] = progress.steps
        if progress.evaluations:
            self.values["mean_return"] = mean(row["mean_return"] for row in progress.evaluations)
        if progress.rows:
            self.values["steps_per_second"] = progress.rows[0]["steps_per_second"]
        if monotonic() - self.written >= PROGRESS_SECONDS:
            self.write()

    def write(self) -> None:
        """Put it on disk."""
        self.written = monotonic()
        timed = self.values["steps"] - (self.first_steps or 0)
        write_json(
            self.path, {**self.values, "timed_steps": timed, "seconds": self.written - self.began}
        )


# ---------------------------------------------------------------------- a process that does one run


def encode_job(directory: Path, run: PlannedRun, cores: list[int]) -> str:
    """What a worker process reads first: one line."""
    return (
        json.dumps({"directory": str(directory), "cores": cores, "run": dataclasses.asdict(run)})
        + "\n"
    )


def decode_run(data: dict[str, Any]) -> PlannedRun:
    """A run from plain data."""
    return PlannedRun(**{**data, "config": RunConfig.from_dict(data["config"])})


def main() -> None:
    """Read a job from standard input and do it. The input stays open as long as somebody wants the
    run.
    """
    job = json.loads(sys.stdin.readline())
    if job["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(
            0, job["cores"]
        )  # before JAX starts: it takes its devices and threads from this
    signal.signal(signal.SIGTERM, end)
    Thread(target=end_with_input, daemon=True).start()
    start_jax()
    carry_out(Path(job["directory"]), decode_run(job["run"]))


def end(number: int, frame: Any) -> None:
    """Asked to end: as at Ctrl-C, so that files are closed."""
    ending.set()
    raise KeyboardInterrupt


def end_with_input() -> None:
    """Nobody wants the run any more: who started it was killed. What it did since its checkpoint is
    lost.
    """
    sys.stdin.read()  # Decision 53
    os._exit(1)


def carry_out_remotely(
    directory: Path, run: PlannedRun, num_cpus: float, patience: float
) -> Outcome:
    """A run in a process of a cluster, which does not bind processes to cores."""
    jax.config.update("jax_num_cpu_devices", max(1, int(num_cpus)))
    start_jax()
    return carry_out(directory, run, patience)


if __name__ == "__main__":
    main()
