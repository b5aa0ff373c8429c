"""The built-in models: actor and critic made of dense layers, an optional GRU, and a head.

Parameters are plain pytrees, and pure functions process whole sequences, [T, ..., features]. A
single step is a sequence of length one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.learning.config import RunShape
from ratiosym.learning.distributions import (
    ClippedGaussian,
    Distribution,
    MaskedCategorical,
    TanhGaussian,
)
from ratiosym.learning.gru import GRUParams, flat_affine, gru, init_gru
from ratiosym.learning.initialisers import orthogonal
from ratiosym.learning.model import Carries, Carry, Params
from ratiosym.types import Discrete, EnvSpec, Key, Observation


class Dense(NamedTuple):
    """An affine layer."""

    kernel: Float[Array, "F O"]
    bias: Float[Array, "O"]


class Network(NamedTuple):
    """Dense layers (torso), optional GRU, dense layer (body) and dense head, with ReLUs between."""

    torso: Dense
    deeper: tuple[Dense, ...]  # further layers of the torso; none at depth 1
    memory: GRUParams | None
    body: Dense
    head: Dense


class Actor(NamedTuple):
    """Policy shared by all agents, which are told apart by the id in their observation."""

    network: Network
    scale: Float[Array, "n"]  # of continuous actions, before the softplus; empty for discrete ones


@dataclass(frozen=True)
class Size:
    """Size of one network."""

    hidden: int  # width of every layer and of the recurrent state
    depth: int = 1  # dense layers before the recurrent one


@dataclass(frozen=True)
class StandardModel:
    """The paper's network and its variants: with or without a GRU, wider, deeper."""

    actor_size: Size
    critic_size: Size
    is_recurrent: bool
    critic_input: Literal["central", "local", "joint", "individual"] = "central"
    action_distribution: Literal["squashed", "clipped"] = "squashed"

    def init(self, key: Key, spec: EnvSpec) -> Params:
        """Initialise with head gains of 0.01 (actor, for a near-uniform policy) and 1 (critic)."""
        actor_key, critic_key = jax.random.split(key)
        if isinstance(spec.action, Discrete):
            num_outputs, scale_size = spec.action.num_actions, 0
        else:
            num_outputs = scale_size = spec.action.size
        actor = init_network(
            actor_key,
            spec.observation_size,
            num_outputs,
            self.actor_size,
            self.is_recurrent,
            head_gain=0.01,
        )
        critic = init_network(
            critic_key,
            self._critic_input_size(spec),
            1,
            self.critic_size,
            self.is_recurrent,
            head_gain=1.0,
        )
        return Params(Actor(actor, jnp.zeros(scale_size)), critic)

    def initial_carry(self, spec: EnvSpec, batch_shape: tuple[int, ...]) -> Carries:
        """Return zero hidden states for the GRUs, if there are any."""
        if not self.is_recurrent:
            return Carries((), ())
        agents = (*batch_shape, spec.num_agents)
        return Carries(
            jnp.zeros((*agents, self.actor_size.hidden)),
            jnp.zeros(
                (
                    *(agents if self.critic_input in ("local", "individual") else batch_shape),
                    self.critic_size.hidden,
                )
            ),
        )

    def actor(
        self, params: Actor, observation: Observation, is_start: Bool[Array, "T *b"], carry: Carry
    ) -> tuple[Distribution, Carry]:
        """Return the action distribution of every agent, [T, *b, A], and the carries."""
        outputs, carries = apply_network(
            params.network, observation.local, of_agents(is_start, observation), carry
        )
        if params.scale.size:
            gaussian = TanhGaussian if self.action_distribution == "squashed" else ClippedGaussian
            return gaussian.of(outputs, params.scale), carries
        return MaskedCategorical.of(outputs, observation.legal), carries

    def critic(
        self, params: Network, observation: Observation, is_start: Bool[Array, "T *b"], carry: Carry
    ) -> tuple[Float[Array, "T *b"] | Float[Array, "T *b A"], Carry]:
        """Return V(s) or V(s, o), one per team, or V(o_i) or V(s, o_i), one per agent; carries."""
        if self.critic_input == "local":
            inputs, is_start = observation.local, of_agents(is_start, observation)
        elif self.critic_input == "joint":
            views = observation.local.reshape(*is_start.shape, -1)
            inputs = jnp.concatenate([observation.state, views], axis=-1)
        elif self.critic_input == "individual":
            views, is_start = observation.local, of_agents(is_start, observation)
            state = jnp.broadcast_to(
                observation.state[..., None, :], (*views.shape[:-1], observation.state.shape[-1])
            )
            active = observation.active[..., None].astype(views.dtype)
            inputs = jnp.concatenate([state, views, active], axis=-1)
        else:
            inputs = observation.state
        values, carries = apply_network(params, inputs, is_start, carry)
        return values[..., 0], carries

    def _critic_input_size(self, spec: EnvSpec) -> int:
        return {
            "central": spec.state_size,
            "local": spec.observation_size,
            "joint": spec.state_size + spec.num_agents * spec.observation_size,
            "individual": spec.state_size + spec.observation_size + 1,
        }[self.critic_input]


def gru_model(shape: RunShape) -> StandardModel:
    """Build the paper's network: Dense, GRU, Dense, Dense."""
    return _standard(shape, is_recurrent=True)


def feedforward_model(shape: RunShape) -> StandardModel:
    """Build the paper's network without the GRU."""
    return _standard(shape, is_recurrent=False)


def _standard(shape: RunShape, is_recurrent: bool) -> StandardModel:
    return StandardModel(
        Size(shape.actor_hidden_size, shape.actor_depth),
        Size(shape.critic_hidden_size, shape.critic_depth),
        is_recurrent,
        shape.critic,
        shape.action_distribution,
    )


BUILT_IN: dict[str, Callable[[RunShape], StandardModel]] = {
    "gru": gru_model,
    "feedforward": feedforward_model,
}


def init_dense(key: Key, input_size: int, output_size: int, gain: float) -> Dense:
    """Initialise the kernel orthogonally with the given gain, the bias with zeros."""
    return Dense(orthogonal(key, input_size, output_size, gain), jnp.zeros(output_size))


def init_network(
    key: Key, input_size: int, output_size: int, size: Size, has_memory: bool, head_gain: float
) -> Network:
    """Initialise orthogonally: torso and body with gain sqrt 2, the head with ``head_gain``."""
    torso, memory, body, head = jax.random.split(key, 4)
    # A one-layer torso uses the key itself, as it did before depth became an option.
    first, *rest = [torso] if size.depth == 1 else jax.random.split(torso, size.depth)
    hidden = size.hidden
    return Network(
        init_dense(first, input_size, hidden, 2**0.5),
        tuple(init_dense(k, hidden, hidden, 2**0.5) for k in rest),
        init_gru(memory, hidden, hidden) if has_memory else None,
        init_dense(body, hidden, hidden, 2**0.5),
        init_dense(head, hidden, output_size, head_gain),
    )


def dense(layer: Dense, x: Float[Array, "*b F"]) -> Float[Array, "*b O"]:
    """Apply an affine layer."""
    return flat_affine(x, layer.kernel, layer.bias)


def apply_network(
    network: Network, inputs: Float[Array, "T *b F"], is_start: Bool[Array, "T *b"], carry: Carry
) -> tuple[Float[Array, "T *b O"], Carry]:
    """Return the outputs and the carry after each step; without a GRU the carry is empty."""
    hidden = jax.nn.relu(dense(network.torso, inputs))
    for layer in network.deeper:
        hidden = jax.nn.relu(dense(layer, hidden))
    carries: Carry = ()
    if network.memory is not None:
        hidden = carries = gru(network.memory, hidden, is_start, carry)
    hidden = jax.nn.relu(dense(network.body, hidden))
    return dense(network.head, hidden), carries


def of_agents(is_start: Bool[Array, "T *b"], observation: Observation) -> Bool[Array, "T *b A"]:
    """Broadcast an episode's flag to its agents."""
    return jnp.broadcast_to(is_start[..., None], observation.local.shape[:-1])
