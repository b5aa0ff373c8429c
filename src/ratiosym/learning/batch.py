"""Turn a rollout into a batch: values, advantages, sequences (Algorithm 1, lines 8 and 9)."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from ratiosym.learning.advantages import generalised_advantages, value_targets
from ratiosym.learning.config import Hyperparameters, RunShape
from ratiosym.learning.model import Carry, Model
from ratiosym.learning.rollout import RolloutState
from ratiosym.types import Observation, Transition


class Batch(NamedTuple):
    """A rollout cut into N sequences of length L, [L, N, ...], ordered by local group."""

    observation: Observation
    is_start: Bool[Array, "L N"]
    action: PyTree
    log_prob: Float[Array, "L N A"]
    advantage: Float[Array, "L N A"]
    value: Float[Array, "L N *A"]  # one per team, or one per agent
    target: Float[Array, "L N *A"]
    actor_carry: Carry  # [N, ...], at the start of each sequence
    critic_carry: Carry


def make_batch(
    shape: RunShape,
    model: Model,
    critic: PyTree,
    before: RolloutState,
    after: RolloutState,
    transition: Transition,  # [T, G, E, ...]
    hyperparameters: Hyperparameters,
) -> tuple[Batch, Carry]:
    """Compute values and advantages of the whole rollout and cut everything into sequences.

    Also returns the critic's carry for the start of the next rollout.
    """
    # values, including the observation after the last step: [T + 1, G, E] or [T + 1, G, E, A]
    observation, is_start = jax.tree.map(
        lambda x, last: jnp.concatenate([x, last[None]]),
        (transition.observation, transition.is_start),
        (after.observation, after.is_start),
    )
    values, carries = model.critic(critic, observation, is_start, before.critic_carry)
    following = next_values(shape, model, critic, transition, values, carries)
    value = values[:-1]

    # advantages and targets
    advantage = generalised_advantages(
        transition.reward,
        value,
        following,
        transition.terminated | transition.truncated,
        hyperparameters.discount,
        hyperparameters.gae_lambda,
    )  # [T, G, E, A]
    target = value_targets(advantage, value)

    # sequences
    cut = partial(to_sequences, length=shape.sequence_length)
    batch = Batch(
        observation=jax.tree.map(cut, transition.observation),
        is_start=cut(transition.is_start),
        action=jax.tree.map(cut, transition.action),
        log_prob=cut(transition.log_prob),
        advantage=cut(advantage),
        value=cut(value),
        target=cut(target),
        actor_carry=start_carries(before.actor_carry, shape),
        critic_carry=start_carries(before.critic_carry, shape),
    )
    # The critic has already read the next rollout's first observation: return the carry before it.
    return batch, jax.tree.map(lambda x: x[-2], carries)


def next_values(
    shape: RunShape,
    model: Model,
    critic: PyTree,
    transition: Transition,  # [T, G, E, ...]
    values: Float[Array, "T G E *A"],  # T + 1 time steps
    carries: Carry,  # [T + 1, G, E, ...]
) -> Float[Array, "T-1 G E *A"]:
    """Return V(s_{t+1}) for each step: 0 after termination; at a time limit see ``RunShape``."""
    if shape.time_limit == "bootstrap":
        last = jax.tree.map(lambda x: x[None], transition.last_observation)
        never = jnp.zeros((1, *transition.truncated.shape), bool)
        remembered = jax.tree.map(lambda x: x[:-1], carries)
        # Each step is a sequence of length one, with time folded into the batch: [1, T, G, E].
        at_limit = model.critic(critic, last, never, remembered)[0][0]
    else:
        at_limit = jnp.zeros_like(values[1:])
    of_agents = (1,) * (values.ndim - transition.truncated.ndim)
    truncated, terminated = (
        x.reshape(*x.shape, *of_agents) for x in (transition.truncated, transition.terminated)
    )
    unless_terminated = jnp.where(truncated, at_limit, values[1:])
    return jnp.where(terminated, 0.0, unless_terminated)


def to_sequences(x: Shaped[Array, "T G E *r"], length: int) -> Shaped[Array, "L N *r"]:
    """Cut time into pieces of ``length`` steps; N = groups x pieces x environments, by group."""
    num_steps, num_groups, num_envs = x.shape[:3]
    pieces = num_steps // length
    x = x.reshape(pieces, length, num_groups, num_envs, *x.shape[3:])
    return jnp.moveaxis(x, 0, 2).reshape(length, num_groups * pieces * num_envs, *x.shape[4:])


def start_carries(carry: Carry, shape: RunShape) -> Carry:
    """Return the carry at the start of each sequence, [G, E, ...] -> [N, ...].

    A rollout trained as one sequence starts from its own carry; only memoryless models are trained
    on single steps.
    """
    pieces = shape.rollout_length // shape.sequence_length

    def repeat(carry: Shaped[Array, "G E *r"]) -> Shaped[Array, "N *r"]:
        num_groups, num_envs = carry.shape[:2]
        carry = jnp.broadcast_to(carry[:, None], (num_groups, pieces, *carry.shape[1:]))
        return carry.reshape(num_groups * pieces * num_envs, *carry.shape[3:])

    return jax.tree.map(repeat, carry)
