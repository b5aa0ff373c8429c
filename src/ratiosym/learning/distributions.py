"""What a policy returns: a distribution over the actions of every agent.

Both kinds have the same methods, so that nothing after the action head asks which kind it is. An
action is stored as it was sampled; ``environment_action`` turns it into what the environment takes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ratiosym.types import Key

# Gauss-Hermite nodes and weights for expectations under N(0, 1).
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class MaskedCategorical(NamedTuple):
    """A choice among the legal actions."""

    logits: Float[Array, "*b n"]

    @classmethod
    def of(cls, logits: Float[Array, "*b n"], legal: Bool[Array, "*b n"]) -> "MaskedCategorical":
        """Illegal logits at the float32 minimum: probability and gradient zero."""
        return cls(jnp.where(legal, logits, jnp.finfo(logits.dtype).min))

    def sample(self, key: Key) -> Int[Array, "*b"]:
        """One action per agent."""
        return jax.random.categorical(key, self.logits)

    def log_prob(self, action: Int[Array, "*b"]) -> Float[Array, "*b"]:
        """The log-probability of an action."""
        return jnp.take_along_axis(jax.nn.log_softmax(self.logits), action[..., None], axis=-1)[
            ..., 0
        ]

    def entropy(self) -> Float[Array, "*b"]:
        """Exact, over the legal actions."""
        log_p = jax.nn.log_softmax(self.logits)
        p = jnp.exp(log_p)
        return -jnp.sum(p * jnp.where(p > 0, log_p, 0.0), axis=-1)

    def mode(self) -> Int[Array, "*b"]:
        """The likeliest action."""
        return jnp.argmax(self.logits, axis=-1)

    @staticmethod
    def environment_action(action: Int[Array, "*b"]) -> Int[Array, "*b"]:
        """The index itself."""
        return action.astype(jnp.int32)


class TanhGaussian(NamedTuple):
    """A Gaussian squashed into (-1, 1). Actions are stored before the tanh, so that the ratio is
    exact and finite.
    """

    mean: Float[Array, "*b n"]
    scale: Float[Array, "*b n"]

    @classmethod
    def of(cls, mean: Float[Array, "*b n"], parameter: Float[Array, "n"]) -> "TanhGaussian":
        """State-independent scale: softplus(p) + 1e-3."""
        return cls(mean, jnp.broadcast_to(jax.nn.softplus(parameter) + 1e-3, mean.shape))

    def sample(self, key: Key) -> Float[Array, "*b n"]:
        """One action per agent, before the tanh."""
        return self.mean + self.scale * jax.random.normal(key, self.mean.shape)

    def log_prob(self, action: Float[Array, "*b n"]) -> Float[Array, "*b"]:
        """The log-density of tanh(action), summed over dimensions: one ratio per agent."""
        z = (action - self.mean) / self.scale
        gaussian = -0.5 * z * z - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.sum(gaussian - log_tanh_slope(action), axis=-1)

    def entropy(self) -> Float[Array, "*b"]:
        """Entropy of the squashed action: the Gaussian's plus the mean log slope of the tanh.

        The latter has no closed form. A five-point quadrature gives it without the noise of a
        sample (decision 6).
        """
        gaussian = 0.5 + 0.5 * jnp.log(2 * jnp.pi) + jnp.log(self.scale)
        slope = sum(
            w * log_tanh_slope(self.mean + x * self.scale)
            for x, w in zip(_NODES, _WEIGHTS, strict=True)
        )
        return jnp.sum(gaussian + slope, axis=-1)

    def mode(self) -> Float[Array, "*b n"]:
        """The Gaussian's centre."""
        return self.mean

    @staticmethod
    def environment_action(action: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        """The squashed action."""
        return jnp.tanh(action)


Distribution = MaskedCategorical | TanhGaussian


def log_tanh_slope(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """log(1 - tanh(x)^2), without the cancellation."""
    return 2.0 * (jnp.log(2.0) - x - jax.nn.softplus(-2.0 * x))
