"""Sizes of preset ``cpu``: the return after equal core time, on one task of each suite.

Every candidate trains on one core with a process of its own, for the same CPU time in updates:
start, compilation and evaluations do not count. Its value on a task is the mean return of the
evaluations in the last quarter, scaled so that the untrained team has 0 and the final runs of MARS
in the study ``cpu`` 1: where nothing is learned in this time, no candidate gains anything. MARS
tries all candidates, MAPPO the best three of them; both have equal trust regions, so that the
choice favours neither. The best mean of both wins. Entropy is the study's.

Results are kept in ``results/preset/runs.jsonl``. Runs found there are not repeated, so that an
interrupted comparison continues; delete the file to begin again.
"""

import json
import os
import queue
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import process_time
from typing import Any

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
FILE = RESULTS / "preset" / "runs.jsonl"
TASKS = (
    "connector-5x5x3a",
    "mpe-spread-3ag",
    "smax-2s3z",
    "rware-tiny-2ag",
    "sar-100tg-2ag",
    "jaxnav-8x8x2a-encoded",
    "paxmen-4a",
    "aerojax-2v2",
)
CANDIDATES = {  # width, environments, epochs, minibatches
    "128, 64, 4, 4": (128, 64, 4, 4),
    "64, 64, 4, 4": (64, 64, 4, 4),
    "64, 64, 8, 2": (64, 64, 8, 2),
    "64, 64, 2, 4": (64, 64, 2, 4),
    "64, 32, 4, 4": (64, 32, 4, 4),
    "64, 16, 4, 4": (64, 16, 4, 4),
    "64, 128, 4, 4": (64, 128, 4, 4),
}
OBJECTIVES = {  # both from 0.5 to 2
    "mars": {"b_lower": 0.5, "b_upper": 2.0},
    "mappo-asymmetric": {"epsilon_lower": 0.5, "epsilon_upper": 1.0},
}
NUM_FINALISTS = 3
LEARNING_RATE = 5e-4  # the paper's largest, as in the study cpu
CORE_SECONDS = 120.0
STEPS_PER_EVALUATION = 32_768
MAX_STEPS = 1000 * STEPS_PER_EVALUATION


def run(task: str, candidate: str, objective: str) -> dict[str, Any]:
    """Train in this process until the updates have taken ``CORE_SECONDS``."""
    from ratiosym.envs.registry import make
    from ratiosym.experiments.plans import read_plan
    from ratiosym.experiments.presets import configure
    from ratiosym.learning.devices import start_jax
    from ratiosym.learning.train import Evaluated, Updated, make_learner, train

    start_jax()
    study = {planned.task: planned.config for planned in read_plan("cpu").runs()}
    width, num_envs, num_epochs, num_minibatches = CANDIDATES[candidate]
    config = configure(
        task,
        objective=objective,
        hidden_size=width,
        num_envs=num_envs,
        num_epochs=num_epochs,
        num_minibatches=num_minibatches,
        actor_learning_rate=LEARNING_RATE,
        critic_learning_rate=LEARNING_RATE,
        entropy_coefficient=study[task].hyperparameters.entropy_coefficient,
        steps=MAX_STEPS,
        num_evaluations=MAX_STEPS // STEPS_PER_EVALUATION,
        **OBJECTIVES[objective],
    )
    updates, returns, spans = [], [], []  # spans: CPU seconds per update between evaluations
    began, number = 0.0, 0
    for event in train(make_learner(make(task), config, 1), config, [0]):
        if isinstance(event, Updated):
            ended, number = process_time(), event.update
        if isinstance(event, Evaluated):
            if updates:
                spans.append((ended - began) / (event.update - updates[-1]))
            updates.append(event.update)
            returns.append(float(event.episodes[0].returns.mean()))
            usual = float(np.median(spans[1:])) if len(spans) > 1 else 0.0  # the first compiles
            if usual * number >= CORE_SECONDS:
                break
            began = process_time()
    return {
        "task": task,
        "candidate": candidate,
        "objective": objective,
        "seconds_per_update": usual,
        "steps_per_update": config.shape.steps_per_update,
        "updates": updates,
        "returns": returns,
    }


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


def value(found: dict[str, Any]) -> float:
    """Return the mean return of the evaluations in the last quarter of the core time."""
    seconds = np.array(found["updates"]) * found["seconds_per_update"]
    return float(np.array(found["returns"])[seconds >= 0.75 * CORE_SECONDS].mean())


def reference(task: str) -> float:
    """Return the mean return of MARS in the study ``cpu``, over its five final runs."""
    runs = sorted((RESULTS / "cpu" / "experiment" / "runs" / task / "mars").glob("*/summary.json"))
    found = [json.loads(run.read_text())["absolute_metric"]["mean_return"] for run in runs]
    return float(np.mean(found))


def scaled_values(runs: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the value of every candidate by task and objective: untrained 0, reference 1."""
    result: dict[tuple[str, str], dict[str, float]] = {}
    for task, objective in sorted({(found["task"], found["objective"]) for found in runs}):
        own = [f for f in runs if (f["task"], f["objective"]) == (task, objective)]
        untrained = float(np.mean([found["returns"][0] for found in own]))
        gain = reference(task) - untrained
        result[task, objective] = {
            found["candidate"]: (value(found) - untrained) / gain for found in own
        }
    return result


def mean_values(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean scaled value of the candidates that have a run for every task, best first."""
    table = scaled_values(runs).values()
    means = {
        name: float(np.mean([values[name] for values in table]))
        for name in CANDIDATES
        if table and all(name in values for values in table)
    }
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def of(objective: str) -> list[dict[str, Any]]:
    return [found for found in read() if found["objective"] == objective]


def main() -> None:
    """Train whatever is missing, one run per core."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    first, second = OBJECTIVES
    train_missing([(task, name, first) for task in TASKS for name in CANDIDATES])
    finalists = list(mean_values(of(first)))[:NUM_FINALISTS]
    train_missing([(task, name, second) for task in TASKS for name in finalists])
    show(read())


def train_missing(wanted: list[tuple[str, str, str]]) -> None:
    done = {(found["task"], found["candidate"], found["objective"]) for found in read()}
    cores, writing = queue.SimpleQueue[int](), Lock()
    for core in os.sched_getaffinity(0):
        cores.put(core)

    def train_and_record(names: tuple[str, str, str]) -> None:
        core = cores.get()
        out = subprocess.run(
            ["taskset", "-c", str(core), sys.executable, "-m", "benchmarks.preset", *names],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        cores.put(core)
        with writing, FILE.open("ab") as file:
            file.write(out)
        task, candidate, objective = names
        print(f"{task:22} {objective:17} {candidate:14} {value(json.loads(out)):9.3f}", flush=True)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(train_and_record, [names for names in wanted if names not in done]))


def show(runs: list[dict[str, Any]]) -> None:
    print(f"scaled value after {CORE_SECONDS:.0f} core seconds; width, environments, epochs,")
    print(f"{'minibatches:':40}" + "".join(f"{name:>15}" for name in CANDIDATES))
    for (task, objective), values in scaled_values(runs).items():
        cells = "".join(f"{values.get(name, np.nan):15.2f}" for name in CANDIDATES)
        print(f"{task:22} {objective:17}{cells}")
    for objective in OBJECTIVES:
        means = mean_values([found for found in runs if found["objective"] == objective])
        cells = "".join(f"{means.get(name, np.nan):15.2f}" for name in CANDIDATES)
        print(f"{'mean':22} {objective:17}{cells}")


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
