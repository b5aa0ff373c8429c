"""Presets of budgets and sizes: ``paper``, ``cpu`` (minutes on two cores), ``smoke`` (seconds).

``paper`` has the paper's lengths and fixed hyperparameters (Table 3). What the paper does not state
is from Mava or our choice, in this preset too: 128 environments, networks of width 128, 122
evaluations of 32 episodes, 320 episodes for the absolute metric, and values of everything that the
paper tunes (docs/paper/decisions.md). ``cpu`` and ``smoke`` are ours.
"""

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
    """Return the steps, evaluations and sizes of a preset for a task, equal for all objectives."""
    task = canonical_reference(task)  # found again from any working directory
    if name == "paper":
        # The paper states the steps, not the number of evaluations.
        return RunConfig(task, steps=suite_of(task).paper_steps, num_evaluations=122)
    if name == "cpu":
        # The best return for the core time, of the sizes that `benchmarks preset` compares.
        shape = RunShape(num_envs=32, actor_hidden_size=64, critic_hidden_size=64)
        return RunConfig(task, steps=1_000_000, num_evaluations=20, shape=shape)
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
    """Return a preset for one seed of a trial: half the length of a final run, as in the paper."""
    config = change(preset(name, task), objective=objective)
    steps = config.steps if name == "smoke" else config.steps // 2
    return change(config, steps=steps, **tuning_sizes(name, config))


def tuning_sizes(name: str, config: RunConfig) -> dict[str, int]:
    """Return sizes that a preset has only in a search.

    ``smoke`` has more environments, as the search tries 8 minibatches, which need 8 environments
    per group.
    """
    return {"num_envs": 8 * config.shape.update_batch_size} if name == "smoke" else {}


def configure(
    task: str, preset_name: str = "cpu", tuned: bool = False, **options: Any
) -> RunConfig:
    """Build a configuration from a preset and options that override it.

    ``tuned`` starts from the settings shipped for task and objective. By default all objectives
    have equal settings, so that comparisons only differ in what the user specifies.
    """
    task = resolve_task(task).name  # report an unknown task before anything that depends on it
    config = change(preset(preset_name, task), objective=options.get("objective", "mars"))
    if tuned:
        config = change(config, **shipped_settings(task, config.objective))
    config = change(config, **options)
    config.validate()
    return config


def option_types(objective: str = "mars") -> dict[str, Any]:
    """Return the type of every option of a run, by flat name."""
    return {**_common_types(), **dict.fromkeys(get_objective(objective).defaults, float)}


@cache
def _common_types() -> dict[str, Any]:
    """Return the options of all objectives, cached because reading type hints is slow."""
    own = {
        name: kind
        for name, kind in get_type_hints(RunConfig).items()
        if name not in ("objective_parameters", *PARTS)
    }
    parts = {name: kind for part in PARTS.values() for name, kind in get_type_hints(part).items()}
    return {**own, **parts, "hidden_size": int}


def change(config: RunConfig, **options: Any) -> RunConfig:
    """Replace fields of a configuration and of its parts, by flat names.

    Names are those of ``RunConfig``, ``Hyperparameters``, ``RunShape`` and the objective's
    parameters. A new objective starts from its own defaults. ``hidden_size`` sets the widths of
    both networks.
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


def flat(config: RunConfig) -> dict[str, Any]:
    """Flatten a configuration to option names."""
    names = ("objective", "seed", "steps", "num_evaluations", "anneal_learning_rates")
    return {
        **{name: getattr(config, name) for name in names},
        **config.objective_parameters,
        **vars(config.hyperparameters),
        **vars(config.shape),
    }


def read_settings(path: Path) -> RunConfig:
    """Read the configuration in the ``best.json`` of a search or the ``config.json`` of a run."""
    advice = "It must be the best.json of a search or the config.json of a run."
    if not path.is_file():
        raise InputError(f"--config is '{path}', which is not a file. {advice}")
    data = files.read_json(path).get("config")
    if not isinstance(data, dict):
        raise InputError(f"--config is '{path}', which contains no configuration. {advice}")
    return RunConfig.from_dict(data, f"'{path}'")
