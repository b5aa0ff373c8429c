"""Every task trains for one tiny update; every objective on a discrete and a continuous task."""

import jax
import numpy as np
import pytest

from ratiosym.envs.registry import make
from ratiosym.envs.tasks import TASKS
from ratiosym.experiments.presets import configure
from ratiosym.learning.learner import init_state, train_step
from ratiosym.learning.train import make_learner
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


def first_of_each_suite_and_the_rest_as_slow():
    suites = set()
    for task in TASKS.values():
        yield pytest.param(task.name, marks=pytest.mark.slow if task.suite in suites else ())
        suites.add(task.suite)


def update(task, objective="mars"):
    """Perform one update of two groups; return parameters before and after, and metrics."""
    config = configure(task, "smoke", objective=objective, **TINY)
    learner = make_learner(make(task), config, num_seeds=1)
    state = init_state(learner, [0])
    before = jax.device_get(state.params)
    state, (metrics, _) = train_step(learner, state, *traced(config.hyperparameters, config.bounds))
    return before, jax.device_get(state.params), jax.device_get(metrics)


def check(before, after, metrics):
    assert (
        np.abs(metrics.first_ratio_error).max() < 1e-5
    )  # ratios are 1 before the first gradient step
    for leaf in jax.tree.leaves((after, metrics)):
        assert np.isfinite(leaf).all()
    for part in ("actor", "critic"):
        pairs = zip(
            *(jax.tree.leaves(getattr(params, part)) for params in (before, after)), strict=True
        )
        assert any((one != other).any() for one, other in pairs)


@pytest.mark.parametrize("task", list(first_of_each_suite_and_the_rest_as_slow()))
def test_every_task_trains(task):
    check(*update(task))


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("task", ["connector-5x5x3a", "jaxnav-8x8x2a"])
def test_every_objective_trains_with_choices_and_with_numbers(task, objective):
    check(*update(task, objective))


@pytest.mark.parametrize(
    "task",
    [
        "connector-5x5x3a",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("rware-tiny-2ag", "sar-100tg-2ag", "smax-2s3z")
        ),
    ],
)
def test_a_fresh_process_trains(task, tmp_path):
    """There, the task's library is imported and its objects are created while tracing."""
    done = run_command("train", task, "--preset", "smoke", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert read_json(tmp_path / "run" / "summary.json")["task"] == task
