"""Files that are whole or not there: text, JSON."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ratiosym.errors import InputError


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
