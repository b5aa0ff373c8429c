"""Searches whose seeds cost nothing: a formula instead of training, all else as it is.

``python -m tests.experiments.searching work SEARCH.json`` works on one; the file names the options
of ``cheap_search``, and may say at which seed the process kills itself (``die_at``), how long a
seed lasts (``seconds``), and where every begin and end of a seed is written down (``diary``).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from ratiosym.experiments.presets import tuning_preset
from ratiosym.experiments.tuning import Search
from ratiosym.experiments.tuning import storage as places
from ratiosym.experiments.tuning.workers import run_trials
from tests.example_runs import ROOT, environment

TASK = "mpe-spread-3ag"
# Seconds between heartbeats, and of silence that a busy machine does not reach.
QUICK_HEART = (1, 12)


def cheap_search(out, num_trials=8, objective="mars", num_seeds=3, **options):
    """A search of smoke runs."""
    config = tuning_preset("smoke", TASK, objective)
    return Search(config, num_trials, Path(out), tuple(range(1000, 1000 + num_seeds)), **options)


def formula(config):
    """A number for each configuration; the actor's learning rate decides most of it."""
    h, shape = config.hyperparameters, config.shape
    value = -((h.actor_learning_rate * 1e4 - 2.5) ** 2) + 0.1 * h.critic_learning_rate * 1e4
    return (
        value
        + 0.05 * shape.num_epochs
        + 0.02 * config.objective_parameters.get("b_upper", 0)
        + 0.01 * (config.seed % 1000)
    )


def cheap_seed(config):
    """Ten evaluations beside the one before training."""
    value = formula(config)
    return [{"update": i, "steps": i, "mean_return": value + (i < 9) * -100} for i in range(11)]


class Counting:
    """Cheap seeds, counted; ``fail_at`` raises something in place of one of them."""

    def __init__(self, fail_at=None, error=KeyboardInterrupt):
        self.seen, self.fail_at, self.error = [], fail_at, error

    def __call__(self, config):
        if len(self.seen) == self.fail_at:
            self.fail_at = None
            raise self.error
        self.seen.append(config)
        return cheap_seed(config)


class Diary:
    """Cheap seeds in a process of their own, which write down what they do."""

    def __init__(self, path, seconds, die_at):
        self.path, self.seconds, self.die_at, self.number = path, seconds, die_at, 0

    def __call__(self, config):
        self.note("begin", config)
        time.sleep(self.seconds)
        if self.number == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.number += 1
        self.note("end", config)
        return cheap_seed(config)

    def note(self, what, config):
        if self.path:
            with open(self.path, "a") as file:  # one short line: appended whole
                file.write(f"{what} {os.getpid()} {json.dumps(config.to_dict(), sort_keys=True)}\n")


class Recorder:
    """A tracker that writes down what it is told."""

    def begin(self, run):
        self.path = run.directory / "tracked.txt"
        self.path.write_text(f"begin {run.config.seed}\n")

    def log(self, table, row):
        with open(self.path, "a") as file:
            file.write(f"{table} {row['mean_return']}\n")

    def end(self, summary):
        with open(self.path, "a") as file:
            file.write(f"end {(summary or {}).get('value')}\n")


def worker_words(path):
    """The command of a worker process."""
    return [sys.executable, "-m", "tests.experiments.searching", "work", str(path)]


WORKER = {"cwd": ROOT, "env": environment()}


def main(_, path):
    options = json.loads(Path(path).read_text())
    diary, seconds, die_at = (
        options.pop("diary", None),
        options.pop("seconds", 0),
        options.pop("die_at", None),
    )
    places.HEARTBEAT_SECONDS, places.GRACE_SECONDS = options.pop("heart", QUICK_HEART)
    run_trials(cheap_search(**options), Diary(diary, seconds, die_at))


if __name__ == "__main__":
    main(*sys.argv[1:])
