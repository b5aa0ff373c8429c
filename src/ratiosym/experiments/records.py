"""One directory a run: configuration, curves, summary. A file is whole or it is not there.

config.json      what was run: settings, versions, commit, devices
evaluations.csv  one row an evaluation
training.csv     one row an update (docs/metrics.md)
summary.json     what came out; written when the run has finished
checkpoint/      everything that is needed to go on
tensorboard/     the same curves as TensorBoard events
"""

import csv
import io
import json
import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ratiosym.types import InputError

Row = dict[str, float]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under another name, make sure it is on disk, then put it in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.writing")  # one that was left behind is overwritten
    try:
        with open(temporary, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Readable JSON; NaN as null."""

    def clean(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: clean(v) for k, v in x.items()}
        if isinstance(x, list | tuple):
            return [clean(v) for v in x]
        return None if isinstance(x, float) and not np.isfinite(x) else x

    write_whole(path, json.dumps(clean(data), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a run, or InputError."""
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(
            f"'{path.parent}' is not the directory of a run: it has no {path.name}. "
            f"'ratiosym train TASK --out DIR' makes one."
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read ({error}).") from None
    if not isinstance(data, dict):
        raise InputError(f"'{path}' does not hold a JSON object.")
    return data


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
    return {name: np.array([float(x) for x in values]) for name, values in zip(rows[0], columns, strict=True)}


def rows_to_columns(rows: list[Row]) -> dict[str, np.ndarray]:
    """For the checkpoint."""
    return {name: np.array([row[name] for row in rows], np.float64) for name in (rows[0] if rows else ())}


def columns_to_rows(columns: dict[str, np.ndarray], order: list[str]) -> list[Row]:
    """From the checkpoint, which does not keep the order of columns."""
    whole_numbers = ("update", "steps", "episodes")
    typed = [columns[n].astype(int).tolist() if n in whole_numbers else columns[n].tolist() for n in order]
    return [dict(zip(order, values, strict=True)) for values in zip(*typed, strict=True)]


PACKAGES = ("ratiosym", "jax", "jaxlib", "numpy", "optax", "orbax-checkpoint", "jaxmarl", "jumanji")


def versions() -> dict[str, str | None]:
    """Versions of everything that numbers depend on."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """The commit of the source tree, with '+changes' where it has been edited; None for an installed package."""
    root = Path(__file__).parent
    try:
        run = {"cwd": root, "capture_output": True, "text": True, "timeout": 10, "check": True}
        tracked = subprocess.run(["git", "ls-files", "--error-unmatch", __file__], **run)  # type: ignore[call-overload]
        name = subprocess.run(["git", "rev-parse", "HEAD"], **run).stdout.strip()  # type: ignore[call-overload]
        status = subprocess.run(["git", "status", "--porcelain", "--", "."], **run)  # type: ignore[call-overload]
    except (OSError, subprocess.SubprocessError):
        return None
    return name + ("+changes" if status.stdout.strip() else "") if tracked else None


def provenance() -> dict[str, Any]:
    """What ran, where."""
    import jax

    return {
        "versions": versions(),
        "commit": commit(),
        "devices": [d.device_kind for d in jax.devices()],
        "platform": platform.platform(),
        "processor": processor_name(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def processor_name() -> str:
    """The processor as its maker calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


class Trackers:
    """TensorBoard events beside the files, and Weights & Biases if asked for."""

    def __init__(
        self, directory: Path, config: dict[str, Any], past: dict[str, list[Row]], wandb_project: str | None
    ) -> None:
        """``past`` is what a resumed run has behind it: {group: rows}."""
        from tensorboardX import SummaryWriter

        self._run = start_wandb(directory, config, wandb_project) if wandb_project else None
        # A killed run took its last events with it and wrote others after its checkpoint: all are drawn anew.
        events = directory / "tensorboard"
        self._board = SummaryWriter(str(events), purge_step=0 if events.exists() else None)
        for group, rows in past.items():
            for row in rows:
                self._draw(group, row)

    def add(self, group: str, row: Row) -> None:
        """One row of a table, at its number of environment steps."""
        values = self._draw(group, row)
        if self._run is not None:
            self._run.log({**values, "steps": row["steps"]})

    def _draw(self, group: str, row: Row) -> Row:
        values = {f"{group}/{k}": v for k, v in row.items() if k not in ("update", "steps") and np.isfinite(v)}
        for name, value in values.items():
            self._board.add_scalar(name, value, int(row["steps"]))
        return values

    def close(self) -> None:
        """Write what is still in memory."""
        self._board.close()
        if self._run is not None:
            self._run.finish()


def start_wandb(directory: Path, config: dict[str, Any], project: str) -> Any:
    """A run on Weights & Biases; the same one again after a resume."""
    wandb = import_wandb()
    identity = directory / "wandb.id"
    if not identity.exists():
        write_whole(identity, secrets.token_hex(4))
    settings = wandb.Settings(silent=True, console="off")
    return wandb.init(
        project=project,
        id=identity.read_text(),
        resume="allow",
        dir=directory,
        config=config,
        settings=settings,
        reinit="create_new",  # seeds side by side have a run each
    )


def import_wandb() -> Any:
    """The library, or how to get it."""
    try:
        import wandb
    except ImportError:
        raise InputError("--wandb needs the library wandb. Install it with: pip install 'ratiosym[wandb]'") from None
    return wandb
