"""One update: initial ratios of 1, sequences, minibatches, losses and steps against references."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ratiosym.learning import update as module
from ratiosym.learning.batch import Batch, make_batch, start_carries, to_sequences
from ratiosym.learning.config import Hyperparameters, RunShape
from ratiosym.learning.model import Params, make_model
from ratiosym.learning.rollout import rollout
from ratiosym.learning.update import (
    OptimiserState,
    StepMetrics,
    actor_gradients,
    critic_gradients,
    descend,
    diagnose,
    from_blocks,
    init_optimiser,
    minibatch_indices,
    normalise,
    summarise,
    to_blocks,
    to_vector,
    update,
)
from ratiosym.objectives import Bounds, RatioDiagnostics, barrier, clipped, quadratic
from ratiosym.types import Observation
from tests.learning.helpers import (
    BOUNDS,
    TINY,
    Drift,
    advance,
    assert_close,
    assert_equal,
    make,
    random_params,
    start,
)

COMBINATIONS = pytest.mark.parametrize(
    ("network", "is_continuous", "critic", "action_distribution"),
    [
        # Each choice once; the others are slow.
        pytest.param("gru", False, "central", "squashed", id="gru-discrete"),
        pytest.param("gru", True, "local", "clipped", id="gru-clipped-local"),
        pytest.param("feedforward", True, "joint", "squashed", id="feedforward-squashed-joint"),
        *(
            pytest.param(*choices, id="-".join(map(str, choices)), marks=pytest.mark.slow)
            for choices in [
                ("gru", True, "local", "squashed"),
                ("gru", True, "joint", "clipped"),
                ("gru", True, "individual", "squashed"),
                ("feedforward", False, "central", "squashed"),
                ("feedforward", True, "central", "squashed"),
            ]
        ),
    ],
)
FAST = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3}

# --------------------------------------------------------------- ratios are 1 before the first step


@functools.cache
def collector(learner):
    """Collect a rollout and its batch without learning.

    Also computes log-ratios and changes of value directly.
    """
    model = learner.model

    @jax.jit
    def collect(params, groups):
        act = functools.partial(rollout, learner.env, learner.shape, model, params.actor)
        after, transition, _ = jax.vmap(act, out_axes=(0, 1, 0))(groups)
        batch, critic_carry = make_batch(
            learner.shape, model, params.critic, groups, after, transition, Hyperparameters()
        )
        policy, _ = model.actor(params.actor, batch.observation, batch.is_start, batch.actor_carry)
        value, _ = model.critic(
            params.critic, batch.observation, batch.is_start, batch.critic_carry
        )
        changes = policy.log_prob(batch.action) - batch.log_prob, value - batch.value
        return after._replace(critic_carry=critic_carry), batch, changes

    return collect


@COMBINATIONS
def test_all_ratios_are_one_before_the_first_gradient_step(
    network, is_continuous, critic, action_distribution
):
    """Acting and training see the same: carries, flags, order. In the first update and in later
    ones. tests/test_custom_networks.py does the same for networks from outside.
    """
    learner = make(
        Drift(is_continuous),
        num_devices=1,
        network=network,
        critic=critic,
        action_distribution=action_distribution,
    )
    state, measured = advance(learner, start(learner), 5, **FAST)
    for metrics, _ in measured:
        assert metrics.ratio_error[0, 0].max() < 1e-5  # of the first step
        assert np.abs(metrics.ratios.maximum - 1).max() > 1e-3  # and they change afterwards
    # Later updates have non-zero carries and episodes that continue from the last rollout.
    assert not state.groups.is_start.all()
    if network == "gru":
        assert np.abs(state.groups.actor_carry).max() > 0.1
        assert np.abs(state.groups.critic_carry).max() > 0.1
    params, groups = jax.tree.map(lambda x: x[0], (state.params, state.groups))
    _, _, (log_ratio, value_change) = collector(learner)(params, groups)
    assert log_ratio.size == learner.shape.steps_per_update * learner.env.num_agents
    np.testing.assert_allclose(log_ratio, np.zeros(log_ratio.shape), atol=1e-5)
    np.testing.assert_allclose(value_change, np.zeros(value_change.shape), atol=1e-5)


def test_critic_remembers_across_rollouts():
    """Consecutive rollouts have the values of one long one: nothing is read twice or omitted."""
    learner = make(num_devices=1)
    state = start(learner)
    params, groups = jax.tree.map(lambda x: x[0], (state.params, state.groups))
    batches = []
    for _ in range(3):
        groups, batch, _ = collector(learner)(params, groups)
        batches.append(batch)
    observation, is_start, values = jax.tree.map(
        lambda *x: jnp.concatenate(x), *((b.observation, b.is_start, b.value) for b in batches)
    )
    assert not is_start[6::6].all()
    critic = jax.jit(learner.model.critic)
    expected, _ = critic(params.critic, observation, is_start, batches[0].critic_carry)
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------------- sequences


@pytest.mark.parametrize("length", [1, 2, 3, 6, 12])
def test_a_sequence_is_contiguous_time_of_one_environment_of_one_group(length):
    num_steps, num_groups, num_envs = 12, 3, 5
    where = np.stack(
        np.meshgrid(*map(np.arange, (num_steps, num_groups, num_envs)), indexing="ij"), axis=-1
    )
    cut = np.asarray(to_sequences(jnp.array(where), length))  # [L, N, (time, group, environment)]
    pieces = num_steps // length
    assert cut.shape == (length, num_groups * pieces * num_envs, 3)
    time, group, env = np.moveaxis(cut, -1, 0)
    np.testing.assert_array_equal(np.diff(time, axis=0), np.ones((length - 1, cut.shape[1])))
    assert (time[0] % length == 0).all()
    assert (group == group[:1]).all()
    assert (env == env[:1]).all()
    assert (
        len(np.unique(cut.reshape(-1, 3), axis=0)) == num_steps * num_groups * num_envs
    )  # each step once
    np.testing.assert_array_equal(
        group[0], np.repeat(np.arange(num_groups), pieces * num_envs)
    )  # ordered by group


def test_carries_lie_as_the_sequences_do():
    carry = jnp.arange(3 * 5 * 2.0).reshape(3, 5, 2)
    shape = RunShape(num_envs=15, update_batch_size=3, rollout_length=4)
    sequences = to_sequences(jnp.broadcast_to(carry, (4, 3, 5, 2)), shape.sequence_length)
    np.testing.assert_array_equal(start_carries(carry, shape), sequences[0])
    pair = start_carries((carry, {"more": carry[..., 0]}), shape)  # any tree
    np.testing.assert_array_equal(pair[1]["more"], sequences[0][..., 0])
    assert start_carries((), dataclasses.replace(shape, network="feedforward")) == ()


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 6])
def test_blocks_and_back(num_blocks):
    x = jnp.arange(2 * 3 * 6 * 4).reshape(2, 3, 6, 4)  # [L, G, M, A]
    blocks = to_blocks(x, num_blocks)
    assert blocks.shape == (num_blocks, 2, 3 * 6 // num_blocks, 4)
    np.testing.assert_array_equal(from_blocks(blocks, 3), x)
    # A block contains the same sequences of every group.
    m = 6 // num_blocks
    np.testing.assert_array_equal(blocks[-1], x[:, :, -m:].reshape(2, 3 * m, 4))


# -------------------------------------------------------------------------------------- minibatches


@pytest.mark.parametrize("network", ["gru", "feedforward"])
def test_each_epoch_visits_every_sequence_of_each_group_once_in_an_order_of_its_own(network):
    shape = RunShape(
        num_envs=24,
        update_batch_size=3,
        rollout_length=4,
        num_epochs=3,
        num_minibatches=2,
        network=network,
    )
    n = shape.sequences_per_group
    index = np.asarray(minibatch_indices(jax.random.split(jax.random.key(0), 3), shape))
    assert index.shape == (6, 3, n // 2)
    orders = (
        index.reshape(3, 2, 3, n // 2).transpose(2, 0, 1, 3).reshape(3, 3, n)
    )  # [group, epoch, sequence]
    for group in range(3):
        for epoch in range(3):
            np.testing.assert_array_equal(np.sort(orders[group, epoch]), np.arange(n) + group * n)
    within = (orders - n * np.arange(3)[:, None, None]).reshape(9, n)
    assert len(np.unique(within, axis=0)) == 9  # groups and epochs all differ
    assert not (within == np.arange(n)).all(axis=1).any()


def test_minibatches_depend_on_the_groups_key_alone():
    keys = jax.random.split(jax.random.key(0), 4)
    together = minibatch_indices(keys, TINY)
    n = TINY.sequences_per_group
    for i in range(4):
        np.testing.assert_array_equal(
            together[:, i] - i * n, minibatch_indices(keys[i : i + 1], TINY)[:, 0]
        )


# ------------------------------------------------------------------------------------ normalisation


def samples(seed=0, length=3, num_groups=2, num_sequences=4, num_agents=3):
    rng = np.random.default_rng(seed)
    size = (length, num_groups, num_sequences, num_agents)
    advantage = rng.normal(size=size) * np.array([1.0, 50.0])[None, :, None, None] + 3.0
    return jnp.array(advantage, jnp.float32), jnp.array(rng.random(size) < 0.6)


def test_advantages_are_normalised_within_each_group():
    advantage, active = samples()
    normalised, weight = jax.jit(lambda *x: normalise(*x, TINY))(advantage, active)
    for group in range(2):
        a = np.asarray(advantage[:, group], np.float64)
        np.testing.assert_allclose(
            normalised[:, group], (a - a.mean()) / (a.std() + 1e-8), rtol=1e-4, atol=1e-5
        )
        assert abs(np.asarray(normalised[:, group]).std() - 1) < 1e-4
    np.testing.assert_allclose(weight, np.full(weight.shape, 1 / weight.size), rtol=1e-6)


def test_inactive_samples_are_left_out_if_asked():
    shape = dataclasses.replace(TINY, mask_inactive=True)
    advantage, active = samples()
    normalised, weight = jax.jit(lambda *x: normalise(*x, shape))(advantage, active)
    for group in range(2):
        counted = np.asarray(active[:, group])
        a = np.asarray(advantage[:, group], np.float64)[counted]
        expected = (a - a.mean()) / (a.std() + 1e-8)
        np.testing.assert_allclose(
            np.asarray(normalised[:, group])[counted], expected, rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(weight[:, group], counted / counted.sum() / 2, rtol=1e-6)


def test_equal_advantages_and_nobody_active_do_no_harm():
    shape = dataclasses.replace(TINY, mask_inactive=True)
    advantage, active = samples()
    normalised, weight = normalise(jnp.full_like(advantage, 3.0), active, shape)
    assert np.abs(normalised).max() < 1.001  # rounding errors stay at the usual size
    normalised, weight = normalise(jnp.zeros_like(advantage), active, shape)
    assert not normalised.any()
    normalised, weight = normalise(advantage, jnp.zeros_like(active), shape)
    assert np.isfinite(normalised).all()
    assert not weight.any()


# ----------------------------------------------------------------------------- losses and gradients

SHAPE = RunShape(
    num_envs=12,
    update_batch_size=2,
    rollout_length=5,
    num_epochs=2,
    num_minibatches=2,
    actor_hidden_size=6,
    critic_hidden_size=6,
)
MODEL = make_model(SHAPE)
INDEX = jnp.array(
    [[3, 0, 5, 1], [10, 6, 7, 11]]
)  # a minibatch of four of the six sequences of each group
NUMBERS = Hyperparameters(entropy_coefficient=0.05, value_clip=0.3)


@functools.cache
def example_batch(is_continuous=False):
    """A random batch with old log-probabilities and values near and far from the current ones."""
    rng, spec = np.random.default_rng(0), Drift(is_continuous).spec
    L, N, A = SHAPE.sequence_length, 2 * SHAPE.sequences_per_group, spec.num_agents
    params = random_params(spec, SHAPE)

    def normal(*size):
        return jnp.array(rng.normal(size=size), jnp.float32)

    legal = rng.random((L, N, A, spec.num_actions)) < 0.7
    legal[..., :1] = True
    observation = Observation(
        normal(L, N, A, spec.observation_size),
        jnp.array(legal),
        jnp.array(rng.random((L, N, A)) < 0.7),
        normal(L, N, spec.state_size),
    )
    is_start = jnp.array(rng.random((L, N)) < 0.3)
    actor_carry, critic_carry = normal(N, A, 6), normal(N, 6)
    policy, _ = jax.jit(MODEL.actor)(params.actor, observation, is_start, actor_carry)
    action = policy.sample(jax.random.key(0))
    value, _ = jax.jit(MODEL.critic)(params.critic, observation, is_start, critic_carry)
    batch = Batch(
        observation,
        is_start,
        action,
        policy.log_prob(action) + 0.3 * normal(L, N, A),
        2.0 * normal(L, N, A) + 0.5,
        value + 0.4 * normal(L, N),
        value + normal(L, N),
        actor_carry,
        critic_carry,
    )
    return params, batch


def rows_of(batch, rows):
    """Select sequences of a batch."""
    carries = {"actor_carry": batch.actor_carry[rows], "critic_carry": batch.critic_carry[rows]}
    return jax.tree.map(
        lambda x: x[:, rows], batch._replace(actor_carry=(), critic_carry=())
    )._replace(**carries)


def reference_actor_loss(actor, batch, index, surrogate, numbers, bounds, mask_inactive=False):
    """Compute the mean over groups and samples of -(objective) - entropy bonus, and its terms."""
    terms = []
    for rows in index:
        part = rows_of(batch, rows)
        policy, _ = MODEL.actor(actor, part.observation, part.is_start, part.actor_carry)
        counts = part.observation.active * 1.0 if mask_inactive else jnp.ones(part.advantage.shape)
        mean = lambda x, c=counts: jnp.sum(c * x) / jnp.sum(c)  # noqa: E731
        advantage = part.advantage - mean(part.advantage)
        advantage = advantage / (jnp.sqrt(mean(advantage**2)) + 1e-8)
        log_ratio = policy.log_prob(part.action) - part.log_prob
        terms.append((-mean(surrogate(log_ratio, advantage, bounds)), mean(policy.entropy())))
    policy_loss, entropy = (sum(x) / len(terms) for x in zip(*terms, strict=True))
    return policy_loss - numbers.entropy_coefficient * entropy, (policy_loss, entropy)


def reference_critic_loss(critic, batch, index, numbers):
    """0.5 * 0.5 * mean max((V - R)^2, (V_old + clip(V - V_old) - R)^2) (protocol)."""
    part = rows_of(batch, index.reshape(-1))
    value, _ = MODEL.critic(critic, part.observation, part.is_start, part.critic_carry)
    near = part.value + jnp.clip(value - part.value, -numbers.value_clip, numbers.value_clip)
    return 0.5 * 0.5 * jnp.mean(jnp.maximum((value - part.target) ** 2, (near - part.target) ** 2))


def our_actor_gradients(params, batch, surrogate, shape=SHAPE):
    advantage, weight = normalise(
        batch.advantage[:, INDEX], batch.observation.active[:, INDEX], shape
    )
    return actor_gradients(
        MODEL, params.actor, batch, INDEX, advantage, weight, NUMBERS, BOUNDS, surrogate
    )


def our_critic_gradients(critic, batch):
    return critic_gradients(MODEL, critic, batch, INDEX, NUMBERS)


@pytest.mark.parametrize(
    ("surrogate", "mask_inactive"),
    [(barrier, False), (clipped, False), (quadratic, False), (barrier, True)],
    ids=["barrier", "clipped", "quadratic", "barrier of active samples"],
)
def test_actor_gradient_is_that_of_the_plain_loss(surrogate, mask_inactive):
    params, batch = example_batch()
    shape = dataclasses.replace(SHAPE, mask_inactive=mask_inactive)
    terms, log_ratio, gradient = jax.jit(lambda p, b: our_actor_gradients(p, b, surrogate, shape))(
        params, batch
    )
    reference = jax.jit(
        jax.grad(
            lambda a: reference_actor_loss(
                a, batch, INDEX, surrogate, NUMBERS, BOUNDS, mask_inactive
            ),
            has_aux=True,
        )
    )
    expected, expected_terms = reference(params.actor)
    assert_close(terms, expected_terms, rtol=1e-4, atol=1e-5)
    assert_close(gradient, to_vector(expected), rtol=1e-3, atol=1e-5)
    policy, _ = MODEL.actor(params.actor, batch.observation, batch.is_start, batch.actor_carry)
    everywhere = policy.log_prob(batch.action) - batch.log_prob
    np.testing.assert_allclose(log_ratio, everywhere[:, INDEX], rtol=1e-4, atol=1e-5)


def test_critic_loss_and_gradient_are_those_of_the_formula():
    params, batch = example_batch()
    loss, gradient = jax.jit(lambda p: our_critic_gradients(p, batch))(params.critic)

    part = jax.device_get(rows_of(batch, INDEX.reshape(-1)))
    value = np.asarray(
        jax.jit(MODEL.critic)(params.critic, part.observation, part.is_start, part.critic_carry)[0]
    )
    near = part.value + np.clip(value - part.value, -0.3, 0.3)
    squared = np.maximum((value - part.target) ** 2, (near - part.target) ** 2)
    assert (
        (near != value) & (squared > (value - part.target) ** 2)
    ).any()  # the clip matters somewhere
    np.testing.assert_allclose(
        loss, 0.5 * squared.mean(), rtol=1e-5
    )  # before its coefficient (docs/concepts/run-directory.md)

    expected = jax.jit(jax.grad(lambda c: reference_critic_loss(c, batch, INDEX, NUMBERS)))(
        params.critic
    )
    assert_close(gradient, to_vector(expected), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("critic_input", ["local", "individual"])
def test_all_values_of_agents_count(critic_input):
    """With one value per agent, the loss also averages over agents, whether they act or not."""
    shape = dataclasses.replace(SHAPE, critic=critic_input, mask_inactive=True)
    model, (_, batch) = make_model(shape), example_batch()
    critic = random_params(Drift().spec, shape, seed=1).critic
    rng = np.random.default_rng(0)
    carry = jnp.array(rng.normal(size=batch.actor_carry.shape), jnp.float32)
    old, target = jnp.array(rng.normal(size=(2, *batch.advantage.shape)), jnp.float32)
    batch = batch._replace(value=old, target=target, critic_carry=carry)

    def reference(critic):
        value, _ = model.critic(critic, batch.observation, batch.is_start, carry)
        near = old + jnp.clip(value - old, -NUMBERS.value_clip, NUMBERS.value_clip)
        squared = jnp.maximum((value - target) ** 2, (near - target) ** 2)
        return 0.5 * squared[:, INDEX.reshape(-1)].mean()

    compute = jax.jit(lambda c: critic_gradients(model, c, batch, INDEX, NUMBERS))
    loss, gradient = compute(critic)
    expected_loss, expected = jax.jit(jax.value_and_grad(reference))(critic)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
    assert_close(gradient, 0.5 * to_vector(expected), rtol=1e-3, atol=1e-6)


def test_a_gradient_in_blocks_is_the_whole_gradient(monkeypatch):
    params, batch = example_batch()
    results = []
    for block_samples, num_blocks in (
        (10_000, 1),
        (45, 2),
        (1, 4),
    ):  # one block, two sequences per group, one sequence
        monkeypatch.setattr(module, "CPU_BLOCK_SAMPLES", block_samples)
        assert module.count_blocks(INDEX, 5 * 2) == num_blocks
        actor = jax.jit(lambda p: our_actor_gradients(p, batch, barrier))(params)
        critic = jax.jit(lambda p: our_critic_gradients(p, batch))(params.critic)
        results.append((actor, critic))
    for blocked in results[1:]:
        assert_close(blocked, results[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("num_sequences", "samples_per_sequence", "expected"),
    [(12, 10, 1), (12, 100, 2), (12, 1000, 12), (12, 5000, 12), (7, 300, 7)],
)
def test_blocks_are_the_fewest_that_fit_and_divide(num_sequences, samples_per_sequence, expected):
    index = jnp.zeros((2, num_sequences), jnp.int32)  # 2,048 samples per block
    assert module.count_blocks(index, samples_per_sequence) == expected


@pytest.mark.parametrize("surrogate", [barrier, clipped, quadratic], ids=lambda s: s.__name__)
def test_a_masked_sample_does_no_harm_whatever_its_ratio(surrogate):
    """The ratio of a masked agent is unconstrained and may be infinite in float32."""
    params, batch = example_batch()
    shape = dataclasses.replace(SHAPE, mask_inactive=True)
    compute = jax.jit(lambda b: our_actor_gradients(params, b, surrogate, shape))
    expected_terms, _, expected = compute(batch)
    for old_log_prob in (-300.0, 300.0):
        far = jnp.where(batch.observation.active, batch.log_prob, old_log_prob)
        terms, _, gradient = compute(batch._replace(log_prob=far))
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))
        assert_close((terms, gradient), (expected_terms, expected), rtol=1e-5, atol=1e-7)


# ---------------------------------------------------------------------------------------- the steps


def test_descend_is_clipping_and_adam_as_optax_chains_them():
    rng = np.random.default_rng(0)
    params = {"a": jnp.ones((3, 2)), "b": jnp.zeros(4)}
    numbers = Hyperparameters(max_grad_norm=0.5)
    chain = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.01, eps=1e-5))
    theirs, their_state = params, chain.init(params)
    ours, our_state = params, module.ADAM.init(params)
    step = jax.jit(lambda p, g, s: descend(p, g, s, 0.01, numbers))
    for scale in (1e-3, 10.0, 0.1, 1e3, 0.0, 1e-6):  # clipped and not
        gradient = jax.tree.map(
            lambda x, s=scale: jnp.array(s * rng.normal(size=x.shape), jnp.float32), params
        )
        ours, our_state, norm = step(ours, gradient, our_state)
        changes, their_state = chain.update(gradient, their_state)
        theirs = optax.apply_updates(theirs, changes)
        assert_close(ours, theirs, rtol=1e-5, atol=1e-7)
        flat = np.concatenate([np.ravel(x) for x in jax.tree.leaves(gradient)])
        np.testing.assert_allclose(norm, np.linalg.norm(flat), rtol=1e-5)  # before clipping


def test_a_whole_update_is_epochs_of_minibatches_by_the_book():
    """Compared to plain losses, autodiff and optax, one minibatch after another."""
    numbers = Hyperparameters(
        actor_learning_rate=0.01, critic_learning_rate=0.02, entropy_coefficient=0.05
    )
    params, batch = example_batch(is_continuous=True)
    keys = jax.random.split(jax.random.key(0), 2)
    bounds = Bounds(0.7, 1.5)
    new, optimiser, metrics = jax.jit(
        lambda p, b: update(
            SHAPE,
            MODEL,
            quadratic,
            p,
            init_optimiser(p),
            b,
            keys,
            numbers,
            bounds,
            average=lambda x: x,
        )
    )(params, batch)

    actor_chain = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.01, eps=1e-5))
    critic_chain = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.02, eps=1e-5))
    actor_loss = lambda a, i: reference_actor_loss(a, batch, i, quadratic, numbers, bounds)  # noqa: E731

    @jax.jit
    def step(params, states, index):
        (_, terms), actor = jax.value_and_grad(actor_loss, has_aux=True)(params.actor, index)
        value_loss, critic = jax.value_and_grad(reference_critic_loss)(
            params.critic, batch, index, numbers
        )
        actor_change, actor_state = actor_chain.update(actor, states[0])
        critic_change, critic_state = critic_chain.update(critic, states[1])
        params = Params(
            optax.apply_updates(params.actor, actor_change),
            optax.apply_updates(params.critic, critic_change),
        )
        norms = optax.tree.norm(actor), optax.tree.norm(critic)
        return params, (actor_state, critic_state), (*terms, 2 * value_loss, *norms)

    expected, states = params, (actor_chain.init(params.actor), critic_chain.init(params.critic))
    measured = []
    for index in minibatch_indices(keys, SHAPE):
        expected, states, terms = step(expected, states, index)
        measured.append(terms)
    assert len(measured) == SHAPE.num_epochs * SHAPE.num_minibatches
    assert_close(new, expected, rtol=1e-3, atol=1e-5)
    assert optimiser.actor.count == optimiser.critic.count == 4
    policy_loss, entropy, value_loss, actor_norm, critic_norm = np.mean(
        jax.device_get(measured), axis=0
    )
    metrics = summarise(jax.device_get(metrics), SHAPE.num_minibatches)
    np.testing.assert_allclose(metrics.policy_loss, policy_loss, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(metrics.entropy, entropy, rtol=1e-3)
    np.testing.assert_allclose(metrics.value_loss, value_loss, rtol=1e-3)
    np.testing.assert_allclose(metrics.actor_grad_norm, actor_norm, rtol=1e-3)
    np.testing.assert_allclose(metrics.critic_grad_norm, critic_norm, rtol=1e-3)


def test_the_error_of_the_first_ratios_is_the_largest():
    """Of one minibatch with all samples, whose stored log-probabilities are not the policy's."""
    params, batch = example_batch(is_continuous=True)
    shape = dataclasses.replace(SHAPE, num_epochs=1, num_minibatches=1)
    keys = jax.random.split(jax.random.key(0), 2)
    _, _, metrics = jax.jit(
        lambda p, b: update(
            shape,
            MODEL,
            quadratic,
            p,
            init_optimiser(p),
            b,
            keys,
            Hyperparameters(),
            BOUNDS,
            average=lambda x: x,
        )
    )(params, batch)
    metrics = summarise(jax.device_get(metrics), num_minibatches=1)
    extremes = np.array([metrics.ratios.minimum, metrics.ratios.maximum])
    assert 0 < extremes[0] < 1 < extremes[1]
    np.testing.assert_allclose(metrics.first_ratio_error, np.abs(np.log(extremes)).max(), rtol=1e-4)


def test_first_moments_are_zero_and_apart():
    params = random_params(Drift().spec, SHAPE)
    optimiser = init_optimiser(params)
    assert isinstance(optimiser, OptimiserState)
    assert_equal(optimiser.actor.mu, jax.tree.map(jnp.zeros_like, params.actor))
    assert_equal(optimiser.critic.nu, jax.tree.map(jnp.zeros_like, params.critic))


# ------------------------------------------------------------------------------------------ metrics


def test_diagnoses_are_of_each_group_and_of_counted_samples():
    log_ratio = jnp.log(jnp.array([[[[0.5, 1.0]], [[2.0, 4.0]]]]))  # [L=1, G=2, M=1, A=2]
    advantage = jnp.array([[[[-1.0, 1.0]], [[1.0, -1.0]]]])
    chosen = jnp.array([[[[False, True]], [[True, False]]]])
    choices = jnp.stack([jnp.ones_like(chosen), chosen], -1)
    found = jax.jit(lambda counted: diagnose(log_ratio, advantage, BOUNDS, counted))(choices)
    every, some = (jax.tree.map(lambda x, i=i: x[:, i], found) for i in (0, 1))
    np.testing.assert_allclose(every.minimum, [0.5, 2.0], rtol=1e-6)
    np.testing.assert_allclose(every.maximum, [1.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(every.beyond_target, [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(some.minimum, [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(some.maximum, [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(some.beyond_target, [0.0, 1.0], rtol=1e-6)


def test_summary_is_means_extremes_and_the_last_epoch():
    """Six gradient steps in three epochs of two minibatches, two groups."""
    steps, groups = 6, 2
    numbers = np.arange(1.0, steps + 1)
    grid = np.arange(1.0, steps * groups + 1).reshape(steps, groups)
    ratios = RatioDiagnostics(
        minimum=1 / grid[::-1],  # smallest in the first step
        maximum=grid[::-1],
        quantiles=np.stack([grid] * 5, axis=-1),
        beyond_target=grid / 10,
        approximate_kl=grid / 100,
    )
    twice = jax.tree.map(lambda x: np.stack([x, 2 * x], axis=2), ratios)  # all, active
    losses = [factor * numbers for factor in (1, 2, 3, 4, 5)]
    summary = summarise(StepMetrics(*losses, grid / 7, twice), num_minibatches=2)
    for i, name in enumerate(
        ["policy_loss", "value_loss", "entropy", "actor_grad_norm", "critic_grad_norm"]
    ):
        np.testing.assert_allclose(getattr(summary, name), 3.5 * (i + 1), rtol=1e-6)
    np.testing.assert_allclose(
        summary.first_ratio_error, 2 / 7, rtol=1e-6
    )  # of the first step only, the largest
    last = np.mean([9, 10, 11, 12])
    for found, factor in ((summary.ratios, 1), (summary.active_ratios, 2)):
        np.testing.assert_allclose(found.minimum, factor / 12, rtol=1e-6)  # over all epochs
        np.testing.assert_allclose(found.maximum, factor * 12, rtol=1e-6)
        np.testing.assert_allclose(found.quantiles, np.full(5, factor * last), rtol=1e-6)
        np.testing.assert_allclose(found.beyond_target, factor * last / 10, rtol=1e-6)
        np.testing.assert_allclose(found.approximate_kl, factor * last / 100, rtol=1e-6)
