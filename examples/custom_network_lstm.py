"""A custom network: an LSTM, whose carry is a pair of arrays.

    python examples/custom_network_lstm.py
    ratiosym train mpe-spread-3ag --network examples/custom_network_lstm.py:lstm

A model has four methods (ratiosym.learning.model.Model). The learner never looks inside the
parameters or the carry, so both can be any nesting of arrays.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import jax
import jax.numpy as jnp

import ratiosym
from ratiosym.learning.config import RunShape
from ratiosym.learning.distributions import MaskedCategorical, TanhGaussian
from ratiosym.learning.model import Carries, Params, unroll
from ratiosym.learning.networks import Dense, dense, init_dense, of_agents
from ratiosym.types import Discrete


class LSTM(NamedTuple):
    """Dense, ReLU, LSTM, Dense."""

    torso: Dense
    gates: Dense  # from input and hidden state to input, forget and output gates and candidate
    head: Dense


class Actor(NamedTuple):
    network: LSTM
    scale: jax.Array  # of continuous actions; empty for discrete ones


@dataclass(frozen=True)  # hashable and comparable, so that compiled programs are shared
class LSTMModel:
    actor_hidden_size: int
    critic_hidden_size: int

    def init(self, key, spec):
        is_discrete = isinstance(spec.action, Discrete)
        num_outputs = spec.action.num_actions if is_discrete else spec.action.size
        actor_key, critic_key = jax.random.split(key)
        actor = init_lstm(actor_key, spec.observation_size, self.actor_hidden_size, num_outputs)
        critic = init_lstm(critic_key, spec.state_size, self.critic_hidden_size, 1, head_gain=1.0)
        return Params(Actor(actor, jnp.zeros(0 if is_discrete else num_outputs)), critic)

    def initial_carry(self, spec, batch_shape):
        of_actor = jnp.zeros((*batch_shape, spec.num_agents, self.actor_hidden_size))
        of_critic = jnp.zeros((*batch_shape, self.critic_hidden_size))
        return Carries((of_actor, of_actor), (of_critic, of_critic))

    def actor(self, params, observation, is_start, carry):
        is_start = of_agents(is_start, observation)  # [T, *b, A]
        outputs, carries = apply_lstm(params.network, observation.local, is_start, carry)
        if params.scale.size:
            return TanhGaussian.of(outputs, params.scale), carries
        return MaskedCategorical.of(outputs, observation.legal), carries

    def critic(self, params, observation, is_start, carry):
        values, carries = apply_lstm(params, observation.state, is_start, carry)
        return values[..., 0], carries  # one value per team, [T, *b]


def init_lstm(key, num_inputs, hidden_size, num_outputs, head_gain=0.01):
    torso, gates, head = jax.random.split(key, 3)
    return LSTM(
        init_dense(torso, num_inputs, hidden_size, 2**0.5),
        init_dense(gates, 2 * hidden_size, 4 * hidden_size, 1.0),
        init_dense(head, hidden_size, num_outputs, head_gain),
    )


def apply_lstm(network, inputs, is_start, carry):
    """Return the outputs and carries of a whole sequence, [T, *b, ...]."""

    def cell(carry, x):
        hidden, memory = carry
        gates = dense(network.gates, jnp.concatenate([x, hidden], axis=-1))
        to_input, to_forget, to_output, candidate = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(to_forget) * memory + jax.nn.sigmoid(to_input) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(to_output) * jnp.tanh(memory)
        return (hidden, memory), hidden

    embedded = jax.nn.relu(dense(network.torso, inputs))
    hidden, carries = unroll(cell, embedded, is_start, carry)  # resets the carry at every start
    return dense(network.head, hidden), carries


def lstm(shape: RunShape) -> LSTMModel:
    """The function to name with ``--network``: it maps the run's sizes to a model."""
    return LSTMModel(shape.actor_hidden_size, shape.critic_hidden_size)


if __name__ == "__main__":
    [run] = ratiosym.train(
        "paxmen-4a",
        preset="smoke",
        network=f"{Path(__file__)}:lstm",
        out=Path(mkdtemp()) / "lstm",
    )
    curve = run.evaluations
    for steps, mean_return in zip(curve["steps"], curve["mean_return"], strict=True):
        print(f"after {steps:>6,.0f} steps: mean return {mean_return:.3f}")
    print(ratiosym.load_policy(run.directory))
