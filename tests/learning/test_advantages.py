"""Advantages against their definition, a sum over later steps, with all kinds of end."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.advantages import generalised_advantages, value_targets
from ratiosym.learning.config import RunShape
from ratiosym.learning.learner import next_values
from ratiosym.learning.networks import apply_critic
from ratiosym.types import Transition
from tests.learning.helpers import Drift, random_params

T, E, A, S = 9, 5, 3, 2
DISCOUNT, LAMBDA = 0.9, 0.8


def oracle(reward, value, following, is_end):
    """sum_l (gamma lambda)^l delta_{t+l}, up to and with the first end, in O(T^2) and double
    precision.
    """
    reward, value, following = (np.asarray(x, np.float64) for x in (reward, value, following))
    delta = reward + (DISCOUNT * following - value)[..., None]
    advantage = np.zeros_like(delta)
    for t in range(delta.shape[0]):
        for e in range(delta.shape[1]):
            for later in range(t, delta.shape[0]):
                advantage[t, e] += (DISCOUNT * LAMBDA) ** (later - t) * delta[later, e]
                if is_end[later, e]:
                    break
    return advantage


def example(seed=0):
    """Rewards of each agent, and ends of both kinds at random places, the last step included."""
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


def test_advantages_are_the_sum_of_the_definition():
    reward, terminated, truncated, rng = example()
    value, following = (jnp.array(rng.normal(size=(T, E)), jnp.float32) for _ in range(2))
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


@pytest.mark.parametrize("time_limit", ["end", "bootstrap"])
@pytest.mark.parametrize("memory", ["gru", "none"])
def test_what_follows_a_step(memory, time_limit):
    """Against single steps of the critic, which reads an episode's last state with what it
    remembers.
    """
    shape = RunShape(memory=memory, time_limit=time_limit, hidden_size=4)
    reward, terminated, truncated, rng = example()
    states = rng.normal(size=(T + 1, 1, E, S)).astype(np.float32)  # one group
    last_state = rng.normal(size=(T, 1, E, S)).astype(np.float32)
    is_end = np.asarray(terminated | truncated)[:, None]
    is_start = np.concatenate([np.array([[[True, False, False, True, False]]]), is_end])
    carry = rng.normal(size=(1, E, shape.carry_size)).astype(np.float32)
    spec = dataclasses.replace(Drift().spec, state_size=S)
    critic = random_params(spec, shape.hidden_size, shape.has_memory).critic
    judge = jax.jit(apply_critic)

    transition = Transition(
        *(None,) * 5, terminated[:, None], truncated[:, None], jnp.array(last_state)
    )  # the other fields have no part
    values, carries = judge(critic, states, is_start, carry)
    following = jax.jit(lambda *x: next_values(shape, *x))(critic, transition, values, carries)

    expected = np.zeros((T, 1, E))
    for t in range(T + 1):
        value, after = judge(critic, states[t : t + 1], is_start[t : t + 1], carry)
        if t > 0:
            expected[t - 1] = np.where(is_end[t - 1], expected[t - 1], value[0])
        if t < T and time_limit == "bootstrap":
            at_limit, _ = judge(critic, last_state[t : t + 1], np.zeros((1, 1, E), bool), after[0])
            expected[t] = np.where(truncated[t], at_limit[0], 0.0)
        carry = after[0]
    np.testing.assert_allclose(following, expected, rtol=1e-5, atol=1e-6)
    assert (np.asarray(following)[:, 0][np.asarray(terminated)] == 0).all()
    assert (np.asarray(following)[:, 0][np.asarray(truncated)] == 0).all() == (time_limit == "end")

    advantage = jax.jit(generalised_advantages)(
        reward, values[:-1, 0], following[:, 0], is_end[:, 0], DISCOUNT, LAMBDA
    )
    expected = oracle(reward, values[:-1, 0], expected[:, 0], is_end[:, 0])
    np.testing.assert_allclose(advantage, expected, rtol=1e-4, atol=1e-5)
