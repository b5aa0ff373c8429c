"""Custom models: loaded by name, checked, and rejected with messages that explain the contract."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig, RunShape
from ratiosym.learning.model import Carries, check_model, make_model, unroll
from ratiosym.learning.networks import StandardModel, gru_model
from ratiosym.learning.policy import Policy
from ratiosym.learning.train import make_learner
from tests.learning.helpers import Drift, random_params

HERE = "tests.learning.test_model"
SPEC = Drift().spec
FEEDFORWARD = make_model(RunShape(network="feedforward"))


@dataclass(frozen=True)
class Wrong:
    """A built-in model with one fault."""

    fault: str = ""
    model: StandardModel = FEEDFORWARD

    def init(self, key, spec):
        params = self.model.init(key, spec)
        return tuple(params) if self.fault == "init" else params

    def initial_carry(self, spec, batch_shape):
        if self.fault == "no carries":
            return jnp.zeros(batch_shape)
        return Carries(jnp.zeros((*batch_shape, 2)), ())

    def actor(self, params, observation, is_start, carry):
        policy, _ = self.model.actor(params, observation, is_start, ())
        if self.fault == "no pair":
            return policy
        if self.fault == "one policy":
            policy = jax.tree.map(lambda x: x[..., 0, :], policy)
        if self.fault == "last carry":
            return policy, carry
        return policy, jnp.broadcast_to(carry, (is_start.shape[0], *carry.shape))

    def critic(self, params, observation, is_start, carry):
        if self.fault == "error":
            raise RuntimeError("what went wrong")
        value, carry = self.model.critic(params, observation, is_start, carry)
        return (value[..., None] if self.fault == "values" else value), carry


class NotHashable(Wrong):
    __hash__ = None


class NeverEqual:
    init = initial_carry = actor = critic = print


def right(shape):
    return Wrong()


def not_hashable(shape):
    return NotHashable()


def never_equal(shape):
    return NeverEqual()


def half_a_model(shape):
    return type("Half", (), {"init": print, "actor": print})()


def the_class(shape):
    return Wrong


def wants_more(shape, more):
    return Wrong()


NUMBER = 3


def named(name, **shape):
    return RunShape(network=f"{HERE}:{name}", **shape)


def test_built_in_models_are_equal_and_share_programs():
    assert make_model(RunShape()) == make_model(RunShape(num_envs=4)) == gru_model(RunShape())
    assert hash(make_model(RunShape())) == hash(make_model(RunShape()))
    others = (
        RunShape(network="feedforward"),
        RunShape(critic="local"),
        RunShape(critic="joint"),
        RunShape(critic="individual"),
        RunShape(action_distribution="clipped"),
        RunShape(actor_depth=2),
        RunShape(critic_hidden_size=64),
    )
    assert len({make_model(RunShape()), *map(make_model, others)}) == 8


def test_a_model_by_name():
    assert make_model(named("right")) == Wrong()
    check_model(Wrong(), SPEC, named("right"))
    learner = make_learner(Drift(), RunConfig("probe", shape=named("right")), 1)
    assert learner.model == Wrong()


def test_a_file_is_found_again_from_another_directory(monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(f"from {HERE} import right\n")
    monkeypatch.chdir(tmp_path)
    shape = RunShape(network="mine.py:right")
    monkeypatch.chdir("/")
    assert shape.network == f"{tmp_path}/mine.py:right"
    assert make_model(shape) == Wrong()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NUMBER", "is an object of type int; it must be a function that takes a RunShape"),
        ("nowhere", "has no 'nowhere'"),
        ("half_a_model", "of type Half without initial_carry, critic. It must return a model"),
        ("the_class", "a class, not an object"),
        ("wants_more", "cannot be built from a RunShape: TypeError.*'more'"),
        ("not_hashable", "is not hashable.*Make its class a frozen dataclass"),
        ("never_equal", "a different model each time.*frozen dataclass"),
    ],
)
def test_what_is_no_model_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        make_model(named(name))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("init", "init returned an object of type tuple; it must return Params"),
        ("no carries", "initial_carry returned .*; it must return Carries"),
        ("no pair", "actor returned .*; it must return a pair"),
        ("one policy", r"the actor's .* have the shape \(2, 3\); it must be \(2, 3, 2\)"),
        ("last carry", r"actor returned the carry float32\[3, 2\] .* float32\[2, 3, 2\]"),
        ("values", r"the values of `critic`='central' have the shape \(2, 3, 1\); .* \(2, 3\)"),
        ("error", "critic cannot be traced by JAX: RuntimeError: what went wrong"),
    ],
)
def test_a_broken_contract_is_named(fault, message):
    with pytest.raises(InputError, match=message):
        check_model(Wrong(fault), SPEC, named("right"))


def test_a_model_that_has_no_local_critic_says_so_when_asked_for_one():
    config = RunConfig("probe", shape=named("right", critic="local"))
    with pytest.raises(InputError, match=r"the values of `critic`='local' have the shape \(2, 3\)"):
        make_learner(Drift(), config, 1)


@pytest.mark.parametrize("critic", ["central", "local", "joint", "individual"])
@pytest.mark.parametrize("network", ["gru", "feedforward"])
@pytest.mark.parametrize("is_continuous", [False, True])
def test_built_in_models_pass_the_check(network, critic, is_continuous):
    shape = RunShape(network=network, critic=critic)
    check_model(make_model(shape), Drift(is_continuous).spec, shape)


def test_unroll_zeroes_the_carry_at_starts_and_returns_every_carry():
    def cell(carry, x):
        total, count = carry
        return (total + x, count + 1), total

    inputs = jnp.arange(1.0, 6.0)[:, None] * jnp.ones((1, 2))
    is_start = jnp.array([[0, 1], [0, 0], [1, 0], [0, 0], [1, 0]], bool)
    outputs, (totals, counts) = unroll(
        cell, inputs, is_start, (jnp.full(2, 10.0), jnp.full(2, 7, jnp.int32))
    )
    np.testing.assert_array_equal(totals[:, 0], [11, 13, 3, 7, 5])
    np.testing.assert_array_equal(totals[:, 1], [1, 3, 6, 10, 15])
    np.testing.assert_array_equal(counts[:, 0], [8, 9, 1, 2, 1])
    np.testing.assert_array_equal(outputs[:, 0], [10, 11, 0, 3, 0])  # the carry before the input


def test_a_policy_is_one_line():
    policy = Policy(gru_model(RunShape()), random_params(SPEC, RunShape()).actor, SPEC)
    assert repr(policy) == "Policy('drift', 2 agents, StandardModel with 116,099 weights)"
