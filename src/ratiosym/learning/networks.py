"""The networks: torso, memory, body and head; the shared actor and the centralised critic.

Plain pytrees of arrays and pure functions over whole sequences, [T, ..., features]. One step is a
sequence of one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.learning.config import RunShape
from ratiosym.learning.distributions import Distribution, MaskedCategorical, TanhGaussian
from ratiosym.learning.gru import GRUParams, expand, gru, init_gru
from ratiosym.learning.initialisers import orthogonal
from ratiosym.types import Discrete, EnvSpec, Key, Observation


class Dense(NamedTuple):
    """An affine layer."""

    kernel: Float[Array, "F O"]
    bias: Float[Array, "O"]


class Network(NamedTuple):
    """Dense, ReLU, memory, Dense, ReLU, Dense. Without memory the torso feeds the body."""

    torso: Dense
    memory: GRUParams | None
    body: Dense
    head: Dense


class Actor(NamedTuple):
    """One policy for all agents; they differ by the id in their observation."""

    network: Network
    scale: Float[Array, "n"]  # of continuous actions, before the softplus; empty for discrete ones


class Params(NamedTuple):
    """Everything that is learned."""

    actor: Actor
    critic: Network  # V(s), one number for the team


def init_dense(key: Key, input_size: int, output_size: int, gain: float) -> Dense:
    """Orthogonal with the given gain; bias zero."""
    return Dense(orthogonal(key, input_size, output_size, gain), jnp.zeros(output_size))


def init_network(
    key: Key,
    input_size: int,
    output_size: int,
    hidden_size: int,
    has_memory: bool,
    head_gain: float,
) -> Network:
    """Torso and body orthogonal sqrt 2, head orthogonal ``head_gain``."""
    torso, memory, body, head = jax.random.split(key, 4)
    return Network(
        init_dense(torso, input_size, hidden_size, 2**0.5),
        init_gru(memory, hidden_size, hidden_size) if has_memory else None,
        init_dense(body, hidden_size, hidden_size, 2**0.5),
        init_dense(head, hidden_size, output_size, head_gain),
    )


def init_params(key: Key, spec: EnvSpec, shape: RunShape) -> Params:
    """Actor head with gain 0.01, so that the first policy is close to uniform; critic head with
    gain 1.
    """
    actor_key, critic_key = jax.random.split(key)
    if isinstance(spec.action, Discrete):
        num_outputs, scale_size = spec.action.num_actions, 0
    else:
        num_outputs = scale_size = spec.action.size
    actor = init_network(
        actor_key,
        spec.observation_size,
        num_outputs,
        shape.actor_hidden_size,
        shape.is_recurrent,
        0.01,
    )
    critic = init_network(
        critic_key, spec.state_size, 1, shape.critic_hidden_size, shape.is_recurrent, 1.0
    )
    return Params(Actor(actor, jnp.zeros(scale_size)), critic)


def dense(layer: Dense, x: Float[Array, "*b F"]) -> Float[Array, "*b O"]:
    """The affine map."""
    return x @ layer.kernel + expand(layer.bias, x.ndim)


def apply_network(
    network: Network,
    inputs: Float[Array, "T *b F"],
    is_start: Bool[Array, "T *b"],
    carry: Float[Array, "*b H"],
) -> tuple[Float[Array, "T *b O"], Float[Array, "T *b H"]]:
    """Outputs and the carries after each step. No memory: the carry is empty (width 0) and stays
    so.
    """
    hidden = jax.nn.relu(dense(network.torso, inputs))
    if network.memory is None:
        carries = jnp.zeros((*inputs.shape[:-1], 0))
    else:
        hidden = carries = gru(network.memory, hidden, is_start, carry)
    hidden = jax.nn.relu(dense(network.body, hidden))
    return dense(network.head, hidden), carries


def apply_actor(
    actor: Actor,
    observation: Observation,
    is_start: Bool[Array, "T *b"],
    carry: Float[Array, "*b A H"],
) -> tuple[Distribution, Float[Array, "T *b A H"]]:
    """The policy of every agent over a sequence of observations [T, ..., A]."""
    is_start = jnp.broadcast_to(is_start[..., None], observation.local.shape[:-1])  # [T, ..., A]
    outputs, carries = apply_network(actor.network, observation.local, is_start, carry)
    if actor.scale.size:
        return TanhGaussian.of(outputs, actor.scale), carries
    return MaskedCategorical.of(outputs, observation.legal), carries


def apply_critic(
    critic: Network,
    state: Float[Array, "T *b S"],
    is_start: Bool[Array, "T *b"],
    carry: Float[Array, "*b H"],
) -> tuple[Float[Array, "T *b"], Float[Array, "T *b H"]]:
    """V(s) over a sequence of global states."""
    values, carries = apply_network(critic, state, is_start, carry)
    return values[..., 0], carries
