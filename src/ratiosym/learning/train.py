"""The training loop. It yields events (updates, evaluations) and writes nothing to disk."""

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import jax
import numpy as np

from ratiosym.envs.protocol import Env
from ratiosym.errors import InputError, NonFiniteLoss
from ratiosym.learning.config import NETWORKS, Hyperparameters, RunConfig
from ratiosym.learning.evaluate import Episodes
from ratiosym.learning.learner import Learner, TrainState, evaluate, keys_of_episodes
from ratiosym.learning.mesh import make_mesh, to_host
from ratiosym.learning.model import Params, check_model, make_model
from ratiosym.learning.programs import Programs
from ratiosym.learning.update import summarise
from ratiosym.objectives import (
    BUILT_IN,
    QUANTILES,
    Bounds,
    Objective,
    RatioDiagnostics,
    get_objective,
)
from ratiosym.types import Discrete, Keys

ABSOLUTE_EPISODES = 320  # per absolute metric (Gorsane et al. 2022)

# A non-finite gradient ruins the parameters even if the losses are still finite.
MUST_BE_FINITE = ("policy_loss", "value_loss", "actor_grad_norm", "critic_grad_norm")

# Random streams of evaluations. The run itself uses streams 0 and 1, as split(key)[i] equals
# fold_in(key, i).
_EVALUATION, _ABSOLUTE = 2, 3


@dataclass(frozen=True)
class Updated:
    """An update of every seed, as rows for ``training.csv``."""

    update: int
    rows: list[dict[str, float]]


@dataclass(frozen=True)
class Evaluated:
    """An evaluation of every seed. ``state`` is only valid until the next event."""

    update: int
    episodes: list[Episodes]
    state: TrainState


@dataclass(frozen=True)
class Finished:
    """End of training, with the absolute metric: each seed's best parameters on fresh episodes."""

    episodes: list[Episodes]


def make_learner(
    env: Env, config: RunConfig, num_seeds: int, devices: Sequence[jax.Device] | None = None
) -> Learner:
    """Build the learner of a run for a number of seeds."""
    distribution = config.shape.action_distribution
    if isinstance(env.spec.action, Discrete) and distribution != "squashed":
        raise InputError(
            f"`action_distribution` is {distribution!r}, but the actions of '{config.task}' are "
            f"discrete. It is for continuous actions only: omit it."
        )
    model = make_model(config.shape)
    if config.shape.network not in NETWORKS:  # the built-in ones need no check
        check_model(model, env.spec, config.shape)
    objective = get_objective(config.objective)
    if config.objective not in BUILT_IN:
        check_surrogate(objective)
    mesh = make_mesh(num_seeds, config.shape.update_batch_size, devices)
    return Learner(env, config.shape, model, objective.surrogate, mesh)


def check_surrogate(objective: Objective) -> None:
    """Raise ``InputError`` unless the surrogate returns one value per sample. Only traces it.

    A sum or a mean would be broadcast over the batch, and another objective maximised.
    """
    samples = jax.ShapeDtypeStruct((2, 3, 4), np.float32)
    bound = jax.ShapeDtypeStruct((), np.float32)
    what = f"The surrogate of '{objective.name}'"
    try:
        found = jax.eval_shape(objective.surrogate, samples, samples, Bounds(bound, bound))
    except Exception as error:
        raise InputError(
            f"{what} cannot be traced by JAX: {type(error).__name__}: {error}"
        ) from error
    if found != samples:
        raise InputError(
            f"{what} returned {found} for arguments of the shape {samples.shape} and the dtype "
            f"{samples.dtype}; it must return one value per sample: an array like them."
        )


def train(
    learner: Learner,
    config: RunConfig,
    seeds: Sequence[int],
    state: TrainState | None = None,
    update: int = 0,
) -> Iterator[Updated | Evaluated | Finished]:
    """Train all ``seeds`` in parallel, from scratch or from a ``state`` after ``update`` updates.

    An evaluation that is due after that update must already have been done. The evaluation before
    training follows the first update: the first update need not wait until it is compiled.
    """
    bounds = jax.tree.map(np.float32, config.bounds)

    def evaluated(update: int, state: TrainState) -> Evaluated:
        programs.prepare_evaluation()
        keys = programs.episode_keys(seeds, _EVALUATION, update)
        episodes = split_seeds(to_host(programs.evaluate(state.params, keys)), len(seeds))
        returns = np.array([e.returns.mean() for e in episodes], np.float32)
        state = programs.update_best(state, returns)
        return Evaluated(update, episodes, state)

    is_new = state is None
    programs = Programs(learner, config, len(seeds), is_new)
    if state is None:
        state = programs.init_state(seeds)
    # Metrics are fetched one update later, so that the devices never wait for the host.
    pending: deque[tuple[int, Any]] = deque()
    clock = perf_counter()
    try:
        while update < config.num_updates:  # Algorithm 1, line 3
            # collect, estimate advantages, optimise (lines 4 to 27)
            hyperparameters = jax.tree.map(np.float32, hyperparameters_at(config, update))
            state, metrics = programs.train_step(state, hyperparameters, bounds)
            update += 1
            pending.append((update, metrics))
            is_due = config.is_evaluation_due(update)

            # report the previous update; before an evaluation, also this one
            while len(pending) > (0 if is_due or is_new else 1):
                number, metrics = pending.popleft()
                rows = training_rows(config, number, to_host(metrics), len(seeds))
                now = perf_counter()
                for row in rows:
                    row["steps_per_second"] = config.shape.steps_per_update / (now - clock)
                clock = now
                yield Updated(number, rows)  # also one that failed: its row shows what grew
                if is_new:
                    event = evaluated(0, programs.init_state(seeds))
                    best_params, best_return = event.state.best_params, event.state.best_return
                    state = state._replace(best_params=best_params, best_return=best_return)
                    yield event
                    clock, is_new = perf_counter(), False
                for seed, row in zip(seeds, rows, strict=True):
                    if not all(np.isfinite(row[name]) for name in MUST_BE_FINITE):
                        raise NonFiniteLoss(number, seed)

            # evaluate
            if is_due:
                event = evaluated(update, state)
                state = event.state
                yield event
                clock = perf_counter()
    finally:
        wait_for_updates(state)
    best = state.best_params
    yield Finished(absolute_metric(learner, best, seeds, update, play=programs.evaluate))


def wait_for_updates(state: TrainState) -> None:
    """Wait for an update under way, as a process that exits in the middle of one may crash.

    Not with several processes: if another one has gone, its part of the update never ends.
    """
    if jax.process_count() == 1:
        with suppress(RuntimeError):  # interrupted where the update had just taken the state
            jax.block_until_ready(state)


def hyperparameters_at(config: RunConfig, update: int) -> Hyperparameters:
    """Return the hyperparameters after ``update`` updates.

    Annealed learning rates decay linearly: the first of N updates has the full rate, the last 1 / N
    of it. They depend only on the update and the budget, so resuming does not change them.
    """
    numbers = config.hyperparameters
    if not config.anneal_learning_rates:
        return numbers
    left = 1.0 - update / config.num_updates
    return dataclasses.replace(
        numbers,
        actor_learning_rate=left * numbers.actor_learning_rate,
        critic_learning_rate=left * numbers.critic_learning_rate,
    )


def absolute_metric(
    learner: Learner,
    params: Params,
    seeds: Sequence[int],
    update: int,
    num_episodes: int = ABSOLUTE_EPISODES,
    play: Callable[[Params, Keys], Episodes] | None = None,
) -> list[Episodes]:
    """Play fresh episodes, in portions the size of an evaluation to avoid recompilation.

    ``play`` is ``evaluate`` of this learner, if it has been compiled already.
    """
    play = play or partial(evaluate, learner)
    portion = learner.shape.num_eval_episodes
    keys = episode_keys(seeds, _ABSOLUTE, update, -(-num_episodes // portion) * portion)
    portions = [
        to_host(play(params, keys[:, i : i + portion])) for i in range(0, keys.shape[1], portion)
    ]
    whole = jax.tree.map(lambda *x: np.concatenate(x, axis=1)[:, :num_episodes], *portions)
    return split_seeds(whole, len(seeds))


def episode_keys(seeds: Sequence[int], stream: int, update: int, num_episodes: int) -> Keys:
    """Return the keys of an evaluation's episodes, [K, n], given by seed, stream and update."""
    return keys_of_episodes(
        num_episodes, np.array(seeds, np.uint32), np.uint32(stream), np.uint32(update)
    )


def split_seeds(tree: Any, num_seeds: int) -> list[Any]:
    """[K, ...] -> K trees."""
    return [jax.tree.map(lambda x, k=k: x[k], tree) for k in range(num_seeds)]


def training_rows(
    config: RunConfig, update: int, metrics: Any, num_seeds: int
) -> list[dict[str, float]]:
    """Return one row of ``training.csv`` per seed (docs/concepts/run-directory.md)."""
    rows = []
    for steps, episodes in split_seeds(metrics, num_seeds):
        measured = summarise(steps, config.shape.num_minibatches)
        mean_return = episodes.total_return / episodes.num_ended if episodes.num_ended else np.nan
        row = {
            "update": update,
            "steps": update * config.shape.steps_per_update,
            "episodes": int(episodes.num_ended),
            "episode_return": mean_return,
            **{k: v for k, v in measured._asdict().items() if k not in ("ratios", "active_ratios")},
            **ratio_columns("", measured.ratios),
            **ratio_columns("active_", measured.active_ratios),
        }
        rows.append(
            {name: value if isinstance(value, int) else float(value) for name, value in row.items()}
        )
    return rows


def ratio_columns(prefix: str, ratios: RatioDiagnostics) -> dict[str, Any]:
    """Return ratio diagnostics as named columns."""
    quantiles = {
        f"{prefix}ratio_q{round(100 * level):02d}": q
        for level, q in zip(QUANTILES, ratios.quantiles, strict=True)
    }
    return {
        f"{prefix}ratio_min": ratios.minimum,
        f"{prefix}ratio_max": ratios.maximum,
        **quantiles,
        f"{prefix}beyond_target": ratios.beyond_target,
        f"{prefix}approximate_kl": ratios.approximate_kl,
    }
