"""The environment of a run: made from its task's name, or given as an object."""

import inspect
from pathlib import Path

from ratiosym.envs.protocol import Env, check_structure
from ratiosym.envs.registry import REGISTERED, is_builtin, make, task_name
from ratiosym.envs.wrappers import without_agent_ids
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.references import is_reference, load_reference


def name_task(task: str | Env) -> tuple[str, str | None]:
    """Return the name under which a run records its task.

    Also returns the class of an environment object that cannot be made from a name. If calling an
    object's class without arguments gives an equal object, the run records
    ``package.module:Class``, which works in every process; otherwise the object is registered in
    this process under its ``spec.name``.
    """
    if isinstance(task, str):
        return task_name(task), None
    env = without_agent_ids(task)
    check_structure(env)  # like every task that is not built in, it is played before training
    place = f"{type(env).__module__}:{type(env).__qualname__}"
    name = env.spec.name
    if (is_builtin(name) or name in REGISTERED) and _is_made_by(name, env):
        return name, None
    return (place, None) if _is_made_by(place, env) else (task_name(env), place)


def _is_made_by(name: str, env: Env) -> bool:
    """Whether a name gives an equal environment; ``__main__`` differs between processes."""
    if type(env).__eq__ is object.__eq__ or name.startswith("__main__:"):
        return False
    try:
        if is_reference(name):
            inspect.signature(load_reference(name, "task")).bind()
        return bool(make(name, agent_ids=False) == env)
    except (InputError, TypeError, ValueError):
        return False


def find_env(config: RunConfig, env: Env | None, origin: str | None, run: Path) -> Env:
    """Return the environment of a run on disk, with agent ids as in training.

    ``env`` is an object that the user gave, if any; ``origin`` is the recorded class if the run was
    trained on an object.
    """
    if env is None:
        if origin is not None and config.task not in REGISTERED:
            raise InputError(
                f"The run in '{run}' was trained on an environment object of class {origin}, which "
                f"cannot be recreated from a name. In Python, pass an equal object as `env`, or "
                f"register a function that makes it: "
                f"ratiosym.register_task('{config.task}', function)."
            )
        return make(config.task)
    env = without_agent_ids(env)
    if env.spec.name == config.task and not is_builtin(config.task):
        return make(task_name(env))
    if make(config.task, agent_ids=False) != env:
        raise InputError(
            f"`env` is '{env.spec.name}', but the run in '{run}' was trained on '{config.task}'."
        )
    return make(config.task)
