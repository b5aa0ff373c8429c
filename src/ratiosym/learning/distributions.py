"""Action distributions of the policies, one per agent.

All kinds share an interface, so only the action head depends on the kind. Actions are stored as
sampled; ``environment_action`` converts them to what the environment expects.
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
    """Categorical distribution over the legal actions."""

    logits: Float[Array, "*b n"]

    @classmethod
    def of(cls, logits: Float[Array, "*b n"], legal: Bool[Array, "*b n"]) -> "MaskedCategorical":
        """Set illegal logits to the float32 minimum, for zero probability and gradient."""
        return cls(jnp.where(legal, logits, jnp.finfo(logits.dtype).min))

    def sample(self, key: Key) -> Int[Array, "*b"]:
        """Sample one action per agent."""
        return jax.random.categorical(key, self.logits)

    def log_prob(self, action: Int[Array, "*b"]) -> Float[Array, "*b"]:
        """Log-probability of an action."""
        return jnp.take_along_axis(jax.nn.log_softmax(self.logits), action[..., None], axis=-1)[
            ..., 0
        ]

    def entropy(self) -> Float[Array, "*b"]:
        """Exact entropy over the legal actions."""
        log_p = jax.nn.log_softmax(self.logits)
        p = jnp.exp(log_p)
        return -jnp.sum(p * jnp.where(p > 0, log_p, 0.0), axis=-1)

    def mode(self) -> Int[Array, "*b"]:
        """Most likely action."""
        return jnp.argmax(self.logits, axis=-1)

    @staticmethod
    def environment_action(action: Int[Array, "*b"]) -> Int[Array, "*b"]:
        """Return the index itself."""
        return action.astype(jnp.int32)


class TanhGaussian(NamedTuple):
    """Gaussian squashed into (-1, 1) by tanh.

    Actions are stored before the tanh, so that ratios are exact and finite.
    """

    mean: Float[Array, "*b n"]
    scale: Float[Array, "*b n"]

    @classmethod
    def of(cls, mean: Float[Array, "*b n"], parameter: Float[Array, "n"]) -> "TanhGaussian":
        """Use the state-independent scale softplus(parameter) + 1e-3."""
        return cls(mean, jnp.broadcast_to(jax.nn.softplus(parameter) + 1e-3, mean.shape))

    def sample(self, key: Key) -> Float[Array, "*b n"]:
        """Sample one action per agent, before the tanh."""
        return self.mean + self.scale * jax.random.normal(key, self.mean.shape)

    def log_prob(self, action: Float[Array, "*b n"]) -> Float[Array, "*b"]:
        """Log-density of tanh(action), summed over dimensions to give one ratio per agent."""
        gaussian = gaussian_log_density(action, self.mean, self.scale)
        return jnp.sum(gaussian - log_tanh_slope(action), axis=-1)

    def entropy(self) -> Float[Array, "*b"]:
        """Entropy of the squashed action: the Gaussian's plus the mean log slope of the tanh.

        The latter has no closed form; five-point quadrature computes it without sampling noise.
        """
        gaussian = 0.5 + 0.5 * jnp.log(2 * jnp.pi) + jnp.log(self.scale)
        nodes, weights = (jnp.array(x, self.mean.dtype) for x in (_NODES, _WEIGHTS))
        # all points at once, [*b, n, 5]: XLA would compile each node's part separately
        points = self.mean[..., None] + jnp.multiply.outer(self.scale, nodes)
        return jnp.sum(gaussian + log_tanh_slope(points) @ weights, axis=-1)

    def mode(self) -> Float[Array, "*b n"]:
        """Mean of the Gaussian, before the tanh."""
        return self.mean

    @staticmethod
    def environment_action(action: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        """Squash the action into (-1, 1)."""
        return jnp.tanh(action)


class ClippedGaussian(NamedTuple):
    """A plain Gaussian whose actions are clipped to [-1, 1] for the environment.

    Actions are stored before they are clipped, and densities are those of the plain Gaussian, so
    that ratios are exact. Unlike a squashed Gaussian, it reaches the bounds with a finite mean.
    """

    mean: Float[Array, "*b n"]
    scale: Float[Array, "*b n"]

    @classmethod
    def of(cls, mean: Float[Array, "*b n"], parameter: Float[Array, "n"]) -> "ClippedGaussian":
        """Use the same state-independent scale as for squashed actions."""
        return cls(*TanhGaussian.of(mean, parameter))

    def sample(self, key: Key) -> Float[Array, "*b n"]:
        """Sample one action per agent, before it is clipped."""
        return self.mean + self.scale * jax.random.normal(key, self.mean.shape)

    def log_prob(self, action: Float[Array, "*b n"]) -> Float[Array, "*b"]:
        """Log-density of the Gaussian, summed over dimensions to give one ratio per agent."""
        return jnp.sum(gaussian_log_density(action, self.mean, self.scale), axis=-1)

    def entropy(self) -> Float[Array, "*b"]:
        """Entropy of the Gaussian."""
        return jnp.sum(0.5 + 0.5 * jnp.log(2 * jnp.pi) + jnp.log(self.scale), axis=-1)

    def mode(self) -> Float[Array, "*b n"]:
        """Mean of the Gaussian, before it is clipped."""
        return self.mean

    @staticmethod
    def environment_action(action: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
        """Clip the action to [-1, 1]."""
        return jnp.clip(action, -1.0, 1.0)


Distribution = MaskedCategorical | TanhGaussian | ClippedGaussian


def gaussian_log_density(
    x: Float[Array, "*b n"], mean: Float[Array, "*b n"], scale: Float[Array, "*b n"]
) -> Float[Array, "*b n"]:
    """Log-density of a Gaussian in each dimension."""
    z = (x - mean) / scale
    return -0.5 * z * z - jnp.log(scale) - 0.5 * jnp.log(2 * jnp.pi)


def log_tanh_slope(x: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Compute log(1 - tanh(x)^2) without cancellation."""
    return 2.0 * (jnp.log(2.0) - x - jax.nn.softplus(-2.0 * x))
