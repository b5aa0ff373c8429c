"""Named budgets and settings: ``paper``, ``cpu`` (two cores, minutes) and ``smoke`` (seconds)."""

import dataclasses
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ratiosym.experiments import records, tuned
from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape, TrustRegion
from ratiosym.types import InputError

PRESETS = ("paper", "cpu", "smoke")

# Environment steps of a final run in the paper: twice the tuning length.
PAPER_STEPS = 80_000_000
PAPER_STEPS_LONG = 240_000_000
LONG_SUITES = ("aerojax", "jaxnav")


def preset(name: str, task: str, objective: str = "mars", is_tuned: bool = True) -> RunConfig:
    """What a preset gives a task: its budget and, with ``cpu``, settings tuned for the task and the objective."""
    config = dataclasses.replace(budget(name, task), objective=objective)
    return change(config, **tuned_options(name, task, objective)) if is_tuned else config


def tuned_options(name: str, task: str, objective: str) -> dict[str, Any]:
    """What a preset has from a search on the task with the objective; empty if there was none."""
    found: dict[str, Any] = tuned.TUNED.get(task, {}).get(objective, {}) if name == "cpu" else {}
    return found.get("options", {})


def tuning_preset(name: str, task: str, objective: str) -> RunConfig:
    """What a preset gives one seed of a trial: half the length of a final run, as in the paper."""
    config = preset(name, task, objective, is_tuned=False)
    if name == "smoke":  # the search tries 8 minibatches, which need 8 environments a group
        return change(config, num_envs=8 * config.shape.update_batch_size)
    return change(config, steps=config.steps // 2)


def budget(name: str, task: str) -> RunConfig:
    """Steps, evaluations and sizes."""
    if name == "paper":
        is_long = task.split("-")[0] in LONG_SUITES
        return RunConfig(task, steps=PAPER_STEPS_LONG if is_long else PAPER_STEPS, num_evaluations=122)
    if name == "cpu":
        return RunConfig(task, steps=1_000_000, num_evaluations=20, shape=RunShape(num_envs=64))
    if name == "smoke":
        shape = RunShape(
            num_envs=8,
            rollout_length=16,
            num_epochs=2,
            num_minibatches=2,
            hidden_size=32,
            num_eval_episodes=8,
        )
        return RunConfig(task, steps=4 * shape.steps_per_update, num_evaluations=2, shape=shape)
    raise InputError(f"Unknown preset '{name}'. Choose one of: {', '.join(PRESETS)}.")


def configure(task: str, preset_name: str = "cpu", is_tuned: bool = True, **options: Any) -> RunConfig:
    """A preset with options changed by name: fields of RunConfig and of its parts, flat."""
    config = change(preset(preset_name, task, options.get("objective", "mars"), is_tuned), **options)
    config.validate()
    return config


def change(config: RunConfig, **options: Any) -> RunConfig:
    """A configuration with other values for some of its fields and of its parts' fields, flat."""
    parts = {"trust_region": TrustRegion, "hyperparameters": Hyperparameters, "shape": RunShape}
    homes = {f.name: part for part, kind in parts.items() for f in dataclasses.fields(kind)}
    own = {f.name for f in dataclasses.fields(RunConfig)} - {"task", *parts}
    changes: dict[str, dict[str, Any]] = {part: {} for part in (*parts, "run")}
    for name, value in options.items():
        if name not in own and name not in homes:
            closest = "".join(f" Closest: '{m}'." for m in get_close_matches(name, [*own, *homes], n=1))
            raise InputError(f"Unknown option '{name}'.{closest} See 'ratiosym train --help' for all of them.")
        changes[homes.get(name, "run")][name] = value
    nested = {part: dataclasses.replace(getattr(config, part), **changes[part]) for part in parts}
    return dataclasses.replace(config, **changes["run"], **nested)


def read_settings(path: Path) -> RunConfig:
    """The configuration in the ``best.json`` of a search or the ``config.json`` of a run."""
    advice = "It must be the best.json of a search or the config.json of a run."
    if not path.is_file():
        raise InputError(f"--config is '{path}', which is no file. {advice}")
    data = records.read_json(path).get("config")
    if not isinstance(data, dict):
        raise InputError(f"--config is '{path}', which has no configuration in it. {advice}")
    return RunConfig.from_dict(data)
