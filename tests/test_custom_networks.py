"""The networks in examples/ train, with initial ratios of 1, and their runs load them again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ratiosym
from ratiosym.learning.config import RunShape
from ratiosym.learning.model import check_model, make_model
from tests.example_runs import ROOT

TINY = {
    "num_envs": 4,
    "rollout_length": 5,
    "num_epochs": 2,
    "num_minibatches": 2,
    "actor_hidden_size": 8,
    "critic_hidden_size": 8,
    "num_eval_episodes": 2,
    "steps": 3 * 20,
    "num_evaluations": 1,
    "actor_learning_rate": 3e-3,
}


CNN = "custom_network_cnn.py:cnn"


def test_the_network_for_grids_keeps_the_contract():
    shape = RunShape(network=str(ROOT / "examples" / CNN))
    check_model(make_model(shape), ratiosym.make("connector-5x5x3a").spec, shape)


@pytest.mark.parametrize(
    ("task", "network", "carry"),
    [
        pytest.param("mpe-spread-3ag", "custom_network_lstm.py:lstm", ((3, 8), (3, 8)), id="lstm"),
        pytest.param("connector-5x5x3a", CNN, (), id="cnn", marks=pytest.mark.slow),
    ],
)
def test_a_network_from_outside(task, network, carry, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    [run] = ratiosym.train(task, network=f"examples/{network}", out=tmp_path / "run", **TINY)
    assert len(run.training["update"]) == 3
    assert (run.training["first_ratio_error"] < 1e-5).all()  # also later, with a non-zero carry
    assert (run.training["ratio_max"] > 1.001).all()

    monkeypatch.chdir(tmp_path)  # loaded again from elsewhere
    policy = ratiosym.load_policy("run")
    assert jax.tree.map(jnp.shape, policy.initial_carry()) == carry
    assert len(repr(policy)) < 100
    env = ratiosym.make(task)
    _, observation = env.reset(jax.random.key(0))
    action, after = policy.act(observation, policy.initial_carry(), jax.random.key(1))
    assert action.shape[0] == 3
    assert jax.tree.map(jnp.shape, after) == carry
    assert np.isfinite(action).all()
