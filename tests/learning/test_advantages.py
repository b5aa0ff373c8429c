"""Advantages compared to their definition, a sum over later steps, with all kinds of ends."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.advantages import generalised_advantages, value_targets
from ratiosym.learning.batch import next_values
from ratiosym.learning.config import RunShape
from ratiosym.learning.model import make_model
from ratiosym.types import Observation, Transition
from tests.learning.helpers import Drift, random_params, resize

T, E, A, S = 9, 5, 3, 2
DISCOUNT, LAMBDA = 0.9, 0.8


def oracle(reward, value, following, is_end):
    """Compute sum_l (gamma lambda)^l delta_{t+l} up to the first end, in O(T^2) and float64."""
    reward, value, following = (np.asarray(x, np.float64) for x in (reward, value, following))
    change = DISCOUNT * following - value
    delta = reward + (change if change.ndim == reward.ndim else change[..., None])
    advantage = np.zeros_like(delta)
    for t in range(delta.shape[0]):
        for e in range(delta.shape[1]):
            for later in range(t, delta.shape[0]):
                advantage[t, e] += (DISCOUNT * LAMBDA) ** (later - t) * delta[later, e]
                if is_end[later, e]:
                    break
    return advantage


def example(seed=0):
    """Return rewards per agent and ends of both kinds at random steps, including the last."""
    rng = np.random.default_rng(seed)
    ends = rng.choice(3, p=[0.6, 0.2, 0.2], size=(T, E))
    ends[-1, :3] = [0, 1, 2]
    terminated, truncated = ends == 1, ends == 2
    assert terminated.any()
    assert truncated.any()
    assert (ends == 0).any()
    return (
        jnp.array(rng.normal(size=(T, E, A)), jnp.float32),
        jnp.array(terminated),
        jnp.array(truncated),
        rng,
    )


OF_WHOM = pytest.mark.parametrize("of_whom", [(T, E), (T, E, A)], ids=["team", "agents"])


@OF_WHOM
def test_advantages_are_the_sum_of_the_definition(of_whom):
    reward, terminated, truncated, rng = example()
    value, following = (jnp.array(rng.normal(size=of_whom), jnp.float32) for _ in range(2))
    is_end = terminated | truncated
    advantage = jax.jit(generalised_advantages)(reward, value, following, is_end, DISCOUNT, LAMBDA)
    np.testing.assert_allclose(
        advantage, oracle(reward, value, following, is_end), rtol=1e-4, atol=1e-5
    )


def test_with_lambda_one_an_advantage_is_the_discounted_return_less_the_value():
    reward, value = jnp.array([[[1.0]], [[2.0]], [[4.0]]]), jnp.array([[0.5], [7.0], [-3.0]])
    following = jnp.array([[7.0], [-3.0], [0.0]])
    is_end = jnp.array([[False], [False], [True]])
    advantage = jax.jit(generalised_advantages)(reward, value, following, is_end, 0.5, 1.0)
    np.testing.assert_allclose(advantage[0, 0, 0], 1 + 0.5 * 2 + 0.25 * 4 - 0.5, rtol=1e-6)


def test_equal_rewards_give_equal_advantages():
    reward, terminated, truncated, rng = example()
    shared = jnp.broadcast_to(reward[..., :1], reward.shape)
    value, following = (jnp.array(rng.normal(size=(T, E)), jnp.float32) for _ in range(2))
    advantage = generalised_advantages(
        shared, value, following, terminated | truncated, DISCOUNT, LAMBDA
    )
    np.testing.assert_array_equal(advantage, jnp.broadcast_to(advantage[..., :1], advantage.shape))


def test_value_target_is_the_mean_over_agents():
    rng = np.random.default_rng(0)
    advantage, value = rng.normal(size=(T, E, A)), rng.normal(size=(T, E))
    target = value_targets(jnp.array(advantage, jnp.float32), jnp.array(value, jnp.float32))
    np.testing.assert_allclose(
        target, (advantage + value[..., None]).mean(-1), rtol=1e-4, atol=1e-6
    )


def test_value_targets_of_agents_are_their_own():
    rng = np.random.default_rng(0)
    advantage, value = rng.normal(size=(2, T, E, A)).astype(np.float32)
    target = value_targets(jnp.array(advantage), jnp.array(value))
    np.testing.assert_allclose(target, advantage + value, rtol=1e-6)


@pytest.mark.parametrize("time_limit", ["end", "bootstrap"])
@pytest.mark.parametrize(
    ("network", "critic"), [("gru", "central"), ("feedforward", "central"), ("gru", "local")]
)
def test_what_follows_a_step(network, critic, time_limit):
    """Compared to single steps of the critic, which reads the last state with its carry."""
    shape = resize(RunShape(network=network, critic=critic, time_limit=time_limit), 4)
    spec = dataclasses.replace(Drift().spec, num_agents=A, observation_size=S, state_size=S)
    model, params = make_model(shape), random_params(spec, shape).critic
    reward, terminated, truncated, rng = example()

    def normal(*size):
        return jnp.array(rng.normal(size=size), jnp.float32)

    def observations(length):  # of one group
        return Observation(normal(length, 1, E, A, S), None, None, normal(length, 1, E, S))

    seen, last = observations(T + 1), observations(T)
    is_end = np.asarray(terminated | truncated)[:, None]
    is_start = jnp.concatenate([jnp.array([[[True, False, False, True, False]]]), is_end])
    carry = jax.tree.map(lambda x: normal(*x.shape), model.initial_carry(spec, (1, E)).critic)
    judge = jax.jit(model.critic)

    transition = Transition(
        *(None,) * 5, terminated[:, None], truncated[:, None], last
    )  # the other fields are not used
    values, carries = judge(params, seen, is_start, carry)
    following = jax.jit(lambda *x: next_values(shape, model, *x))(
        params, transition, values, carries
    )

    expected = np.zeros(following.shape)
    at_end, at_limit = (
        np.broadcast_to(x.reshape(x.shape + (1,) * (expected.ndim - 3)), expected.shape)
        for x in (is_end, np.asarray(truncated)[:, None])
    )
    never = jnp.zeros((1, 1, E), bool)
    for t in range(T + 1):
        value, after = judge(params, at(seen, t), is_start[t : t + 1], carry)
        carry = jax.tree.map(lambda x: x[0], after)
        if t > 0:
            expected[t - 1] = np.where(at_end[t - 1], expected[t - 1], value[0])
        if t < T and time_limit == "bootstrap":
            expected[t] = np.where(at_limit[t], judge(params, at(last, t), never, carry)[0][0], 0.0)
    np.testing.assert_allclose(following, expected, rtol=1e-5, atol=1e-6)
    assert (np.asarray(following)[:, 0][np.asarray(terminated)] == 0).all()
    assert (np.asarray(following)[:, 0][np.asarray(truncated)] == 0).all() == (time_limit == "end")

    advantage = jax.jit(generalised_advantages)(
        reward, values[:-1, 0], following[:, 0], is_end[:, 0], DISCOUNT, LAMBDA
    )
    expected = oracle(reward, values[:-1, 0], expected[:, 0], is_end[:, 0])
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-5)


def at(tree, t):
    return jax.tree.map(lambda x: x[t : t + 1], tree)
