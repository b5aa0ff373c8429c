"""The directory of a run: its files, and who may write them.

config.json      settings, versions, commit, devices
evaluations.csv  one row per evaluation
training.csv     one row per update (docs/concepts/run-directory.md)
summary.json     results; written when the run has finished
absolute_metric.csv  one row per episode of the absolute metric; written just before summary.json
failure.txt      why a run of a study failed: the first line says what happened
checkpoint/      everything that is needed to resume
.lock            held while a process trains

Seeds that are trained in parallel each have such a directory, ``seed-S/``, and next to them

seeds.json       the common settings, and the list of seeds; written before anything else
"""

import dataclasses
import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ratiosym.envs.registry import task_directory
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.plain import read_record
from ratiosym.runs import checkpoint, files, tables
from ratiosym.runs.tables import Extent, Row, Table

CONFIG, SEEDS, SUMMARY, ABSOLUTE, FAILURE, LOCK = (
    "config.json",
    "seeds.json",
    "summary.json",
    "absolute_metric.csv",
    "failure.txt",
    ".lock",
)
TABLES = ("evaluations", "training")


@dataclass(frozen=True)
class Returns:
    """The three evaluations of a run that its summary needs."""

    first: dict[str, Any]
    best: dict[str, Any]
    last: dict[str, Any]


@dataclass
class Run:
    """The run of one seed on disk."""

    directory: Path
    config: RunConfig
    summary: dict[str, Any] = field(default_factory=dict)
    returns: Returns | None = None

    @property
    def evaluations(self) -> dict[str, np.ndarray]:
        """``evaluations.csv`` as columns; empty before the first evaluation."""
        return self._table("evaluations")

    @property
    def training(self) -> dict[str, np.ndarray]:
        """``training.csv`` as columns; empty before the first update."""
        return self._table("training")

    def _table(self, name: str) -> dict[str, np.ndarray]:
        path = self.table_files(name)[0]
        return tables.read_table(path) if path.exists() else {}

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        return self.directory / "checkpoint"

    def table_files(self, name: str) -> tuple[Path, Path]:
        """Return the paths of a table and its journal."""
        return self.directory / f"{name}.csv", self.checkpoints / f"{name}.csv"

    def open_tables(self) -> dict[str, Table]:
        """Open the tables for appending."""
        return {name: Table(*self.table_files(name)) for name in TABLES}

    def has_trained(self) -> bool:
        """Whether there are files that only a run past its first checkpoint can have written."""
        table = self.table_files("training")[0]
        has_rows = table.exists() and table.stat().st_size > 0
        return has_rows or (self.directory / SUMMARY).exists()

    def note_evaluation(self, row: Row) -> None:
        """Update the returns with an evaluation."""
        known = self.returns or Returns(row, row, row)
        is_better = row["mean_return"] > known.best["mean_return"]
        self.returns = Returns(known.first, row if is_better else known.best, row)


# ----------------------------------------------------------------------------------------- records


@dataclass(frozen=True)
class Parent:
    """The checkpoint that a run branched from."""

    run: str  # its directory, absolute
    update: int
    sha256: str  # of its files.json, which has the checksums of all others


@dataclass(frozen=True)
class RunRecord:
    """Parts of a record, besides the configuration, that are needed to resume."""

    track: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    environment: str | None = None  # class of an environment given as an object
    parent: Parent | None = None  # of a run that branched from another


def read_config(directory: Path) -> RunConfig:
    """Read and validate the configuration of a run on disk."""
    return config_in(directory / CONFIG)


def config_in(path: Path) -> RunConfig:
    """Read and validate the configuration in a record."""
    data = files.read_json(path)
    if not isinstance(data.get("config"), dict):
        raise InputError(f"'{path}' contains no configuration.")
    return RunConfig.from_dict(data["config"], f"'{path}'")


def read_run_record(path: Path) -> RunRecord:
    """Read and validate the rest of a record."""
    names = [f.name for f in dataclasses.fields(RunRecord)]
    data = {name: x for name, x in files.read_json(path).items() if name in names}
    return read_record(RunRecord, data, f"'{path}'")


def record_of(out: Path) -> Path:
    """Return the path of the record of a run or of parallel seeds.

    Seeds of version 0.1 have no common record; the first seed's is used.
    """
    candidates = [out / CONFIG, out / SEEDS, *(d / CONFIG for d in run_directories(out))]
    return next((path for path in candidates if path.exists()), out / CONFIG)


def find_runs(out: Path) -> list[Run]:
    """Find the run or the parallel seeds in a directory, with the configurations to resume."""
    path = record_of(out)
    if path.name != SEEDS:
        return [Run(d, read_config(d)) for d in run_directories(out)]
    common, seeds = config_in(path), read_run_record(path).seeds
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"'{path}': `seeds` is {list(seeds)}; it must list different seeds.")
    own = {s: d for s in seeds if (d := out / f"seed-{s}").joinpath(CONFIG).exists()}
    found = [read_config(directory) for directory in own.values()]
    for config, (seed, directory) in zip(found, own.items(), strict=True):
        due = dataclasses.replace(
            common, seed=seed, steps=config.steps, num_evaluations=config.num_evaluations
        )
        if config != due:
            raise InputError(
                f"'{directory / CONFIG}' and '{path}' have different settings, but parallel seeds "
                f"must have equal ones. Restore the right file; nothing was changed."
            )
    # A kill may have come between raising the budgets of two seeds: the larger one applies to all.
    longest = max([common, *found], key=lambda config: config.steps)
    common = dataclasses.replace(
        common, steps=longest.steps, num_evaluations=longest.num_evaluations
    )
    return [Run(out / f"seed-{seed}", dataclasses.replace(common, seed=seed)) for seed in seeds]


def runs_to_resume(out: Path) -> list[Run]:
    """Find the run or the parallel seeds in a directory; raise ``InputError`` if there are none."""
    runs = find_runs(out)
    if not runs:
        raise InputError(
            f"'{out}' does not hold a run: there is no config.json in it. "
            f"Start one with: ratiosym train TASK --out '{out}'"
        )
    return runs


def run_directories(directory: Path) -> list[Path]:
    """Return the directory of the run, or those of the parallel seeds that have started."""
    if (directory / CONFIG).exists():
        return [directory]
    seeds = {
        int(p.name.removeprefix("seed-")): p
        for p in directory.glob("seed-*")
        if re.fullmatch("seed-(0|[1-9][0-9]*)", p.name) and (p / CONFIG).exists()
    }
    return [seeds[seed] for seed in sorted(seeds)]


def all_runs(directories: Sequence[str | Path]) -> list[Path]:
    """Return the runs in several directories; raise ``InputError`` if one of them has none."""
    found = {directory: run_directories(Path(directory)) for directory in directories}
    missing = [str(directory) for directory, runs in found.items() if not runs]
    if missing or not found:
        raise InputError(
            f"No run in: {', '.join(missing) or '(no directory was given)'}. Name directories "
            f"created by 'ratiosym train'."
        )
    return [run for runs in found.values() for run in runs]


def single_run(directory: Path) -> Path:
    """Return the directory of the run; raise ``InputError`` if there is none, or several seeds."""
    directories = run_directories(directory)
    if len(directories) > 1:
        names = ", ".join(d.name for d in directories)
        raise InputError(
            f"'{directory}' holds several seeds ({names}). Name one, as in '{directories[0]}'."
        )
    if not directories:
        raise InputError(f"'{directory}' does not hold a run: there is no config.json in it.")
    return directories[0]


def default_directory(config: RunConfig, num_seeds: int) -> Path:
    """Return the default directory of a run."""
    name = (
        f"seed-{config.seed}"
        if num_seeds == 1
        else f"seeds-{config.seed}-{config.seed + num_seeds - 1}"
    )
    return Path("runs", task_directory(config.task), task_directory(config.objective), name)


# ------------------------------------------------------------------------------ claiming, resuming


@contextmanager
def lock_directories(directories: Sequence[Path]) -> Iterator[None]:
    """Lock these runs for writing. The system releases a lock however its process ends."""
    with ExitStack() as stack:
        for directory in dict.fromkeys(directories):
            stack.enter_context(_lock(directory))
        yield


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    path, flags = directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with files.reporting_write_errors(directory, "Choose a directory that you may write to."):
        file = os.open(path, flags, 0o666)
    try:
        if not _is_ours(file, path):
            raise InputError(
                f"Another process is training the run in '{directory}'. Wait until it has ended, "
                f"or stop it; nothing was changed."
            )
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()  # while we still hold the lock
    finally:
        os.close(file)


def _is_ours(file: int, path: Path) -> bool:
    """Try to take the lock; fail if another process holds it or has just removed the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), os.stat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


def claim_directory(out: Path, runs: list[Run], record: dict[str, Any]) -> None:
    """Create the records of new runs in an empty directory.

    One atomically written file names everything that belongs together; until it exists, the
    directory counts as empty.
    """
    check_free(out)
    files.clear_leftovers(out)
    write_records(out, runs, record)


def write_records(out: Path, runs: list[Run], record: dict[str, Any]) -> None:
    """Write the records of runs, raising the budget in existing ones."""
    if len(runs) > 1:  # first, so that a kill between two seeds does not separate them
        seeds = [run.config.seed for run in runs]
        _write_record(out / SEEDS, {**record, "seeds": seeds}, runs[0].config)
    for run in runs:
        _write_record(run.directory / CONFIG, record, run.config)


def _write_record(path: Path, record: dict[str, Any], config: RunConfig) -> None:
    old = files.read_json(path) if path.exists() else {}
    if old.get("config") != config.to_dict():
        for name in (SUMMARY, ABSOLUTE):  # they belong to the smaller budget
            (path.parent / name).unlink(missing_ok=True)
        files.write_json(path, {**(old or record), "config": config.to_dict()})


def check_free(out: Path) -> None:
    """Raise unless the directory is new or empty."""
    if out.exists() and not out.is_dir():
        raise InputError(f"'{out}' is a file; `out` must be a new or empty directory.")
    if not out.exists():
        return
    names = {p.name for p in out.iterdir() if not files.is_leftover(p.name) and p.name != LOCK}
    if not names:
        return
    if SEEDS in names or run_directories(out):
        raise InputError(
            f"'{out}' already holds a run. Resume it: ratiosym train --resume '{out}'. "
            f"Or choose another `out`; nothing was changed."
        )
    raise InputError(
        f"'{out}' is not empty, but contains no run. Choose another `out`; nothing was changed."
    )


def bring_to_checkpoint(runs: list[Run], found: list[checkpoint.Checkpoint] | None) -> None:
    """Reset every file of the runs to the state of their checkpoints, or of their start.

    Everything is checked before anything is changed.
    """
    saved: list[checkpoint.Checkpoint | None] = [*found] if found else [None] * len(runs)
    extents = [table_extents(run, one) for run, one in zip(runs, saved, strict=True)]
    for run, by_table in zip(runs, extents, strict=True):
        for name, extent in by_table.items():
            tables.check_table(*run.table_files(name), extent)
    for run, by_table in zip(runs, extents, strict=True):
        run.directory.mkdir(parents=True, exist_ok=True)
        files.clear_leftovers(run.directory)
        files.clear_leftovers(run.checkpoints)
        checkpoint.clear_leftovers(run.checkpoints)
        update = found[0].meta.update if found else -1
        for later in checkpoint.updates(run.checkpoints):
            if later > update:  # of a seed that was ahead: it would not match the rows to come
                checkpoint.discard(run.checkpoints / str(later))
        for name, extent in by_table.items():
            tables.restore_table(*run.table_files(name), extent)


def read_returns(run: Run, found: checkpoint.Checkpoint) -> Returns:
    """Read the evaluations before a checkpoint."""
    path = run.checkpoints / str(found.meta.update)
    returns = read_record(Returns, found.meta.returns, f"'{path}'")
    rows = (returns.first, returns.best, returns.last)
    if any(type(row.get(n)) not in (int, float) for row in rows for n in ("update", "mean_return")):
        raise checkpoint.CheckpointError(checkpoint.damaged(path, "its returns"))
    return returns


def table_extents(run: Run, found: checkpoint.Checkpoint | None) -> dict[str, Extent]:
    """Return the extents of a run's tables at a checkpoint, or at its start."""
    if found is None:
        return dict.fromkeys(TABLES, tables.EMPTY)
    what = f"The checkpoint in '{run.directory}'"
    try:
        return {name: read_record(Extent, found.meta.tables[name], what) for name in TABLES}
    except KeyError as error:
        raise checkpoint.CheckpointError(f"{what} does not list the table {error}.") from None


# ---------------------------------------------------------------------------------------- failures


def write_failure(directory: Path, what: str, details: str = "") -> None:
    """Record that a run failed: what happened on the first line, details below."""
    first = " ".join(what.split())
    files.write_whole(directory / FAILURE, f"{first}\n\n{details}".rstrip() + "\n")


def read_failure(directory: Path) -> str | None:
    """Return why a run failed, or None if it did not."""
    try:
        text = (directory / FAILURE).read_text(errors="replace")
    except OSError:
        return None
    first = (text.strip().splitlines() or ["no reason given"])[0]
    # Messages can come from anywhere, so keep control sequences off the terminal.
    return "".join(c if c.isprintable() else " " for c in first).strip()


def clear_failure(directory: Path) -> None:
    """Delete the record of an earlier failure."""
    (directory / FAILURE).unlink(missing_ok=True)
