"""Sizes and first values of the networks; whole sequences against single steps."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.networks import apply_actor, apply_critic, init_params
from ratiosym.types import Observation
from tests.learning.helpers import Drift, random_params

HIDDEN, LENGTH, BATCH, AGENTS = 16, 5, 3, 2
DISCRETE, CONTINUOUS = (
    dataclasses.replace(env.spec, observation_size=7, state_size=20)
    for env in (Drift(), Drift(is_continuous=True))
)
SPECS = pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
MEMORY = pytest.mark.parametrize("has_memory", [True, False], ids=["gru", "none"])


@functools.cache
def first_params(spec):
    """As they are at first: with memory for discrete actions, without for continuous ones."""
    return jax.jit(lambda key: init_params(key, spec, HIDDEN, spec is DISCRETE))(jax.random.key(0))


def example(spec, carry_size):
    """A sequence of observations with starts inside, and carries that are not zero."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.array(rng.normal(size=shape), jnp.float32)

    legal = rng.random((LENGTH, BATCH, AGENTS, spec.num_actions)) < 0.5
    legal[..., :1] = True
    observation = Observation(
        normal(LENGTH, BATCH, AGENTS, spec.observation_size),
        jnp.array(legal),
        jnp.ones((LENGTH, BATCH, AGENTS), bool),
        normal(LENGTH, BATCH, spec.state_size),
    )
    is_start = jnp.array(rng.random((LENGTH, BATCH)) < 0.3)
    return observation, is_start, normal(BATCH, AGENTS, carry_size), normal(BATCH, carry_size)


act, judge = jax.jit(apply_actor), jax.jit(apply_critic)


@SPECS
@MEMORY
def test_shapes(spec, has_memory):
    params = random_params(spec, HIDDEN, has_memory)
    carry_size = HIDDEN if has_memory else 0
    observation, is_start, actor_carry, critic_carry = example(spec, carry_size)
    policy, carries = act(params.actor, observation, is_start, actor_carry)
    value, critic_carries = judge(params.critic, observation.state, is_start, critic_carry)
    for leaf in policy:
        assert leaf.shape == (LENGTH, BATCH, AGENTS, spec.num_actions or 2)
    assert carries.shape == (LENGTH, BATCH, AGENTS, carry_size)
    assert value.shape == (LENGTH, BATCH)  # one number for the team
    assert critic_carries.shape == (LENGTH, BATCH, carry_size)
    assert params.actor.scale.shape == ((0,) if spec is DISCRETE else (2,))


@SPECS
def test_first_gains(spec):
    params = first_params(spec)
    for network, head_gain in ((params.actor.network, 0.01), (params.critic, 1.0)):
        for layer, gain in (
            (network.torso, 2**0.5),
            (network.body, 2**0.5),
            (network.head, head_gain),
        ):
            kernel = np.asarray(layer.kernel) / gain
            gram = kernel.T @ kernel if kernel.shape[0] >= kernel.shape[1] else kernel @ kernel.T
            np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)
            assert not layer.bias.any()
        assert (network.memory is not None) == (spec is DISCRETE)
    assert not params.actor.scale.any()
    assert not np.allclose(params.actor.network.body.kernel, params.critic.body.kernel)


@SPECS
def test_first_policy_is_close_to_uniform(spec):
    params = first_params(spec)
    observation, is_start, carry, _ = example(spec, HIDDEN if spec is DISCRETE else 0)
    policy, _ = act(params.actor, observation, is_start, carry)
    if spec is DISCRETE:
        p = jax.nn.softmax(policy.logits)
        uniform = observation.legal / observation.legal.sum(-1, keepdims=True)
        np.testing.assert_allclose(p, uniform, atol=0.02)
    else:
        np.testing.assert_allclose(policy.mean, np.zeros(policy.mean.shape), atol=0.1)
        np.testing.assert_allclose(
            policy.scale, np.full(policy.scale.shape, np.log(2) + 1e-3), rtol=1e-6
        )


@SPECS
@MEMORY
def test_one_step_after_another_is_the_whole_sequence(spec, has_memory):
    params = random_params(spec, HIDDEN, has_memory)
    observation, is_start, carry, critic_carry = example(spec, HIDDEN if has_memory else 0)
    whole, carries = act(params.actor, observation, is_start, carry)
    values, critic_carries = judge(params.critic, observation.state, is_start, critic_carry)
    for t in range(LENGTH):
        now = jax.tree.map(lambda x, t=t: x[t : t + 1], (observation, is_start))
        policy, after = act(params.actor, *now, carry)
        value, critic_after = judge(params.critic, now[0].state, now[1], critic_carry)
        carry, critic_carry = after[0], critic_after[0]
        for one, all_ in zip(policy, whole, strict=True):
            np.testing.assert_allclose(one[0], all_[t], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(value[0], values[t], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(carry, carries[t], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(critic_carry, critic_carries[t], rtol=1e-5, atol=1e-6)


def test_memory_reaches_the_outputs_until_a_start():
    params = random_params(DISCRETE, HIDDEN, has_memory=True)
    observation, is_start, carry, critic_carry = example(DISCRETE, HIDDEN)
    is_start = jnp.zeros_like(is_start).at[2].set(True)

    def outputs(added):
        policy, _ = act(params.actor, observation, is_start, carry + added)
        value, _ = judge(params.critic, observation.state, is_start, critic_carry + added)
        return policy.log_prob(jnp.zeros((LENGTH, BATCH, AGENTS), jnp.int32)), value

    for before, after in zip(outputs(0.0), outputs(1.0), strict=True):
        assert (np.abs(before - after)[:2] > 0).any()
        np.testing.assert_array_equal(before[2:], after[2:])


@SPECS
def test_agents_share_one_network_and_do_not_see_each_other(spec):
    params = random_params(spec, HIDDEN, has_memory=True)
    observation, is_start, carry, _ = example(spec, HIDDEN)
    policy, carries = act(params.actor, observation, is_start, carry)
    swapped = observation._replace(
        local=observation.local[..., ::-1, :], legal=observation.legal[..., ::-1, :]
    )
    policy_swapped, carries_swapped = act(params.actor, swapped, is_start, carry[..., ::-1, :])
    for a, b in zip((*policy, carries), (*policy_swapped, carries_swapped), strict=True):
        np.testing.assert_allclose(a[..., ::-1, :], b, rtol=1e-5, atol=1e-7)
