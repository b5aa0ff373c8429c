"""Settings found by searches: those of a study, and those shipped with the package.

A study whose plan tunes its algorithms (``ratiosym reproduce``) stores the results of its searches
in ``DIR/settings.json``, by task and algorithm label. The file is written once, when all searches
have ended, and never changed; ``plan.json`` then contains the options of every entry
(``Plan.settings``):

    {"settings": {TASK: {LABEL: {
        "objective": "mars",
        "options": {"b_upper": 2.0, "b_lower": 0.5},   what was searched; the rest is the plan's
        "value": 1.62,                                 mean over the tuning seeds
        "seeds": {"1000": 1.58, "1001": 1.66},         value of each seed
        "steps": 500000,                               per seed
        "trial": 3,                                    number of the best trial
        "trials": {"complete": 6, "pruned": 0, "diverged": 0},
        "search": "tuning/TASK/LABEL"                  directory of the search, relative to DIR
     }}}, "versions": ..., "commit": ..., ...}

The search's directory contains every trial (``trials.csv``) and the search space (``search.json``).

Settings shipped with the package are by task and objective (docs/how-to/tuning.md). The package's
``settings.json`` contains them with the search they came from. ``python -m
ratiosym.experiments.settings BEST.json ...`` adds the results of searches to it.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ratiosym.envs.registry import task_directory
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.plain import read_record, read_value
from ratiosym.runs import files, provenance

SHIPPED = Path(__file__).with_name("settings.json")
ORIGIN = ("value", "trial", "trials", "steps", "seeds", "commit", "versions", "processor")
FROZEN = "settings.json"  # in the directory of a study
Options = dict[str, Any]
Settings = dict[str, dict[str, Options]]  # task, label, options


class Pair(NamedTuple):
    """A task and an algorithm: what is tuned, and what has settings."""

    task: str
    label: str
    objective: str

    @property
    def place(self) -> Path:
        """Directory of its search, relative to the tree of searches."""
        return Path(task_directory(self.task)) / self.label


@dataclass(frozen=True)
class Entry:
    """The result of a search, as described above."""

    objective: str
    options: dict[str, bool | int | float | str]
    value: float
    seeds: dict[str, float]
    steps: int
    trial: int
    trials: dict[str, int]
    search: str


# ----------------------------------------------------------------------------- settings of a study


def find_entries(tree: Path, pairs: Iterable[Pair], seen_from: Path) -> dict[Pair, Entry]:
    """Read the results of the finished searches of a tree (TREE/TASK/LABEL/), as entries of
    ``settings.json``. Pairs without one are left out.
    """
    found = {}
    for pair in pairs:
        path = tree / pair.place / "best.json"
        if path.exists():
            search = path.parent.absolute().relative_to(seen_from.absolute())
            found[pair] = make_entry(files.read_json(path), pair, path, str(search))
    return found


def make_entry(best: dict[str, Any], pair: Pair, path: Path, search: str) -> Entry:
    """Convert the result of a search (``best.json``) to an entry of ``settings.json``."""
    config = best.get("config")
    if not isinstance(config, dict) or "params" not in best:
        raise InputError(
            f"'{path}' is not the result of a search, which 'ratiosym tune' writes as best.json."
        )
    names = ("value", "seeds", "steps", "trial", "trials")
    data = {name: best[name] for name in names if name in best}
    data |= {"objective": config.get("objective"), "options": best["params"], "search": search}
    entry = read_record(Entry, data, f"'{path}'")
    its_task = config.get("task")
    if (its_task, entry.objective) != (pair.task, pair.objective):
        raise InputError(
            f"'{path}' is of {entry.objective} on '{its_task}', but the plan's '{pair.label}' "
            f"is {pair.objective} on '{pair.task}'."
        )
    return entry


def freeze(directory: Path, entries: dict[Pair, Entry]) -> None:
    """Write ``settings.json`` of a study, unless it exists."""
    path = directory / FROZEN
    if path.exists():
        return
    table: dict[str, dict[str, Any]] = {}
    for pair, entry in entries.items():
        table.setdefault(pair.task, {})[pair.label] = asdict(entry)
    files.write_json(path, {"settings": table, **provenance.provenance()})


def read_frozen(directory: Path) -> dict[str, dict[str, Entry]] | None:
    """Read the entries of a study's ``settings.json``; None before all searches have ended."""
    path = directory / FROZEN
    if not path.exists():
        return None
    table = files.read_json(path).get("settings")
    found: dict[str, dict[str, Entry]] = read_value(
        dict[str, dict[str, Entry]], table, f"'{path}': 'settings'"
    )
    return found


def read_tuned(directory: Path, pairs: Iterable[Pair]) -> Settings:
    """Read the settings of these pairs from a directory of ``ratiosym reproduce`` or ``ratiosym
    tune --all``; raise ``InputError`` naming a pair without settings.
    """
    pairs = list(pairs)
    if not directory.is_dir():
        raise InputError(f"`tuned` is '{directory}', which is not a directory.")
    frozen = read_frozen(directory)
    if frozen is None:
        is_study = (directory / "plan.json").exists()
        tree = directory / "tuning" if is_study else directory
        entries = find_entries(tree, pairs, directory)
    else:
        entries = {
            pair: entry
            for pair in pairs
            if (entry := frozen.get(pair.task, {}).get(pair.label)) is not None
        }
    for pair, entry in entries.items():
        if entry.objective != pair.objective:
            raise InputError(
                f"'{directory}' has settings of {entry.objective} for '{pair.label}' on "
                f"'{pair.task}', but the plan's '{pair.label}' is {pair.objective}."
            )
    check_complete(entries, pairs, directory)
    return to_settings(entries)


def check_complete(entries: dict[Pair, Entry], pairs: list[Pair], directory: Path) -> None:
    """Raise unless every pair has an entry."""
    missing = [pair for pair in pairs if pair not in entries]
    if missing:
        first = missing[0]
        others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise InputError(
            f"'{directory}' has no settings for '{first.label}' on '{first.task}'{others}: its "
            f"search has not finished."
        )


def to_settings(entries: dict[Pair, Entry]) -> Settings:
    """Return the options of entries, as in ``Plan.settings``."""
    found: Settings = {}
    for pair, entry in entries.items():
        found.setdefault(pair.task, {})[pair.label] = dict(entry.options)
    return found


# -------------------------------------------------------------------- settings that ship with us


@cache
def read_shipped() -> dict[str, dict[str, dict[str, Any]]]:
    """Read all shipped settings and their origins, by task and objective."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(SHIPPED.read_text())
    return found


def shipped_settings(task: str, objective: str) -> dict[str, Any]:
    """Return the options shipped for a task and objective; raise ``InputError`` without any."""
    entries = read_shipped()
    if objective not in entries.get(task, {}):
        names = ", ".join(f"{t} ({', '.join(by)})" for t, by in entries.items())
        raise InputError(
            f"There are no tuned settings for {objective} on '{task}'. There are some for: "
            f"{names}. "
            f"Omit `tuned`, or search for your own with 'ratiosym tune'."
        )
    options: dict[str, Any] = entries[task][objective]["options"]
    return dict(options)


def ship(paths: Iterable[Path], table: Path = SHIPPED) -> None:
    """Add the results of searches, each a ``best.json``, to a table of settings.

    An entry has what the search found and what it had fixed, where that differs from a preset.
    """
    entries = json.loads(table.read_text()) if table.exists() else {}
    for path in paths:
        best = files.read_json(path)
        if "params" not in best:
            raise InputError(
                f"'{path}' is not the result of a search, which 'ratiosym tune' writes as "
                f"best.json."
            )
        config = RunConfig.from_dict(best["config"], f"'{path}'")
        options = {**fixed_settings(config), **best["params"]}
        entry = {"options": options, **{name: best[name] for name in ORIGIN}}
        entries.setdefault(config.task, {})[config.objective] = entry
    files.write_whole(table, json.dumps(entries, indent=1) + "\n")


def fixed_settings(config: RunConfig) -> Options:
    """Return the settings in which a configuration differs from preset cpu or paper, but for its
    budget: with either preset they give the same run.
    """
    from ratiosym.experiments.presets import change, flat, preset  # they need this module

    usual = [
        flat(change(preset(name, config.task), objective=config.objective))
        for name in ("cpu", "paper")
    ]
    budget = ("seed", "steps", "num_evaluations", "num_eval_episodes")
    return {
        name: value
        for name, value in flat(config).items()
        if name not in budget and any(value != other[name] for other in usual)
    }


if __name__ == "__main__":
    ship(Path(word) for word in sys.argv[1:])
