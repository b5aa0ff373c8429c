"""The outcome of searches as the shipped settings: ``python -m ratiosym.experiments.ship BEST.json ...``."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ratiosym.experiments import records, tuned
from ratiosym.types import InputError

ORIGIN = ("value", "trial", "trials", "steps", "seeds", "commit", "versions", "processor")


def ship(paths: Iterable[Path], table: Path = Path(tuned.__file__)) -> None:
    """Read each ``best.json`` and write ``tuned.py`` anew; entries of other tasks and objectives stay."""
    entries = {task: dict(found) for task, found in tuned.TUNED.items()}
    for path in paths:
        best = records.read_json(path)
        if "params" not in best:
            raise InputError(f"'{path}' is not the outcome of a search, which 'ratiosym tune' writes as best.json.")
        config = best["config"]
        entries.setdefault(config["task"], {})[config["objective"]] = entry_of(best)
    head, assignment, _ = Path(tuned.__file__).read_text().partition("Any]]] = ")
    records.write_whole(table, head + assignment + render(entries) + "\n")


def entry_of(best: dict[str, Any]) -> dict[str, Any]:
    """The settings and where they come from."""
    return {"options": best["params"], **{name: best[name] for name in ORIGIN}}


def render(value: Any, indent: str = "") -> str:
    """Nested tables as Python source, a line an entry."""
    if not isinstance(value, dict):
        return repr(value)
    lines = [f"{indent}    {name!r}: {render(entry, indent + '    ')},\n" for name, entry in value.items()]
    return "{\n" + "".join(lines) + indent + "}"


if __name__ == "__main__":
    ship(Path(word) for word in sys.argv[1:])
