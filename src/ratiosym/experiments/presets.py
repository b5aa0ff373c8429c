"""Named budgets and settings: ``paper``, ``cpu`` (two cores, minutes) and ``smoke`` (seconds)."""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from ratiosym.envs.registry import resolve_task
from ratiosym.envs.suites import suite_of
from ratiosym.errors import InputError
from ratiosym.experiments.settings import shipped_settings
from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape
from ratiosym.objectives import OBJECTIVES, get_objective
from ratiosym.plain import read_value, to_plain, unknown_name
from ratiosym.references import canonical_reference
from ratiosym.runs import files

PARTS: dict[str, type] = {"hyperparameters": Hyperparameters, "shape": RunShape}
PRESETS = ("paper", "cpu", "smoke")


def preset(name: str, task: str) -> RunConfig:
    """What a preset gives a task: steps, evaluations and sizes. The same for every objective."""
    task = canonical_reference(task)  # found again from any working directory
    if name == "paper":
        return RunConfig(task, steps=suite_of(task).paper_steps, num_evaluations=122)
    if name == "cpu":
        return RunConfig(task, steps=1_000_000, num_evaluations=20, shape=RunShape(num_envs=64))
    if name == "smoke":
        shape = RunShape(
            num_envs=8,
            rollout_length=16,
            num_epochs=2,
            num_minibatches=2,
            actor_hidden_size=32,
            critic_hidden_size=32,
            num_eval_episodes=8,
        )
        return RunConfig(task, steps=4 * shape.steps_per_update, num_evaluations=2, shape=shape)
    raise unknown_name("preset", name, PRESETS)


def tuning_preset(name: str, task: str, objective: str) -> RunConfig:
    """What a preset gives one seed of a trial: half the length of a final run, as in the paper."""
    config = change(preset(name, task), objective=objective)
    steps = config.steps if name == "smoke" else config.steps // 2
    return change(config, steps=steps, **tuning_sizes(name, config))


def tuning_sizes(name: str, config: RunConfig) -> dict[str, int]:
    """Sizes that a preset has in a search alone. ``smoke`` gets more environments: the search tries
    8 minibatches, which need 8 environments per group.
    """
    return {"num_envs": 8 * config.shape.update_batch_size} if name == "smoke" else {}


def configure(
    task: str, preset_name: str = "cpu", tuned: bool = False, **options: Any
) -> RunConfig:
    """A preset with options changed by name; ``tuned`` begins with the settings shipped for task
    and objective.

    Without it all objectives begin with equal settings, so that a comparison never differs in more
    than the user says.
    """
    task = resolve_task(task).name  # a wrong name is reported before anything that depends on it
    config = change(preset(preset_name, task), objective=options.get("objective", "mars"))
    if tuned:
        config = change(config, **shipped_settings(task, config.objective))
    config = change(config, **options)
    config.validate()
    return config


def option_types(objective: str = "mars") -> dict[str, Any]:
    """Every option of a run by its flat name, with the type of its values."""
    return {**_common_types(), **dict.fromkeys(get_objective(objective).defaults, float)}


@cache
def _common_types() -> dict[str, Any]:
    """Options of every objective. Reading type hints takes its time, and plans have many runs."""
    own = {
        name: kind
        for name, kind in get_type_hints(RunConfig).items()
        if name not in ("objective_parameters", *PARTS)
    }
    parts = {name: kind for part in PARTS.values() for name, kind in get_type_hints(part).items()}
    return {**own, **parts, "hidden_size": int}


def change(config: RunConfig, **options: Any) -> RunConfig:
    """A configuration with other values for some of its fields and of its parts' fields, flat.

    Names are those of RunConfig, Hyperparameters, RunShape and the objective's own parameters. A
    change of objective starts from that objective's defaults. ``hidden_size`` sets both networks'
    widths.
    """
    options = dict(options)
    if "hidden_size" in options:
        width = options.pop("hidden_size")
        options = {"actor_hidden_size": width, "critic_hidden_size": width, **options}
    name = options.get("objective", config.objective)
    objective, kinds = get_objective(str(name)), option_types(str(name))
    options = {
        n: read_value(kinds[n], to_plain(v), f"`{n}`") if n in kinds else v
        for n, v in options.items()
    }
    is_same = objective == get_objective(config.objective)
    kept = config.objective_parameters if is_same else {}
    for part in ("objective", "network"):  # found again from any working directory
        if part in options:
            options[part] = canonical_reference(options[part])
    own = {f.name for f in dataclasses.fields(RunConfig)} - {"task", "objective_parameters", *PARTS}
    homes = {f.name: part for part, kind in PARTS.items() for f in dataclasses.fields(kind)}
    changes: dict[str, dict[str, Any]] = {part: {} for part in (*PARTS, "run", "objective")}
    for name, value in options.items():
        if name in own:
            changes["run"][name] = value
        elif name in homes:
            changes[homes[name]][name] = value
        elif any(name in other.defaults for other in (objective, *OBJECTIVES.values())):
            changes["objective"][name] = value
        else:
            names = [*own, *homes, *objective.defaults]
            raise unknown_name(
                "option", name, names, " See 'ratiosym train --help' for all of them."
            )
    nested = {part: dataclasses.replace(getattr(config, part), **changes[part]) for part in PARTS}
    parameters = {**kept, **changes["objective"]}
    return dataclasses.replace(config, **changes["run"], **nested, objective_parameters=parameters)


def read_settings(path: Path) -> RunConfig:
    """The configuration in the ``best.json`` of a search or the ``config.json`` of a run."""
    advice = "It must be the best.json of a search or the config.json of a run."
    if not path.is_file():
        raise InputError(f"--config is '{path}', which is no file. {advice}")
    data = files.read_json(path).get("config")
    if not isinstance(data, dict):
        raise InputError(f"--config is '{path}', which has no configuration in it. {advice}")
    return RunConfig.from_dict(data)
