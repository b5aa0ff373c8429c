"""Generalised advantage estimation and the value targets. Needs nothing but arrays."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def generalised_advantages(
    reward: Float[Array, "T E A"],
    value: Float[Array, "T E"],
    next_value: Float[Array, "T E"],
    is_end: Bool[Array, "T E"],
    discount: float | Float[Array, ""],
    gae_lambda: float | Float[Array, ""],
) -> Float[Array, "T E A"]:
    r"""GAE, one advantage an agent from one value for the team.

    .. math::
        \delta_t = R_t + \gamma V(s_{t+1}) - V(s_t), \quad
        \hat A_t = \delta_t + \gamma \lambda (1 - \text{end}_t) \hat A_{t+1}

    ``next_value`` is what follows the step: 0 where the task ended, and at a time limit either 0 or
    the value of the episode's last state (``learner.next_values`` decides). Where all agents share
    the reward their advantages are equal: the paper's joint advantage.
    """
    delta = reward + (discount * next_value - value)[..., None]
    decay = (discount * gae_lambda * (1.0 - is_end))[..., None]

    def step(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, decay = now
        advantage = delta + decay * later
        return advantage, advantage

    return jax.lax.scan(step, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)[1]


def value_targets(
    advantage: Float[Array, "T E A"], value: Float[Array, "T E"]
) -> Float[Array, "T E"]:
    """The mean over agents of advantage + value.

    The gradient of sum_i (V - R_i)^2 is that of N (V - mean R)^2: one target for the team loses
    nothing.
    """
    return advantage.mean(-1) + value
