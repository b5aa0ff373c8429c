"""The directory of a run: what lies where, who may write it.

config.json      what was run: settings, versions, commit, devices
evaluations.csv  one row per evaluation
training.csv     one row per update (docs/metrics.md)
summary.json     what came out; written when the run has finished
checkpoint/      everything that is needed to resume
tensorboard/     the same curves as TensorBoard events
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.runs import checkpoint, files, provenance, tables
from ratiosym.runs.tables import Row
from ratiosym.types import EnvSpec


@dataclass
class Run:
    """One seed's run on disk."""

    directory: Path
    config: RunConfig
    evaluations: list[Row] = field(default_factory=list)
    training: list[Row] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    def write_budget(self) -> None:
        """A budget that was raised goes into config.json, and the summary of the smaller one goes
        away.
        """
        path = self.directory / "config.json"
        details = files.read_json(path)
        if details["config"] != self.config.to_dict():
            (self.directory / "summary.json").unlink(missing_ok=True)
            files.write_json(path, {**details, "config": self.config.to_dict()})

    def write_curves(self) -> None:
        """Both tables, whole."""
        tables.write_table(self.directory / "evaluations.csv", self.evaluations)
        if self.training:
            tables.write_table(self.directory / "training.csv", self.training)

    def past(self) -> dict[str, list[Row]]:
        """Both tables for the trackers."""
        return {"evaluation": self.evaluations, "training": self.training}

    def curves(self) -> checkpoint.Curves:
        """Both tables for the checkpoint."""
        return {
            "evaluations": tables.rows_to_columns(self.evaluations),
            "training": tables.rows_to_columns(self.training),
        }


def default_directory(config: RunConfig, num_seeds: int) -> Path:
    """Where a run goes if nobody says."""
    name = (
        f"seed-{config.seed}"
        if num_seeds == 1
        else f"seeds-{config.seed}-{config.seed + num_seeds - 1}"
    )
    return Path("runs") / config.task / config.objective / name


def occupy(out: Path, runs: list[Run], spec: EnvSpec) -> None:
    """Make a directory the place of these runs, unless it holds something already."""
    origin = provenance.provenance()
    try:
        check_free(out)
        for run in runs:
            details = {"config": run.config.to_dict(), "spec": spec.to_dict(), **origin}
            files.write_json(run.directory / "config.json", details)
    except OSError as error:
        raise InputError(
            f"'{out}' cannot be written ({error.strerror}). Choose another --out, in a directory "
            f"of yours."
        ) from None


def check_free(out: Path) -> None:
    """Never write into a directory that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"'{out}' is a file; --out must name a directory that is new or empty.")
    if not out.exists() or not any(out.iterdir()):
        return
    if run_directories(out):
        raise InputError(
            f"'{out}' already holds a run. Go on with it: ratiosym train --resume '{out}'. "
            f"Or choose another --out; nothing was changed."
        )
    raise InputError(
        f"'{out}' is not empty and holds no run. Choose another --out; nothing was changed."
    )


def run_directories(directory: Path) -> list[Path]:
    """The run in a directory, or the runs of seeds side by side."""
    if (directory / "config.json").exists():
        return [directory]
    seeds = {
        p.name.removeprefix("seed-"): p
        for p in directory.glob("seed-*")
        if (p / "config.json").exists()
    }
    return [seeds[name] for name in sorted(filter(str.isdecimal, seeds), key=int)]


def read_config(directory: Path) -> RunConfig:
    """The configuration of a run on disk."""
    data = files.read_json(directory / "config.json")
    if not isinstance(data.get("config"), dict):
        raise InputError(f"'{directory / 'config.json'}' has no configuration in it.")
    return RunConfig.from_dict(data["config"])
