"""The ``train`` and ``render`` functions of the public Python API."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from ratiosym.envs.protocol import Env
from ratiosym.experiments.presets import change, configure
from ratiosym.learning.config import RunConfig
from ratiosym.plain import read_value
from ratiosym.runs import loop
from ratiosym.runs.branch import default_out, find_parent
from ratiosym.runs.directory import Run, default_directory
from ratiosym.runs.environments import name_task
from ratiosym.runs.loop import Progress, start


class TrainOptions(TypedDict, total=False):
    """Settings of a run, each documented where it is defined.

    These are the fields of ``RunConfig``, ``RunShape`` and ``Hyperparameters``, and the parameters
    of the built-in objectives.
    """

    steps: int
    num_evaluations: int
    anneal_learning_rates: bool
    # RunShape
    num_envs: int
    update_batch_size: int
    rollout_length: int
    num_epochs: int
    num_minibatches: int
    network: str
    hidden_size: int  # of actor and critic
    actor_hidden_size: int
    critic_hidden_size: int
    actor_depth: int
    critic_depth: int
    critic: Literal["central", "local", "joint", "individual"]
    action_distribution: Literal["squashed", "clipped"]
    time_limit: Literal["end", "bootstrap"]
    mask_inactive: bool
    num_eval_episodes: int
    # Hyperparameters
    actor_learning_rate: float
    critic_learning_rate: float
    entropy_coefficient: float
    value_clip: float
    discount: float
    gae_lambda: float
    value_coefficient: float
    max_grad_norm: float
    # the objective's parameters
    epsilon: float
    epsilon_lower: float
    epsilon_upper: float
    b: float
    b_lower: float
    b_upper: float
    objective_parameters: Mapping[str, float]  # for custom objectives


def train(
    task: str | Env,
    objective: str = "mars",
    *,
    out: str | Path | None = None,
    seed: int = 0,
    num_seeds: int = 1,
    preset: str = "cpu",
    tuned: bool = False,
    track: Sequence[str] = (),
    on_progress: Callable[[Progress], None] = lambda _: None,
    **options: Unpack[TrainOptions],
) -> list[Run]:
    """Train one policy per seed, all in parallel, and record each run under ``out``.

    The seeds are ``seed``, ``seed + 1`` and so on, ``num_seeds`` of them. ``task`` is a name,
    ``package.module:function`` or an ``Env`` object, which is checked first. ``preset`` sets the
    budget and sizes, and ``options`` override it: ``steps=400_000``, ``num_envs=32``,
    ``actor_learning_rate=5e-4``, ``b_upper=2.0``. ``tuned`` starts from the settings shipped for
    this task and objective (docs/how-to/tuning.md) instead of those shared by all objectives.
    ``track`` names trackers: "tensorboard", "wandb", or a custom one as "package.module:function".
    """
    given = with_parameters(options)
    name, environment = name_task(task)
    config = configure(name, preset, tuned, objective=objective, seed=seed, **given)
    origin = {"preset": preset, "tuned": tuned, "environment": environment}
    return start(
        config,
        out or default_directory(config, num_seeds),
        num_seeds,
        on_progress,
        track,
        origin,
    )


def branch(
    run: str | Path,
    *,
    out: str | Path | None = None,
    track: Sequence[str] | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    env: Env | None = None,
    **options: Any,
) -> list[Run]:
    """Start a new run from a checkpoint of another, with other settings.

    ``run`` is the other run's directory, or ``DIRECTORY@UPDATE`` for a checkpoint that is not the
    newest. ``options`` are those of ``train``, and ``objective``. Task, seed, network and sizes
    cannot change. ``out`` defaults to a directory next to the other run. A run that was trained on
    an ``Env`` object needs an equal object as ``env``.
    """
    parent, update = find_parent(run)
    given = with_parameters(options)
    config = branched_config(parent.config, given)
    place = default_out(parent, update) if out is None else out
    return loop.branch(run, config, place, on_progress, track, env)


def with_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with ``objective_parameters`` among them."""
    given = dict(options)
    parameters = given.pop("objective_parameters", {})
    return given | read_value(dict[str, Any], parameters, "`objective_parameters`")


def branched_config(parent: RunConfig, options: Mapping[str, Any]) -> RunConfig:
    """Change settings of the parent's configuration.

    If the steps change, the interval between evaluations is kept, unless their number is given.
    """
    config = change(parent, **options)
    if "num_evaluations" in options or config.steps == parent.steps:
        return config
    number = max(1, round(parent.num_evaluations * config.steps / parent.steps))
    return change(config, num_evaluations=number)


def render(
    run_or_task: str | Path,
    out: str | Path = "episode.gif",
    *,
    team: str | None = None,
    which: Literal["best", "last"] = "best",
    task: str | None = None,
    seed: int = 0,
    env: Env | None = None,
) -> Path:
    """Render one episode of a trained team or a scripted one.

    A trained team is a run's directory or ``zoo:TASK``, a scripted one a task and a ``team``. A
    run that was trained on an ``Env`` object needs an equal object as ``env``.
    """
    from ratiosym.learning.config import check_seed
    from ratiosym.report.film import check_film, draw_film
    from ratiosym.runs.episodes import find_cast

    check_seed(seed)
    out = Path(out)
    cast = find_cast(str(run_or_task), team, which, task, env)
    check_film(cast.plain, out)
    draw_film(cast.plain, cast.record(seed), out, cast.title)
    return out
