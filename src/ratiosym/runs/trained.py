"""Load trained policies from run directories or the zoo, and evaluate them."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ratiosym.envs.protocol import Env
from ratiosym.envs.registry import make
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig, check_seed
from ratiosym.learning.devices import enable_compilation_cache
from ratiosym.learning.evaluate import Episodes
from ratiosym.learning.model import Model, Params, make_model
from ratiosym.learning.policy import Policy
from ratiosym.learning.train import absolute_metric, make_learner
from ratiosym.plain import check_count, read_record
from ratiosym.runs import checkpoint, zoo
from ratiosym.runs.directory import CONFIG, read_run_record, single_run
from ratiosym.runs.environments import find_env
from ratiosym.runs.state import flatten, unflatten
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


class Trained(NamedTuple):
    """A trained actor with all that is needed to play with it."""

    config: RunConfig
    spec: EnvSpec
    model: Model
    actor: PyTree
    update: int  # after which the parameters were stored
    directory: Path | None  # of the run; None for a team of the zoo


def load_policy(run: str | Path, which: str = "best") -> Policy:
    """Load the policy of a run, with its ``best`` parameters so far or the ``last`` ones.

    ``run`` is a directory, or ``zoo:TASK`` for a team that ships with the package.
    """
    trained = load_trained(run, which)
    return Policy(trained.model, trained.actor, trained.spec)


def load_trained(run: str | Path, which: str = "best") -> Trained:
    """Load the actor of a run or of the zoo."""
    check_which(which)
    if zoo.is_zoo(run):
        return load_zoo(str(run), which)
    found, config, spec = load_run(Path(run))
    prefix = "best_params/actor/" if which == "best" else "params/actor/"
    model = make_model(config.shape)
    actor = load_actor(found.arrays, model, spec, prefix)
    return Trained(config, spec, model, actor, found.meta.update, single_run(Path(run)))


def load_zoo(name: str, which: str) -> Trained:
    """Load a team that ships with the package."""
    if which != "best":
        raise InputError(f"`which` is {which!r}, but '{name}' has only its best parameters.")
    team = zoo.read_team(name)
    config, spec = RunConfig.from_dict(team.about["config"], name), read_spec(team.about["spec"])
    model = make_model(config.shape)
    actor = load_actor(team.arrays, model, spec, "")
    return Trained(config, spec, model, actor, int(team.about["update"]), None)


def env_to_play(trained: Trained, task: str | None, env: Env | None) -> Env:
    """Return the environment that a policy was trained on, or that of another ``task``."""
    if trained.directory is None:
        own = find_env(trained.config, env, None, Path(f"{zoo.PREFIX}{trained.config.task}"))
    else:
        environment = read_run_record(trained.directory / CONFIG).environment
        own = find_env(trained.config, env, environment, trained.directory)
    # An environment may have changed since, for example with its library.
    load_actor(flatten(trained.actor), trained.model, own.spec, "")
    if task is None:
        return own
    check_task_fits(own.spec, task)
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
    checkpoints = single_run(directory) / "checkpoint"
    found = checkpoint.load(checkpoints)
    path = checkpoints / str(found.meta.update)
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


def load_actor(arrays: dict[str, np.ndarray], model: Model, spec: EnvSpec, prefix: str) -> PyTree:
    """Return the actor's parameters among arrays by path."""
    like = jax.eval_shape(lambda key: model.init(key, spec), jax.random.key(0))
    return unflatten(arrays, like.actor, prefix)


def evaluate(
    run: str | Path,
    num_episodes: int = 320,
    which: str = "best",
    seed: int = 0,
    task: str | None = None,
    env: Env | None = None,
) -> Episodes:
    """Play fresh episodes with a trained policy, sampling actions as in the paper.

    ``run`` is a directory, or ``zoo:TASK``. ``task`` is a task other than the policy's own, with
    the same sizes. A run that was trained on an ``Env`` object needs an equal object as ``env``.
    """
    check_count("num_episodes", num_episodes)
    check_seed(seed)
    enable_compilation_cache()
    trained = load_trained(run, which)
    env = env_to_play(trained, task, env)
    shape = dataclasses.replace(
        trained.config.shape,
        num_eval_episodes=min(num_episodes, trained.config.shape.num_eval_episodes),
    )
    learner = make_learner(env, dataclasses.replace(trained.config, shape=shape), 1)
    actor = jax.tree.map(lambda x: np.asarray(x)[None], trained.actor)
    params = Params(actor, ())  # nobody asks the critic
    return absolute_metric(learner, params, [seed], trained.update, num_episodes)[0]
