"""Load trained policies from run directories, and evaluate them."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ratiosym.envs.protocol import Env
from ratiosym.envs.registry import make
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig, check_seed
from ratiosym.learning.devices import enable_compilation_cache
from ratiosym.learning.evaluate import Episodes
from ratiosym.learning.model import Model, make_model
from ratiosym.learning.policy import Policy
from ratiosym.learning.train import absolute_metric, make_learner
from ratiosym.plain import read_record
from ratiosym.runs import checkpoint
from ratiosym.runs.directory import CONFIG, read_run_record, run_directories
from ratiosym.runs.environments import find_env
from ratiosym.types import Continuous, Discrete, EnvSpec


@dataclass(frozen=True)
class EnvSizes:
    """An ``EnvSpec`` without its action."""

    name: str
    num_agents: int
    observation_size: int
    state_size: int
    time_limit: int
    metrics: tuple[str, ...] = ()
    usual_length: int | None = None


def load_policy(directory: str | Path, which: str = "best") -> Policy:
    """Load the policy of a run, with its ``best`` parameters so far or the ``last`` ones."""
    check_which(which)
    found, config, spec = load_run(Path(directory))
    model = make_model(config.shape)
    return Policy(model, load_params(found, model, spec, which).actor, spec)


def env_to_play(directory: Path, config: RunConfig, task: str | None, env: Env | None) -> Env:
    """Return the environment that a policy was trained on, or that of another ``task``."""
    own = read_run_record(directory / CONFIG).environment
    if task is None:
        return find_env(config, env, own, directory)
    check_task_fits(find_env(config, env, own, directory).spec, task)
    return make(task)


def check_task_fits(own: EnvSpec, task: str) -> None:
    """Raise ``InputError`` unless a policy of one environment can play another task."""
    other = make(task).spec
    names = ("num_agents", "observation_size", "state_size", "action")
    different = [name for name in names if getattr(own, name) != getattr(other, name)]
    if different:
        words = "; ".join(
            f"{n.replace('_', ' ')} {getattr(other, n)}, not {getattr(own, n)}" for n in different
        )
        raise InputError(
            f"A policy of '{own.name}' cannot play '{task}' ({words}). Choose a task with the same "
            f"sizes, such as the held-out layouts of PaxMen or the levels of AeroJAX's opponents."
        )


def check_which(which: str) -> None:
    """Raise unless ``which`` is 'best' or 'last'."""
    if which not in ("best", "last"):
        raise InputError(f"`which` is {which!r}; it must be 'best' or 'last'.")


def load_run(directory: Path) -> tuple[checkpoint.Checkpoint, RunConfig, EnvSpec]:
    """Load the newest checkpoint of one seed, with its configuration and sizes."""
    directories = run_directories(directory)
    if len(directories) > 1:
        names = ", ".join(d.name for d in directories)
        raise InputError(
            f"'{directory}' holds several seeds ({names}). Name one, as in '{directories[0]}'."
        )
    if not directories:
        raise InputError(f"'{directory}' does not hold a run: there is no config.json in it.")
    found = checkpoint.load(directories[0] / "checkpoint")
    path = directories[0] / "checkpoint" / str(found.meta.update)
    try:
        spec = read_spec(found.meta.spec)
    except InputError as error:
        raise checkpoint.CheckpointError(checkpoint.damaged(path, str(error))) from None
    return found, RunConfig.from_dict(found.meta.config, f"'{path}'"), spec


def read_spec(data: dict[str, Any]) -> EnvSpec:
    """Read the sizes of an environment; InputError for anything that does not fit."""
    kinds: dict[Any, type] = {"discrete": Discrete, "continuous": Continuous}
    action = data.get("action")
    if not isinstance(action, dict) or action.get("kind") not in (*kinds,):
        raise InputError("its spec has no kind of action")
    size = {name: value for name, value in action.items() if name != "kind"}
    plain = {name: value for name, value in data.items() if name != "action"}
    read = read_record(EnvSizes, plain, "its spec")
    for name, value in vars(read).items():
        if type(value) is int and value < 1:
            raise InputError(f"its spec: '{name}' is {value}")
    return EnvSpec(**vars(read), action=read_record(kinds[action["kind"]], size, "its spec"))


def load_params(found: checkpoint.Checkpoint, model: Model, spec: EnvSpec, which: str) -> Any:
    """Return the parameters in a checkpoint."""
    like = jax.eval_shape(lambda key: model.init(key, spec), jax.random.key(0))
    return checkpoint.unflatten(
        found.arrays, like, "best_params/" if which == "best" else "params/"
    )


def evaluate(
    directory: str | Path,
    num_episodes: int = 320,
    which: str = "best",
    seed: int = 0,
    task: str | None = None,
    env: Env | None = None,
) -> Episodes:
    """Play fresh episodes with a trained policy, sampling actions as in the paper.

    ``task`` is a task other than the policy's own, with the same sizes. A run that was trained on
    an ``Env`` object needs an equal object as ``env``.
    """
    if num_episodes < 1:
        raise InputError(f"`num_episodes` is {num_episodes}; it must be at least 1.")
    check_which(which)
    check_seed(seed)
    enable_compilation_cache()
    found, config, _ = load_run(Path(directory))
    env = env_to_play(run_directories(Path(directory))[0], config, task, env)
    shape = dataclasses.replace(
        config.shape, num_eval_episodes=min(num_episodes, config.shape.num_eval_episodes)
    )
    learner = make_learner(env, dataclasses.replace(config, shape=shape), 1)
    params = load_params(found, learner.model, env.spec, which)
    params = jax.tree.map(lambda x: np.asarray(x)[None], params)
    return absolute_metric(learner, params, [seed], found.meta.update, num_episodes)[0]
