"""Atomic writing of text and JSON files, and messages for failed writes."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ratiosym.errors import InputError

UNFINISHED = ".writing"  # suffix of files that are still being written
PAGE_SUFFIXES = (".html", ".htm")  # of reports


class WriteError(InputError):
    """A file could not be written, for example because the disk is full."""


def check_suffix(out: Path, suffixes: tuple[str, ...]) -> None:
    """Raise ``InputError`` unless the name of an output file ends in one of ``suffixes``."""
    if out.suffix not in suffixes:
        raise InputError(f"`out` is '{out}'; its name must end in {' or '.join(suffixes)}.")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: under another name, flushed to disk, then renamed."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(8)}{UNFINISHED}")
    try:
        with os.fdopen(_create(temporary), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):  # a missing directory has already been reported
            temporary.unlink(missing_ok=True)


def _create(path: Path) -> int:
    """Create a new file with an unguessable name, and never follow a link planted there."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def is_leftover(name: str) -> bool:
    """Whether a file is left over from an interrupted write."""
    return name.startswith(".") and name.endswith(UNFINISHED)


def clear_leftovers(directory: Path) -> None:
    """Remove leftovers of interrupted writes from a directory (not recursively)."""
    for path in directory.iterdir() if directory.is_dir() else ():
        if is_leftover(path.name):
            path.unlink(missing_ok=True)


@contextmanager
def reporting_write_errors(place: Path, way_out: str) -> Iterator[None]:
    """Turn an operating-system error into a message that says what to do."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"'{place}' cannot be written ({reason(error)}). {way_out}") from error


def reason(error: OSError) -> str:
    """Return the operating system's message without the path."""
    return error.strerror or (str(error).strip().splitlines() or [type(error).__name__])[0]


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON, with NaN as null."""

    def clean(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: clean(v) for k, v in x.items()}
        if isinstance(x, list | tuple):
            return [clean(v) for v in x]
        return None if isinstance(x, float) and not np.isfinite(x) else x

    write_whole(path, json.dumps(clean(data), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run; raise ``InputError`` if that fails."""
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(
            f"'{path.parent}' is not the directory of a run: it has no {path.name}. "
            f"'ratiosym train TASK --out DIR' creates one."
        ) from None
    except RecursionError:
        raise InputError(f"'{path}' cannot be read (it is nested too deeply).") from None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read ({error}).") from None
    if not isinstance(data, dict):
        raise InputError(f"'{path}' does not contain a JSON object.")
    return data
