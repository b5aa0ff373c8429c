"""The example environment follows the contract and its documentation."""

import jax.numpy as jnp
import numpy as np
import pytest

import ratiosym
from ratiosym.references import load_reference
from tests.example_runs import ROOT, run_python

REFERENCE = f"{ROOT}/examples/custom_environment.py:make_env"


@pytest.fixture(scope="module")
def env():
    return load_reference(REFERENCE, "task")()


def test_it_keeps_the_contract(env):
    ratiosym.check_env(env)
    assert ratiosym.make(REFERENCE, agent_ids=False) == env


def test_agents_meet_and_the_episode_ends(env, key):
    state, _ = env.reset(key)
    state = state._replace(cells=jnp.array([0, 2, 1]))
    state, step = env.step(key, state, jnp.array([2, 0, 1]))  # everyone to cell 1
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)
    np.testing.assert_array_equal(step.reward, [1, 1, 1])
    np.testing.assert_array_equal(step.observation.local[:, 0], [2, 2, 2])  # two others here
    assert step.metrics["met"] == 1
    picture = env.draw(state)
    assert (picture[0, 40] == 0).all()  # all of them in the second cell
    assert (picture[0, 0] == 255).all()


def test_agents_that_do_not_meet_run_out_of_time(env, key):
    state, _ = env.reset(key)
    state = state._replace(cells=jnp.array([0, 1, 2]))
    for _ in range(env.time_limit):
        state, step = env.step(key, state, jnp.ones(3, jnp.int32))
    assert (bool(step.terminated), bool(step.truncated)) == (False, True)
    np.testing.assert_allclose(step.reward, [1 / 3] * 3)


@pytest.mark.slow
def test_the_example_runs_and_its_task_trains_by_name(tmp_path):
    result = run_python("examples/custom_environment.py")
    assert result.returncode == 0, result.stderr
    assert "before training" in result.stdout
    (run,) = ratiosym.train(REFERENCE, preset="smoke", out=tmp_path / "run")
    assert run.config.task == REFERENCE
    assert ratiosym.evaluate(tmp_path / "run", num_episodes=4).returns.shape == (4,)
