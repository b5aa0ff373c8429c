"""A custom network: convolutions over each agent's view of a grid.

    python examples/custom_network_cnn.py
    ratiosym train connector-10x10x10a --network examples/custom_network_cnn.py:cnn

In Connector, an agent sees the 5 x 5 cells around itself twice: agents and paths, then targets.
These are the last 50 numbers of its observation. This actor reads them as an image with two
channels; the critic is the built-in one.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import jax
import jax.numpy as jnp

import ratiosym
from ratiosym.errors import InputError
from ratiosym.learning.config import RunShape
from ratiosym.learning.distributions import MaskedCategorical
from ratiosym.learning.model import Carries, Params
from ratiosym.learning.networks import Dense, StandardModel, dense, feedforward_model, init_dense

SIDE, CHANNELS = 5, 2
CELLS = CHANNELS * SIDE * SIDE


class CNN(NamedTuple):
    """Convolution, ReLU, Dense, ReLU, Dense."""

    filters: jax.Array  # [3, 3, channels, filters]
    body: Dense
    head: Dense


@dataclass(frozen=True)  # hashable and comparable, so that compiled programs are shared
class CNNModel:
    hidden_size: int
    standard: StandardModel  # for the critic
    num_filters: int = 16

    def init(self, key, spec):
        num_others = spec.observation_size - CELLS  # agent id, position, target
        if not spec.name.startswith("connector"):
            raise InputError(f"This network reads the views of Connector, not of '{spec.name}'.")
        filters_key, body, head, standard = jax.random.split(key, 4)
        he_normal = jax.nn.initializers.he_normal()
        actor = CNN(
            he_normal(filters_key, (3, 3, CHANNELS, self.num_filters)),
            init_dense(body, num_others + 9 * self.num_filters, self.hidden_size, 2**0.5),
            init_dense(head, self.hidden_size, spec.action.num_actions, 0.01),
        )
        return Params(actor, self.standard.init(standard, spec).critic)

    def initial_carry(self, spec, batch_shape):
        return Carries((), self.standard.initial_carry(spec, batch_shape).critic)  # no memory

    def actor(self, params, observation, is_start, carry):
        local, batch = observation.local, observation.local.shape[:-1]  # [T, *b, A]
        cells = local[..., -CELLS:].reshape(-1, CHANNELS, SIDE, SIDE)  # [T b A, 2, 5, 5]
        seen = jax.lax.conv_general_dilated(
            cells, params.filters, (1, 1), "VALID", dimension_numbers=("NCHW", "HWIO", "NHWC")
        )  # [T b A, 3, 3, filters]
        features = jax.nn.relu(seen).reshape(*batch, -1)
        features = jnp.concatenate([local[..., :-CELLS], features], axis=-1)
        logits = dense(params.head, jax.nn.relu(dense(params.body, features)))
        return MaskedCategorical.of(logits, observation.legal), ()

    def critic(self, params, observation, is_start, carry):
        return self.standard.critic(params, observation, is_start, carry)


def cnn(shape: RunShape) -> CNNModel:
    """The function to name with ``--network``: it maps the run's sizes to a model."""
    return CNNModel(shape.actor_hidden_size, feedforward_model(shape))


if __name__ == "__main__":
    [run] = ratiosym.train(
        "connector-5x5x3a",
        preset="smoke",
        network=f"{Path(__file__)}:cnn",
        out=Path(mkdtemp()) / "cnn",
    )
    curve = run.evaluations
    for steps, mean_return in zip(curve["steps"], curve["mean_return"], strict=True):
        print(f"after {steps:>6,.0f} steps: mean return {mean_return:.3f}")
    print(ratiosym.load_policy(run.directory))
