"""Rows of numbers as CSV files."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ratiosym.runs.files import write_whole

Row = dict[str, float]


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """A CSV file; numbers are written so that reading gives the same bits."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def read_table(path: Path) -> dict[str, np.ndarray]:
    """A CSV file as columns of float64."""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    if not rows:
        return {}
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else [()] * len(rows[0])
    return {
        name: np.array([float(x) for x in values])
        for name, values in zip(rows[0], columns, strict=True)
    }


def rows_to_columns(rows: list[Row]) -> dict[str, np.ndarray]:
    """For the checkpoint."""
    return {
        name: np.array([row[name] for row in rows], np.float64)
        for name in (rows[0] if rows else ())
    }


def columns_to_rows(columns: dict[str, np.ndarray], order: list[str]) -> list[Row]:
    """From the checkpoint, which does not keep the order of columns."""
    whole_numbers = ("update", "steps", "episodes")
    typed = [
        columns[n].astype(int).tolist() if n in whole_numbers else columns[n].tolist()
        for n in order
    ]
    return [dict(zip(order, values, strict=True)) for values in zip(*typed, strict=True)]
