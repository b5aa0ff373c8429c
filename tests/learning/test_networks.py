"""Sizes and initial values of the networks; whole sequences compared to single steps."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.config import RunShape
from ratiosym.learning.model import make_model
from ratiosym.learning.networks import Size, apply_network, init_network
from ratiosym.types import Observation
from tests.learning.helpers import Drift, assert_close, differ, random_params, resize

HIDDEN, LENGTH, BATCH, AGENTS = 16, 5, 3, 2
DISCRETE, CONTINUOUS = (
    dataclasses.replace(env.spec, observation_size=7, state_size=20)
    for env in (Drift(), Drift(is_continuous=True))
)
SPECS = pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
SHAPES = {
    "gru": resize(RunShape(), HIDDEN),
    "feedforward": resize(RunShape(network="feedforward"), HIDDEN),
    "local critic": resize(RunShape(critic="local"), HIDDEN),
    "individual critic": resize(RunShape(critic="individual"), HIDDEN),
    "joint critic": resize(RunShape(critic="joint", action_distribution="clipped"), HIDDEN),
    "wider and deeper": RunShape(
        actor_hidden_size=HIDDEN, critic_hidden_size=24, actor_depth=3, critic_depth=2
    ),
}
SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@functools.cache
def first_params(spec):
    """Initial parameters: with a GRU for discrete actions, without for continuous ones."""
    model = make_model(SHAPES["gru" if spec is DISCRETE else "feedforward"])
    return jax.jit(lambda key: model.init(key, spec))(jax.random.key(0))


def example(spec, shape):
    """A sequence of observations with starts inside, and non-zero carries."""
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
    carries = make_model(shape).initial_carry(spec, (BATCH,))
    return observation, is_start, *jax.tree.map(lambda x: normal(*x.shape), carries)


@functools.cache
def programs(shape):
    """The actor and the critic, compiled."""
    model = make_model(shape)
    return jax.jit(model.actor), jax.jit(model.critic)


@SPECS
@SHAPE
def test_shapes(spec, shape):
    params = random_params(spec, shape)
    act, judge = programs(shape)
    observation, is_start, actor_carry, critic_carry = example(spec, shape)
    policy, carries = act(params.actor, observation, is_start, actor_carry)
    value, critic_carries = judge(params.critic, observation, is_start, critic_carry)
    for leaf in policy:
        assert leaf.shape == (LENGTH, BATCH, AGENTS, spec.num_actions or 2)
    of_values = (LENGTH, BATCH, AGENTS) if shape.has_value_per_agent else (LENGTH, BATCH)
    assert value.shape == of_values
    if shape.is_recurrent:
        assert carries.shape == (LENGTH, BATCH, AGENTS, HIDDEN)
        assert critic_carries.shape == (*of_values, shape.critic_hidden_size)
    else:
        assert carries == critic_carries == ()
    assert params.actor.scale.shape == ((0,) if spec is DISCRETE else (2,))


def test_widths_and_depths_are_of_each_network():
    params = random_params(DISCRETE, SHAPES["wider and deeper"])
    for network, num_inputs, hidden, depth in (
        (params.actor.network, 7, HIDDEN, 3),
        (params.critic, 20, 24, 2),
    ):
        assert network.torso.kernel.shape == (num_inputs, hidden)
        assert [layer.kernel.shape for layer in network.deeper] == [(hidden, hidden)] * (depth - 1)
        assert network.memory.recurrent_kernel.shape == (hidden, 3 * hidden)
        assert network.head.kernel.shape[0] == hidden


def test_every_layer_of_a_deep_torso_is_drawn_by_itself_and_counts():
    network = jax.jit(lambda key: init_network(key, 4, 2, Size(4, depth=3), False, 1.0))(
        jax.random.key(0)
    )
    layers = [network.torso, *network.deeper]
    for one, other in itertools.combinations(layers, 2):
        assert differ(one.kernel, other.kernel)
    inputs, is_start = jnp.ones((1, 1, 4)), jnp.zeros((1, 1), bool)
    before, _ = apply_network(network, inputs, is_start, ())
    halved = [jax.tree.map(lambda x: x / 2, layer) for layer in layers]
    for changed in (
        network._replace(torso=halved[0]),
        network._replace(deeper=(halved[1], layers[2])),
        network._replace(deeper=(layers[1], halved[2])),
    ):
        np.testing.assert_allclose(  # a network of ReLUs without biases is homogeneous
            apply_network(changed, inputs, is_start, ())[0], before / 2, rtol=1e-5
        )


def test_depth_one_begins_as_it_always_has():
    """Initial weights are the same as before depth became an option."""
    first = first_params(DISCRETE).actor.network
    expected = {"torso": -0.8175827, "body": -6.8234043, "head": 0.00529027}
    for name, total in expected.items():
        np.testing.assert_allclose(getattr(first, name).kernel.sum(), total, rtol=1e-3)


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
    shape = SHAPES["gru" if spec is DISCRETE else "feedforward"]
    observation, is_start, carry, _ = example(spec, shape)
    policy, _ = programs(shape)[0](params.actor, observation, is_start, carry)
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
@SHAPE
def test_one_step_after_another_is_the_whole_sequence(spec, shape):
    params = random_params(spec, shape)
    act, judge = programs(shape)
    observation, is_start, carry, critic_carry = example(spec, shape)
    whole = act(params.actor, observation, is_start, carry)
    values = judge(params.critic, observation, is_start, critic_carry)
    for t in range(LENGTH):
        now = jax.tree.map(lambda x, t=t: x[t : t + 1], (observation, is_start))
        policy, after = act(params.actor, *now, carry)
        value, critic_after = judge(params.critic, *now, critic_carry)
        carry, critic_carry = jax.tree.map(lambda x: x[0], (after, critic_after))
        assert_close(
            ((policy, after), (value, critic_after)), at_time((whole, values), t), 1e-5, 1e-6
        )


def at_time(tree, t):
    return jax.tree.map(lambda x: x[t : t + 1], tree)


@pytest.mark.parametrize("critic", ["central", "local"])
def test_memory_reaches_the_outputs_until_a_start(critic):
    shape = SHAPES["gru" if critic == "central" else "local critic"]
    params = random_params(DISCRETE, shape)
    act, judge = programs(shape)
    observation, is_start, carry, critic_carry = example(DISCRETE, shape)
    is_start = jnp.zeros_like(is_start).at[2].set(True)

    def outputs(added):
        policy, _ = act(params.actor, observation, is_start, carry + added)
        value, _ = judge(params.critic, observation, is_start, critic_carry + added)
        return policy.log_prob(jnp.zeros((LENGTH, BATCH, AGENTS), jnp.int32)), value

    for before, after in zip(outputs(0.0), outputs(1.0), strict=True):
        assert (np.abs(before - after)[:2] > 0).any()
        np.testing.assert_array_equal(before[2:], after[2:])


@SPECS
def test_agents_share_one_network_and_do_not_see_each_other(spec):
    shape = SHAPES["local critic"]
    params = random_params(spec, shape)
    act, judge = programs(shape)
    observation, is_start, carry, critic_carry = example(spec, shape)
    swapped = observation._replace(
        local=observation.local[..., ::-1, :], legal=observation.legal[..., ::-1, :]
    )
    policy, carries = act(params.actor, observation, is_start, carry)
    policy_swapped, carries_swapped = act(params.actor, swapped, is_start, carry[..., ::-1, :])
    for a, b in zip((*policy, carries), (*policy_swapped, carries_swapped), strict=True):
        np.testing.assert_allclose(a[..., ::-1, :], b, rtol=1e-5, atol=1e-7)
    value, _ = judge(params.critic, observation, is_start, critic_carry)
    value_swapped, _ = judge(params.critic, swapped, is_start, critic_carry[..., ::-1, :])
    np.testing.assert_allclose(value[..., ::-1], value_swapped, rtol=1e-5, atol=1e-6)


def test_each_critic_sees_what_it_should_and_nothing_else():
    for name, seen, unseen in (("gru", "state", "local"), ("local critic", "local", "state")):
        shape = SHAPES[name]
        params = random_params(DISCRETE, shape)
        observation, is_start, _, carry = example(DISCRETE, shape)
        before, same, other = (
            programs(shape)[1](params.critic, o, is_start, carry)[0]
            for o in (
                observation,
                observation._replace(**{unseen: getattr(observation, unseen) + 1.0}),
                observation._replace(**{seen: getattr(observation, seen) + 1.0}),
            )
        )
        np.testing.assert_array_equal(before, same)
        assert differ(before, other)


def test_a_joint_critic_sees_the_state_and_what_every_agent_observes():
    shape = SHAPES["joint critic"]
    params = random_params(DISCRETE, shape)
    observation, is_start, _, carry = example(DISCRETE, shape)
    before, *others = (
        programs(shape)[1](params.critic, o, is_start, carry)[0]
        for o in (
            observation,
            observation._replace(state=observation.state + 1.0),
            *(
                observation._replace(local=observation.local.at[..., agent, :].add(1.0))
                for agent in range(AGENTS)
            ),
        )
    )
    for other in others:
        assert differ(before, other)
