"""Trained teams that ship with the package, named ``zoo:TASK``.

A team is a NumPy archive in ``src/ratiosym/zoo/``: the float32 arrays of the actor by path, and
``about``, a JSON text with configuration, sizes, result and origin. Reading it executes nothing.

    python -m ratiosym.runs.zoo RUN ...      add the best parameters of finished runs
"""

import io
import json
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ratiosym.errors import InputError
from ratiosym.plain import unknown_name
from ratiosym.runs import checkpoint, files
from ratiosym.runs.directory import CONFIG, SUMMARY

PREFIX = "zoo:"
ABOUT = "about"
DIRECTORY = Path(__file__).parents[1] / "zoo"


class ZooTeam(NamedTuple):
    """Contents of a file of the zoo."""

    arrays: dict[str, np.ndarray]  # of the actor, by path
    about: dict[str, Any]  # config, spec, result (the absolute metric), seed, commit, versions


def is_zoo(place: str | Path) -> bool:
    """Whether a name is of the form ``zoo:TASK``."""
    return str(place).startswith(PREFIX)


def zoo_tasks() -> list[str]:
    """Return the tasks that have a team."""
    return sorted(path.stem for path in DIRECTORY.glob("*.npz"))


def reject_script(what: str | Path, team: str | None) -> None:
    """Raise ``InputError`` if a trained team is named together with a script."""
    if team is not None:
        raise InputError(
            f"`team` names a script, but '{what}' is a run with its own policy. Omit one of them."
        )


def find_team(place: str | Path) -> Path:
    """Return the file of the team named ``zoo:TASK``."""
    task = str(place).removeprefix(PREFIX)
    if task not in zoo_tasks():
        raise unknown_name("team of the zoo", task, zoo_tasks())
    return DIRECTORY / f"{task}.npz"


def read_team(place: str | Path) -> ZooTeam:
    """Read the team named ``zoo:TASK``."""
    return read_archive(find_team(place))


def read_archive(path: Path) -> ZooTeam:
    """Read a file of the zoo."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
        about = json.loads(str(arrays.pop(ABOUT)))
    except (EOFError, KeyError, ValueError, zipfile.BadZipFile):
        raise InputError(f"'{path}' is damaged. Reinstall ratiosym.") from None
    return ZooTeam(arrays, about)


def add_run(run: Path, directory: Path = DIRECTORY) -> Path:
    """Add the best parameters of a finished run; return the file."""
    if not (run / SUMMARY).exists():
        raise InputError(f"'{run}' is not a finished run: there is no {SUMMARY} in it.")
    found = checkpoint.load(run / "checkpoint")
    record, summary = files.read_json(run / CONFIG), files.read_json(run / SUMMARY)
    about = {
        "config": found.meta.config,
        "spec": found.meta.spec,
        "update": summary["best_update"],
        "result": summary["absolute_metric"],
        **{name: record.get(name) for name in ("commit", "versions")},
    }
    prefix = "best_params/actor/"
    arrays = {
        name.removeprefix(prefix): array
        for name, array in found.arrays.items()
        if name.startswith(prefix)
    }
    buffer = io.BytesIO()
    named: dict[str, Any] = {**arrays, ABOUT: np.array(json.dumps(about))}
    np.savez_compressed(buffer, **named)
    path = directory / f"{found.meta.config['task']}.npz"
    files.write_whole(path, buffer.getvalue())
    return path


def add_runs(runs: Iterable[str]) -> None:
    """Add runs and print their files."""
    for run in runs:
        print(add_run(Path(run)))


if __name__ == "__main__":
    add_runs(sys.argv[1:])
