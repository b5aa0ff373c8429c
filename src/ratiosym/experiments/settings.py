"""Settings found by ``ratiosym tune`` and shipped with the package, by task and objective
(docs/tuning.md).

``settings.json`` holds them with the search they came from. ``python -m
ratiosym.experiments.settings BEST.json ...`` adds the outcome of searches to it.
"""

import json
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ratiosym.errors import InputError
from ratiosym.runs import files

SHIPPED = Path(__file__).with_name("settings.json")
ORIGIN = ("value", "trial", "trials", "steps", "seeds", "commit", "versions", "processor")


@cache
def read_shipped() -> dict[str, dict[str, dict[str, Any]]]:
    """All shipped settings: task, objective, then options and where they come from."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(SHIPPED.read_text())
    return found


def shipped_settings(task: str, objective: str) -> dict[str, Any]:
    """The options shipped for a task and an objective; InputError if there are none."""
    entries = read_shipped()
    if objective not in entries.get(task, {}):
        names = ", ".join(f"{t} ({', '.join(by)})" for t, by in entries.items())
        raise InputError(
            f"There are no tuned settings for {objective} on '{task}'. There are some for: "
            f"{names}. "
            f"Leave `tuned` out, or search your own with 'ratiosym tune'."
        )
    options: dict[str, Any] = entries[task][objective]["options"]
    return dict(options)


def ship(paths: Iterable[Path], table: Path = SHIPPED) -> None:
    """Add the outcome of searches, each a ``best.json``, to a table of settings."""
    entries = json.loads(table.read_text()) if table.exists() else {}
    for path in paths:
        best = files.read_json(path)
        if "params" not in best:
            raise InputError(
                f"'{path}' is not the outcome of a search, which 'ratiosym tune' writes as "
                f"best.json."
            )
        config = best["config"]
        entry = {"options": best["params"], **{name: best[name] for name in ORIGIN}}
        entries.setdefault(config["task"], {})[config["objective"]] = entry
    files.write_whole(table, json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    ship(Path(word) for word in sys.argv[1:])
