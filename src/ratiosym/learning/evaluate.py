"""Whole episodes with fixed parameters."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ratiosym.envs.protocol import Env
from ratiosym.learning.networks import Actor, apply_actor
from ratiosym.types import Key, Observation, State


class Episodes(NamedTuple):
    """What came of a number of episodes, [n]."""

    returns: Float[Array, "n"]  # sum over steps of the mean over agents of the reward
    lengths: Int[Array, "n"]
    metrics: dict[str, Float[Array, "n"]]  # as they stood at each episode's last step


class _Progress(NamedTuple):
    time: Int[Array, ""]
    env_state: State
    observation: Observation
    carry: Float[Array, "n A H"]
    is_over: Bool[Array, "n"]
    episodes: Episodes


def run_episodes(env: Env, actor: Actor, keys: Key, carry_size: int, is_greedy: bool = False) -> Episodes:
    """One episode for each key, all side by side, until the last one has ended.

    Actions are sampled as in the paper's evaluations; ``is_greedy`` takes the likeliest ones instead. Everything
    random in an episode comes from its own key, so that an episode does not depend on its neighbours.
    """
    num_episodes, num_agents = keys.shape[0], env.spec.num_agents

    def is_under_way(progress: _Progress) -> Bool[Array, ""]:
        return ~progress.is_over.all() & (progress.time <= env.spec.time_limit)

    def step(progress: _Progress) -> _Progress:
        step_keys = jax.vmap(lambda k: jax.random.split(jax.random.fold_in(k, progress.time + 1)))(keys)
        is_start = jnp.full((1, num_episodes), progress.time == 0)
        observation = jax.tree.map(lambda x: x[None], progress.observation)
        policy, carries = apply_actor(actor, observation, is_start, progress.carry)
        policy = jax.tree.map(lambda x: x[0], policy)
        action = policy.mode() if is_greedy else jax.vmap(lambda p, k: p.sample(k))(policy, step_keys[:, 0])
        env_state, outcome = jax.vmap(env.step)(step_keys[:, 1], progress.env_state, policy.environment_action(action))
        goes_on, so_far = ~progress.is_over, progress.episodes
        episodes = Episodes(
            so_far.returns + jnp.where(goes_on, outcome.reward.mean(-1), 0.0),
            so_far.lengths + goes_on,
            jax.tree.map(lambda old, new: jnp.where(goes_on, new, old), so_far.metrics, outcome.metrics),
        )
        is_over = progress.is_over | outcome.terminated | outcome.truncated
        return _Progress(progress.time + 1, env_state, outcome.observation, carries[0], is_over, episodes)

    env_state, observation = jax.vmap(lambda k: env.reset(jax.random.fold_in(k, 0)))(keys)
    nothing = Episodes(
        jnp.zeros(num_episodes),
        jnp.zeros(num_episodes, jnp.int32),
        {name: jnp.zeros(num_episodes) for name in env.spec.metrics},
    )
    carry = jnp.zeros((num_episodes, num_agents, carry_size))
    start = _Progress(jnp.zeros((), jnp.int32), env_state, observation, carry, jnp.zeros(num_episodes, bool), nothing)
    return jax.lax.while_loop(is_under_way, step, start).episodes
