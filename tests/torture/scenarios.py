"""The commands that are tortured, and what must come out of them."""

import csv
import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratiosym.runs import checkpoint

TASK = f"{Path(__file__).parents[1] / 'probes.py'}:Recall"
SIZES = {
    "network": "feedforward",
    "hidden_size": 8,
    "num_envs": 4,
    "rollout_length": 8,
    "update_batch_size": 1,
    "num_eval_episodes": 32,
}
BUDGET = {"steps": 60 * 32, "num_evaluations": 20}
LIGHT = {"num_epochs": 1, "num_minibatches": 1}
TUNING_SIZES = {**SIZES, "steps": 320, "num_evaluations": 5}
PLAN = f"""
name = "torture"
algorithms = ["mars", "mappo"]
tasks = ["{TASK}"]
seeds = [0]
preset = "smoke"
options = {json.dumps({**SIZES, **BUDGET, **LIGHT}).replace(":", " =")}
"""
EXPERIMENT = f"""
name = "experiment"
algorithms = ["mars", "mappo"]
tasks = ["{TASK}"]
seeds = [0]
preset = "smoke"
options = {json.dumps({**TUNING_SIZES, **LIGHT}).replace(":", " =")}

[tuning]
search = "trust-region"
trials = 2
seeds = [1000]
"""
# Different at every repetition: where, and how fast.
PLACES = ("command", "started_by", "parent", "commit")
TIMES = ("steps_per_second", "median_steps_per_second", "seconds_since_start_or_resume", "seconds")


def flags(options: dict[str, Any]) -> list[str]:
    """Settings as a command line has them."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


@dataclass(frozen=True)
class Scenario:
    """A command. It runs in a directory of its own and writes ``out`` there."""

    name: str
    words: tuple[str, ...]
    before: tuple[str, ...] = ()  # a command that comes first, without faults
    resume: tuple[str, ...] = ()  # instead of ``words`` once there is a run in ``out``

    def command(self, directory: Path) -> tuple[str, ...]:
        """What to type, given what is there already."""
        has_begun = any(
            (directory / "out" / name).exists() for name in ("config.json", "seeds.json")
        )
        return self.resume if self.resume and has_begun else self.words


TRAIN = ("train", TASK, "--preset=smoke", *flags({**SIZES, **BUDGET, **LIGHT}), "--out=out")
TUNE = ("tune", TASK, "--preset=smoke", *flags(TUNING_SIZES))
FIRST = (*TRAIN[:-1], f"--steps={BUDGET['steps'] // 2}", "--num-evaluations=2", "--out=first")
BRANCH = ("train", "--from=first", "--actor-learning-rate=1e-3", *flags(BUDGET), "--out=out")
RESUME = ("train", "--resume=out")
REPRODUCE = ("reproduce", "experiment.toml")
SCENARIOS = (
    Scenario("run", TRAIN, resume=RESUME),
    Scenario("seeds", (*TRAIN, "--num-seeds=2"), resume=RESUME),
    Scenario("branch", BRANCH, before=FIRST, resume=RESUME),
    Scenario("study", ("study", "run", "plan.toml", "--out=out", "--retry-failed", "--workers=2")),
    Scenario("search", (*TUNE, "--trials=3", "--num-seeds=2", "--workers=1", "--out=out")),
    Scenario("reproduce", (*REPRODUCE, "--out=out", "--retry-failed", "--workers=2")),
)


def prepare(directory: Path) -> None:
    """An empty directory to run a scenario in."""
    directory.mkdir()
    (directory / "plan.toml").write_text(PLAN)
    (directory / "experiment.toml").write_text(EXPERIMENT)


def num_evaluations(out: Path) -> int:
    """How far a command is: lines in the tables of evaluations."""
    total = 0
    for place, directories, names in os.walk(out):  # which forgives what vanishes meanwhile
        if "checkpoint" in directories:
            directories.remove("checkpoint")
        with suppress(OSError):
            if "evaluations.csv" in names:
                total += Path(place, "evaluations.csv").read_bytes().count(b"\n")
    return total


# --------------------------------------------------------------------------------------- comparison


def facts(out: Path) -> dict[str, Any]:
    """Everything in a directory that does not depend on how often the command was interrupted."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in out.rglob("*") if p.is_file() or p.name == "checkpoint"):
        name = str(path.relative_to(out))
        if path.name == "checkpoint":
            found[name] = final_state(path)
        elif not {"checkpoint", "work"} & set(path.relative_to(out).parts):
            found[name] = content(path)
    return found


def content(path: Path) -> Any:
    """A file without times and without what says where it was written."""
    if path.suffix == ".csv":
        header, *rows = csv.reader(path.read_text().splitlines())
        kept = [i for i, name in enumerate(header) if name not in TIMES]
        return [[row[i] for i in kept] for row in (header, *rows)]
    if path.suffix == ".json":
        data = json.loads(path.read_text())
        return {k: v for k, v in data.items() if k not in (*TIMES, *PLACES)}
    return None  # pictures, journals: that they are there


def final_state(directory: Path) -> tuple[int, str]:
    """The newest checkpoint: its update, and a checksum of its arrays."""
    found, digest = checkpoint.load(directory), hashlib.sha256()
    for name, values in sorted(found.arrays.items()):
        digest.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
    return found.meta.update, digest.hexdigest()


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What two directories differ in."""
    names = sorted(one.keys() | other.keys())
    return [name for name in names if one.get(name, "absent") != other.get(name, "absent")]
