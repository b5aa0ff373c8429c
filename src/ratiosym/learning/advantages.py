"""Generalised advantage estimation and value targets, as functions of plain arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Values = Float[Array, "T *b"] | Float[Array, "T *b A"]  # one per team, or one per agent
Number = float | np.floating | Float[Array, ""]


def generalised_advantages(
    reward: Float[Array, "T *b A"],
    value: Values,
    next_value: Values,
    is_end: Bool[Array, "T *b"],
    discount: Number,
    gae_lambda: Number,
) -> Float[Array, "T *b A"]:
    r"""Compute GAE with one advantage per agent, from a team value or from one value per agent.

    .. math::
        \delta_t = R_t + \gamma V(s_{t+1}) - V(s_t), \quad
        \hat A_t = \delta_t + \gamma \lambda (1 - \text{end}_t) \hat A_{t+1}

    ``next_value`` is V(s_{t+1}): 0 after a terminal step, and at a time limit either 0 or the value
    of the episode's last state (see ``batch.next_values``). If all agents share both reward and
    value, their advantages are equal, which is the paper's joint advantage.
    """
    change = discount * next_value - value
    delta = reward + (change if is_per_agent(value, reward) else change[..., None])
    decay = (discount * gae_lambda * (1.0 - is_end))[..., None]

    def step(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, decay = now
        advantage = delta + decay * later
        return advantage, advantage

    return jax.lax.scan(step, jnp.zeros_like(delta[0]), (delta, decay), reverse=True)[1]


def value_targets(advantage: Float[Array, "T *b A"], value: Values) -> Values:
    """Return advantage + value, averaged over agents if there is one value per team.

    The average loses nothing: sum_i (V - R_i)^2 has the same gradient as N (V - mean R)^2.
    """
    if is_per_agent(value, advantage):
        return advantage + value
    return advantage.mean(-1) + value


def is_per_agent(value: Array, of_agents: Array) -> bool:
    """Whether there is one value per agent rather than one per team."""
    return value.ndim == of_agents.ndim
