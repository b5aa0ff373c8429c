"""Every task trains for one tiny update; every objective on a discrete and a continuous task.

Compiling an update takes long, so the everyday tests only trace those of most suites.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.registry import make
from ratiosym.envs.tasks import TASKS
from ratiosym.experiments.presets import configure
from ratiosym.learning.learner import (
    collect,
    evaluate,
    fresh_state,
    init_state,
    optimise,
    train_step,
)
from ratiosym.learning.train import episode_keys, make_learner
from ratiosym.objectives import OBJECTIVES
from ratiosym.runs.files import read_json
from tests.example_runs import run_command
from tests.learning.helpers import traced

# Two steps per rollout in two groups of two environments, as needed for two minibatches: fast to
# compile and run.
TINY = {
    "num_envs": 4,
    "rollout_length": 2,
    "num_epochs": 2,
    "num_minibatches": 2,
    "actor_hidden_size": 8,
    "critic_hidden_size": 8,
    "num_eval_episodes": 2,
    "steps": 8,
}


FAST_TO_COMPILE = "mpe-spread-3ag"
FIRST_OF_EACH_SUITE = {task.suite: task.name for task in reversed(TASKS.values())}.values()


def tiny(task, objective="mars"):
    config = configure(task, "smoke", objective=objective, **TINY)
    return config, make_learner(make(task), config, num_seeds=1)


def trace(task):
    """Trace a start, an update and an evaluation. An update must not change shapes or dtypes."""
    config, learner = tiny(task)
    parts = (learner.env, learner.shape, learner.model)
    state = fresh_state.eval_shape(*parts, jnp.zeros(1, jnp.uint32))
    numbers = traced(config.hyperparameters, config.bounds)
    groups, collected, _ = collect.eval_shape(learner, state.params, state.groups, numbers[0])
    params, optimiser, _ = optimise.eval_shape(
        learner, state.params, state.optimiser, collected, *numbers
    )
    assert shapes((params, optimiser, groups)) == shapes(state[:3])
    episodes = evaluate.eval_shape(learner, params, episode_keys([0], 0, 0, 2))
    assert set(episodes.metrics) == set(learner.env.spec.metrics)


def shapes(tree):
    return [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]


def update(task, objective="mars"):
    """Perform one update of two groups; return parameters before and after, and metrics."""
    config, learner = tiny(task, objective)
    state = init_state(learner, [0])
    before = jax.device_get(state.params)
    state, (metrics, _) = train_step(learner, state, *traced(config.hyperparameters, config.bounds))
    return before, jax.device_get(state.params), jax.device_get(metrics)


def check(before, after, metrics):
    assert metrics.ratio_error[:, 0].max() < 1e-5  # ratios are 1 before the first gradient step
    for leaf in jax.tree.leaves((after, metrics)):
        assert np.isfinite(leaf).all()
    for part in ("actor", "critic"):
        pairs = zip(
            *(jax.tree.leaves(getattr(params, part)) for params in (before, after)), strict=True
        )
        assert any((one != other).any() for one, other in pairs)


@pytest.mark.parametrize("task", FIRST_OF_EACH_SUITE)
def test_every_suite_is_traced(task):
    trace(task)


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(name, marks=() if name == FAST_TO_COMPILE else pytest.mark.slow)
        for name in TASKS
    ],
)
def test_every_task_trains(task):
    check(*update(task))


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("task", ["connector-5x5x3a", "jaxnav-8x8x2a"])
def test_every_objective_trains_with_choices_and_with_numbers(task, objective):
    check(*update(task, objective))


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", ["connector-5x5x3a", "rware-tiny-2ag", "sar-100tg-2ag", "smax-2s3z"]
)
def test_a_fresh_process_trains(task, tmp_path):
    """There, the task's library is imported and its objects are created while tracing."""
    done = run_command("train", task, "--preset", "smoke", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert read_json(tmp_path / "run" / "summary.json")["task"] == task
