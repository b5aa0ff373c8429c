"""Epochs of minibatch updates: losses, gradients, optimiser steps (Algorithm 1, lines 10 to 27)."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from ratiosym.learning.advantages import Number
from ratiosym.learning.batch import Batch
from ratiosym.learning.config import Hyperparameters, RunShape
from ratiosym.learning.model import Model, Params
from ratiosym.objectives import Bounds, RatioDiagnostics, Surrogate, ratio_diagnostics
from ratiosym.types import Key, Keys

ADAM = optax.scale_by_adam(eps=1e-5)


def _of_numbers(_: None, numbers: Sequence[Any]) -> Hyperparameters:
    """Build from possibly traced numbers, bypassing the constructor."""
    hyperparameters = object.__new__(Hyperparameters)
    for field, number in zip(dataclasses.fields(Hyperparameters), numbers, strict=True):
        object.__setattr__(hyperparameters, field.name, number)
    return hyperparameters


# A pytree, so that its numbers are arguments of compiled programs. Registered here because the
# command line imports config.py without importing JAX.
jax.tree_util.register_pytree_node(
    Hyperparameters,
    lambda h: (tuple(getattr(h, field.name) for field in dataclasses.fields(h)), None),
    _of_numbers,
)

# Number of samples whose activations fit in a core's cache (docs/performance.md).
CPU_BLOCK_SAMPLES = 2048


class OptimiserState(NamedTuple):
    """Adam's moments, separate for actor and critic."""

    actor: Any
    critic: Any


class StepMetrics(NamedTuple):
    """Metrics of gradient steps, [S]; those of ratios are of each local group, [S, G]."""

    policy_loss: Float[Array, "*S"]
    value_loss: Float[Array, "*S"]
    entropy: Float[Array, "*S"]
    actor_grad_norm: Float[Array, "*S"]
    critic_grad_norm: Float[Array, "*S"]
    ratio_error: Float[Array, "*S G"]  # max |log ratio| before the step
    ratios: RatioDiagnostics  # [S, G, 2]: all samples, samples of agents that still act


class UpdateMetrics(NamedTuple):
    """Metrics of one update, one number each, explained in docs/concepts/run-directory.md."""

    policy_loss: Any
    value_loss: Any
    entropy: Any
    actor_grad_norm: Any
    critic_grad_norm: Any
    first_ratio_error: Any  # max |log ratio| before the first step: 0 up to rounding
    ratios: RatioDiagnostics  # all samples
    active_ratios: RatioDiagnostics  # samples of agents that still act


def init_optimiser(params: Params) -> OptimiserState:
    """Initialise Adam's moments with zeros."""
    return OptimiserState(ADAM.init(params.actor), ADAM.init(params.critic))


def update(
    shape: RunShape,
    model: Model,
    surrogate: Surrogate,
    params: Params,
    optimiser: OptimiserState,
    batch: Batch,
    group_keys: Keys,  # [G], one per local group
    hyperparameters: Hyperparameters,
    bounds: Bounds,
    average: Callable[[PyTree], PyTree],
) -> tuple[Params, OptimiserState, StepMetrics]:
    """Run all epochs over one batch. ``average`` takes the mean over groups on all devices.

    Parameters and moments of a network are one vector meanwhile, as XLA would compile Adam's step
    separately for every shape (docs/performance.md).
    """
    # minibatches (line 11)
    indices = minibatch_indices(group_keys, shape)
    to_actor, to_critic = (ravel_pytree(network)[1] for network in params)

    def step(
        before: tuple[Params, OptimiserState], index: Int[Array, "G M"]
    ) -> tuple[tuple[Params, OptimiserState], StepMetrics]:
        vectors, optimiser = before
        params = Params(to_actor(vectors.actor), to_critic(vectors.critic))
        active = batch.observation.active[:, index]  # [L, G, M, A]
        advantage, weight = normalise(batch.advantage[:, index], active, shape)

        # losses and gradients (lines 12 to 22 and 25)
        actor_terms, log_ratio, actor_gradient = actor_gradients(
            model,
            params.actor,
            batch,
            index,
            advantage,
            weight,
            hyperparameters,
            bounds,
            surrogate,
        )
        value_loss, critic_gradient = critic_gradients(
            model, params.critic, batch, index, hyperparameters
        )
        (policy_loss, entropy), value_loss, actor_gradient, critic_gradient = average(
            (actor_terms, value_loss, actor_gradient, critic_gradient)
        )

        # gradient steps (lines 23 and 26)
        actor, actor_adam, actor_norm = descend(
            vectors.actor,
            actor_gradient,
            optimiser.actor,
            hyperparameters.actor_learning_rate,
            hyperparameters,
        )
        critic, critic_adam, critic_norm = descend(
            vectors.critic,
            critic_gradient,
            optimiser.critic,
            hyperparameters.critic_learning_rate,
            hyperparameters,
        )
        metrics = StepMetrics(
            policy_loss,
            value_loss,
            entropy,
            actor_norm,
            critic_norm,
            jnp.abs(log_ratio).max((0, 2, 3)),
            diagnose(log_ratio, advantage, bounds, jnp.stack([jnp.ones_like(active), active], -1)),
        )
        return (Params(actor, critic), OptimiserState(actor_adam, critic_adam)), metrics

    vectors = Params(to_vector(params.actor), to_vector(params.critic))
    moments = OptimiserState(*(adam_map(to_vector, adam) for adam in optimiser))
    (vectors, moments), metrics = jax.lax.scan(step, (vectors, moments), indices)
    return (
        Params(to_actor(vectors.actor), to_critic(vectors.critic)),
        OptimiserState(adam_map(to_actor, moments.actor), adam_map(to_critic, moments.critic)),
        metrics,
    )


def to_vector(tree: PyTree) -> Float[Array, "P"]:
    """Return all numbers of a tree as one vector."""
    return ravel_pytree(tree)[0]


def adam_map(function: Callable[[Any], Any], adam: Any) -> Any:
    """Apply a function to both moments."""
    return adam._replace(mu=function(adam.mu), nu=function(adam.nu))


def minibatch_indices(group_keys: Keys, shape: RunShape) -> Int[Array, "steps G M"]:
    """Assign sequences to minibatches; each group is reshuffled every epoch with its own key."""
    num_groups, num_sequences = group_keys.shape[0], shape.sequences_per_group

    def group_order(key: Key) -> Int[Array, "steps M"]:
        epochs = jax.random.split(key, shape.num_epochs)
        order = jax.vmap(lambda k: jax.random.permutation(k, num_sequences))(epochs)
        return order.reshape(shape.num_epochs * shape.num_minibatches, -1)

    order = jax.vmap(group_order, out_axes=1)(group_keys)
    return order + num_sequences * jnp.arange(num_groups)[None, :, None]


def normalise(
    advantage: Float[Array, "L G M A"], active: Bool[Array, "L G M A"], shape: RunShape
) -> tuple[Float[Array, "L G M A"], Float[Array, "L G M A"]]:
    """Standardise advantages within each group's minibatch, *before* their sign picks the target.

    Also returns each sample's weight in the loss. Weights are equal within a group, sum to 1 there,
    and are averaged over groups.
    """
    counts = active.astype(advantage.dtype) if shape.mask_inactive else jnp.ones_like(advantage)
    weight = counts / jnp.maximum(counts.sum((0, 2, 3), keepdims=True), 1.0)
    mean = jnp.sum(weight * advantage, (0, 2, 3), keepdims=True)
    deviation = jnp.sqrt(jnp.sum(weight * (advantage - mean) ** 2, (0, 2, 3), keepdims=True))
    return (advantage - mean) / (deviation + 1e-8), weight / advantage.shape[1]


def actor_gradients(
    model: Model,
    actor: PyTree,
    batch: Batch,
    index: Int[Array, "G M"],
    advantage: Float[Array, "L G M A"],
    weight: Float[Array, "L G M A"],
    hyperparameters: Hyperparameters,
    bounds: Bounds,
    surrogate: Surrogate,
) -> tuple[tuple[Array, Array], Float[Array, "L G M A"], Float[Array, "P"]]:
    """Return (policy loss, entropy), the log-ratios and the gradient of the actor loss."""
    num_blocks = count_blocks(index, advantage.shape[0] * advantage.shape[-1])

    def loss(
        actor: PyTree, block: tuple[Array, Array, Array]
    ) -> tuple[Array, tuple[tuple[Array, Array], Array]]:
        rows, advantage, weight = block  # [m], [L, m, A], [L, m, A]
        observation, is_start, action, old_log_prob = jax.tree.map(
            lambda x: x[:, rows], (batch.observation, batch.is_start, batch.action, batch.log_prob)
        )
        carry = jax.tree.map(lambda x: x[rows], batch.actor_carry)

        # ratios (line 12)
        policy, _ = model.actor(actor, observation, is_start, carry)
        log_ratio = policy.log_prob(action) - old_log_prob

        # actor loss (lines 14 to 22). A weight of 0 alone would not mask an infinite value.
        counted = jnp.where(weight > 0, advantage, 0.0)
        policy_loss = -jnp.sum(weight * surrogate(log_ratio, counted, bounds))
        entropy = jnp.sum(weight * policy.entropy())
        return policy_loss - hyperparameters.entropy_coefficient * entropy, (
            (policy_loss, entropy),
            log_ratio,
        )

    blocks = (
        to_blocks(index[None], num_blocks)[:, 0],
        to_blocks(advantage, num_blocks),
        to_blocks(weight, num_blocks),
    )
    (terms, log_ratios), gradient = blocked_gradient(loss, actor, blocks)
    return jax.tree.map(jnp.sum, terms), from_blocks(log_ratios, index.shape[0]), gradient


def critic_gradients(
    model: Model,
    critic: PyTree,
    batch: Batch,
    index: Int[Array, "G M"],
    hyperparameters: Hyperparameters,
) -> tuple[Array, Float[Array, "P"]]:
    """Return the clipped value loss and the gradient of Algorithm 1's critic loss (line 25).

    The value loss is the mean of 0.5 max((V - R)^2, (V_clipped - R)^2). All values count, also
    those of agents that no longer act: earlier advantages are computed from them.
    """
    values_per_sequence = batch.value.size // batch.value.shape[1]
    num_blocks = count_blocks(index, values_per_sequence)

    def loss(critic: PyTree, rows: Int[Array, "m"]) -> tuple[Array, Array]:
        observation, is_start, old, target = jax.tree.map(
            lambda x: x[:, rows], (batch.observation, batch.is_start, batch.value, batch.target)
        )
        carry = jax.tree.map(lambda x: x[rows], batch.critic_carry)
        value, _ = model.critic(critic, observation, is_start, carry)
        clipped = old + jnp.clip(
            value - old, -hyperparameters.value_clip, hyperparameters.value_clip
        )
        squared = jnp.maximum((value - target) ** 2, (clipped - target) ** 2)
        value_loss = 0.5 * jnp.sum(squared) / (values_per_sequence * index.size)
        return hyperparameters.value_coefficient * value_loss, value_loss

    blocks = to_blocks(index[None], num_blocks)[:, 0]
    value_losses, gradient = blocked_gradient(loss, critic, blocks)
    return value_losses.sum(), gradient


def blocked_gradient(
    loss: Callable[[PyTree, PyTree], tuple[Array, PyTree]], params: PyTree, blocks: PyTree
) -> tuple[PyTree, Float[Array, "P"]]:
    """Return the stacked auxiliary outputs and the summed gradient, a vector, over blocks."""

    def step(total: Float[Array, "P"], block: PyTree) -> tuple[Float[Array, "P"], PyTree]:
        gradient, extra = jax.grad(loss, has_aux=True)(params, block)
        return total + to_vector(gradient), extra

    gradient, extras = jax.lax.scan(step, jnp.zeros_like(to_vector(params)), blocks)
    return extras, gradient


def count_blocks(index: Int[Array, "G M"], samples_per_sequence: int) -> int:
    """Return the number of blocks per minibatch: on a CPU the fewest that fit the cache, else 1."""
    num_groups, num_sequences = index.shape
    if jax.default_backend() != "cpu":
        return 1
    divisors = (n for n in range(1, num_sequences + 1) if num_sequences % n == 0)
    samples = num_groups * num_sequences * samples_per_sequence
    return next((n for n in divisors if samples <= n * CPU_BLOCK_SAMPLES), num_sequences)


def to_blocks(x: Array, num_blocks: int) -> Array:
    """[L, G, M, ...] -> [blocks, L, G * m, ...]."""
    length, num_groups, num_sequences = x.shape[:3]
    rows = num_sequences // num_blocks
    x = x.reshape(length, num_groups, num_blocks, rows, *x.shape[3:])
    return jnp.moveaxis(x, 2, 0).reshape(num_blocks, length, num_groups * rows, *x.shape[4:])


def from_blocks(x: Array, num_groups: int) -> Array:
    """[blocks, L, G * m, ...] -> [L, G, M, ...]."""
    num_blocks, length = x.shape[:2]
    x = x.reshape(num_blocks, length, num_groups, -1, *x.shape[3:])
    return jnp.moveaxis(x, 0, 2).reshape(length, num_groups, -1, *x.shape[4:])


def descend(
    params: PyTree,
    gradient: PyTree,
    adam: Any,
    learning_rate: Number,
    hyperparameters: Hyperparameters,
) -> tuple[PyTree, Any, Float[Array, ""]]:
    """Clip by global norm and take an Adam step; also return the norm before clipping."""
    norm = optax.tree.norm(gradient)
    scale = jnp.minimum(1.0, hyperparameters.max_grad_norm / jnp.maximum(norm, 1e-30))
    step, adam = ADAM.update(jax.tree.map(lambda g: g * scale, gradient), adam)
    return jax.tree.map(lambda p, s: p - learning_rate * s, params, step), adam, norm


def diagnose(
    log_ratio: Float[Array, "L G M A"],
    advantage: Float[Array, "L G M A"],
    bounds: Bounds,
    counted: Bool[Array, "L G M A choices"],
) -> RatioDiagnostics:
    """Compute the ratio diagnostics of each local group and choice of samples, [G, choices]."""
    u, a, w = (jnp.moveaxis(x, 1, 0) for x in (log_ratio, advantage, counted))  # [G, L, M, A]
    of_choices = jax.vmap(lambda u, a, w: ratio_diagnostics(u, a, bounds, w), (None, None, -1))
    return jax.vmap(of_choices)(u, a, w)


def summarise(metrics: StepMetrics, num_minibatches: int) -> UpdateMetrics:
    """Reduce metrics of all groups, on the host, to one number each.

    Losses, entropy and gradient norms are means over all gradient steps, extremes of ratios are
    those of all epochs, and the other ratio diagnostics are means over the last epoch, where the
    policy has moved furthest.
    """

    def of_choice(choice: int) -> RatioDiagnostics:
        chosen = jax.tree.map(lambda x: x[:, :, choice], metrics.ratios)
        last = jax.tree.map(lambda x: x[-num_minibatches:].mean((0, 1)), chosen)
        return last._replace(minimum=chosen.minimum.min(), maximum=chosen.maximum.max())

    return UpdateMetrics(
        metrics.policy_loss.mean(),
        metrics.value_loss.mean(),
        metrics.entropy.mean(),
        metrics.actor_grad_norm.mean(),
        metrics.critic_grad_norm.mean(),
        metrics.ratio_error[0].max(),
        of_choice(0),
        of_choice(1),
    )
