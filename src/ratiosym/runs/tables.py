"""Tables of numbers as CSV files: written at once, or appended to while a run trains.

A run appends each row to two files: the table for users (``training.csv``) and its journal
(``checkpoint/training.csv``). A checkpoint records the length of the journal (``Extent``), at a
cost that does not depend on the number of rows. Resuming truncates both files to that length, and
restores a file that was deleted, torn or edited from the other one.
"""

import csv
import hashlib
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ratiosym.errors import InputError
from ratiosym.runs.files import write_whole

Row = dict[str, float]


@dataclass(frozen=True)
class Extent:
    """Length and checksum of the beginning of a file."""

    num_bytes: int
    sha256: str


EMPTY = Extent(0, hashlib.sha256().hexdigest())


class Table:
    """A table that grows row by row, at a constant cost per row."""

    def __init__(self, path: Path, journal: Path) -> None:
        """Open two equal files (see ``restore_table``) for appending."""
        journal.parent.mkdir(parents=True, exist_ok=True)
        self._files = [_open_to_append(p) for p in (path, journal)]
        self._checksum = hashlib.sha256()
        self._num_bytes = 0
        if journal.stat().st_size:
            self._count(journal.read_bytes())

    def append(self, row: Row) -> None:
        """Write a row, preceded by the header if it is the first."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(row), lineterminator="\n")
        if not self._num_bytes:
            writer.writeheader()
        writer.writerow(row)
        data = text.getvalue().encode()
        for file in self._files:
            _write_all(file, data)
        self._count(data)

    def sync(self) -> Extent:
        """Flush all rows to disk and return their extent."""
        for file in self._files:
            os.fsync(file)
        return Extent(self._num_bytes, self._checksum.hexdigest())

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.pop())

    def _count(self, data: bytes) -> None:
        self._checksum.update(data)
        self._num_bytes += len(data)


def _open_to_append(path: Path) -> int:
    # Do not follow links, which could lead out of the run's directory.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o666)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def check_table(path: Path, journal: Path, extent: Extent) -> None:
    """Raise ``InputError`` if neither the table nor its journal has the rows of a checkpoint."""
    if not any(_has_beginning(p, extent) for p in (path, journal)):
        path.parent.stat()  # a directory that is gone is a FileNotFoundError, not a changed table
        raise InputError(
            f"The rows of '{path}' up to the checkpoint are lost: both it and its journal "
            f"'{journal}' have been changed. Restore one of them, or start a new run."
        )


def restore_table(path: Path, journal: Path, extent: Extent) -> None:
    """Restore a table and its journal to their length at a checkpoint."""
    check_table(path, journal, extent)
    for file in (path, journal):
        if not extent.num_bytes:
            file.unlink(missing_ok=True)
        elif _has_beginning(file, extent) and not file.is_symlink():
            os.truncate(file, extent.num_bytes)
        else:
            write_whole(file, read_beginning(path, journal, extent))


def read_beginning(path: Path, journal: Path, extent: Extent) -> bytes:
    """Return the rows of a table at a checkpoint, from the table or its journal."""
    check_table(path, journal, extent)
    if not extent.num_bytes:
        return b""
    with open(path if _has_beginning(path, extent) else journal, "rb") as source:
        return source.read(extent.num_bytes)


def _has_beginning(path: Path, extent: Extent) -> bool:
    if not extent.num_bytes:
        return True
    try:
        with open(path, "rb") as file:
            data = file.read(extent.num_bytes)
    except OSError:
        return False
    return len(data) == extent.num_bytes and hashlib.sha256(data).hexdigest() == extent.sha256


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Write a CSV file with numbers that are read back bit for bit."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def read_table(path: Path) -> dict[str, np.ndarray]:
    """Read a CSV file as columns of float64, ignoring an incomplete last line.

    Raises ``InputError`` if it is not a table of numbers.
    """
    try:
        with open(path, newline="") as file:
            text = file.read()
        rows = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
        return _columns(rows) if rows else {}
    except (ValueError, csv.Error) as error:
        raise InputError(
            f"'{path}' cannot be read ({error}). 'ratiosym train --resume' restores the tables of "
            f"a run."
        ) from None


def _columns(rows: list[list[str]]) -> dict[str, np.ndarray]:
    names, *others = rows
    for number, row in enumerate(others, 2):
        if len(row) != len(names):
            raise ValueError(f"its line {number} has {len(row)} entries, not {len(names)}")
    return {name: np.array([float(row[i]) for row in others]) for i, name in enumerate(names)}
