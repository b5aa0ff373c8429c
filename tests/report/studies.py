"""Studies on disk with known answers, written as runs write themselves; nothing is trained."""

import dataclasses

import numpy as np

from ratiosym.experiments.plans import Algorithm, Plan
from ratiosym.runs.files import write_json
from ratiosym.runs.tables import write_table

VERSIONS = {"python": "3.11.7", "ratiosym": "0.1.0", "jax": "0.10.2"}
PROVENANCE = {
    "versions": VERSIONS,
    "commit": "0123abc",
    "devices": ["cpu"],
    "platform": "Linux",
    "processor": "A processor",
    "command": "ratiosym study run",
    "started_by": "ratiosym study run",
}
LEVELS = {"mars": 0.9, "mappo": 0.7, "maspo": 0.5}  # where the curves go, before noise


def make_plan(
    tasks=("mpe-spread-3ag", "connector-5x5x3a"),
    labels=("mars", "mappo", "maspo"),
    seeds=3,
    **changes,
):
    """A plan of objectives by name; a pair is (label, objective)."""
    pairs = [(label, label) if isinstance(label, str) else label for label in labels]
    algorithms = tuple(Algorithm(label, objective) for label, objective in pairs)
    seeds = tuple(range(seeds))
    plan = Plan("tiny", algorithms, tuple(tasks), seeds, "A study of nothing.", "smoke")
    return dataclasses.replace(plan, **changes)


def final_return(task, label, seed):
    """A level by algorithm and a shift by seed, the same on every task."""
    return round(LEVELS.get(label, 0.6) + 0.02 * seed, 2)


def write_study(directory, plan, final=final_return, absolute=None, num=6, updates=24):
    """Every run of a plan, finished: returns rise to ``final``, the absolute metric is that (or
    ``absolute``).
    """
    write_json(directory / "plan.json", {"plan": plan.to_dict(), **PROVENANCE})
    for planned in plan.runs():
        level = final(planned.task, planned.label, planned.seed)
        best = level if absolute is None else absolute(planned.task, planned.label, planned.seed)
        write_run(directory / planned.path, planned.config, level, best, num, updates)
    return directory


def write_run(directory, config, level, absolute, num=6, updates=24):
    """One finished run whose return rises in a straight line."""
    budget = config.num_updates * config.shape.steps_per_update
    write_json(directory / "config.json", {"config": config.to_dict(), "spec": {}, **PROVENANCE})
    rows = [evaluation(budget * k // num, level * (k / num)) for k in range(num + 1)]
    write_table(directory / "evaluations.csv", rows)
    write_table(
        directory / "training.csv",
        [update(k, budget * k // updates) for k in range(1, updates + 1)],
    )
    summary = {
        "task": config.task,
        "objective": config.objective,
        "seed": config.seed,
        "steps": budget,
    }
    write_table(
        directory / "absolute_metric.csv",
        [{"episode": k, "return": absolute + 0.1 * (-1, 1)[k], "length": 5} for k in range(2)],
    )
    write_json(directory / "summary.json", {**summary, "absolute_metric": evaluation(0, absolute)})


def evaluation(steps, mean_return):
    return {
        "update": 0,
        "steps": steps,
        "episodes": 32,
        "mean_return": mean_return,
        "std_return": 0.1,
    }


def update(number, steps):
    """Ratios that part from 1 as training goes on."""
    return {
        "update": number,
        "steps": steps,
        "ratio_min": float(np.exp(-0.1 * number)),
        "ratio_max": 1 + 0.1 * number,
    }


def write_sweep(directory, tasks=("mpe-spread-3ag",), seeds=2, **changes):
    """A study that varies the trust region: MARS with two, MAPPO with one. The wide one is best."""
    algorithms = (
        Algorithm("mappo-0.2", "mappo", {"epsilon": 0.2}),
        Algorithm("mars-0.8-1.2", "mars", {"b_lower": 0.8, "b_upper": 1.2}),
        Algorithm("mars-0.5-2", "mars", {"b_lower": 0.5, "b_upper": 2.0}),
    )
    levels = {"mappo-0.2": 0.5, "mars-0.8-1.2": 0.6, "mars-0.5-2": 0.9}
    plan = make_plan(tasks=tasks, seeds=seeds, algorithms=algorithms, **changes)
    return write_study(
        directory, plan, lambda task, label, seed: levels[label] + 0.1 * seed, num=10
    )
