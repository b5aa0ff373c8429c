"""Collect experience from one group of environments (Algorithm 1, lines 4 to 7)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ratiosym.envs.protocol import Env
from ratiosym.envs.starts import Starts, begin_where, make_starts, pool_size
from ratiosym.learning.config import RunShape
from ratiosym.learning.model import Carry, Model
from ratiosym.types import Key, Observation, State, Transition


class RolloutState(NamedTuple):
    """State of a group of environments between two rollouts."""

    key: Key
    env_state: State  # [E]
    observation: Observation  # [E]
    is_start: Bool[Array, "E"]  # whether the observation is the first of an episode
    actor_carry: Carry  # [E], before that observation is read
    critic_carry: Carry  # [E]
    episode_return: Float[Array, "E"]  # of the current episode


class EpisodeSums(NamedTuple):
    """Sums over the episodes that ended in a rollout, to average over episodes, not steps."""

    num_ended: Float[Array, ""]
    total_return: Float[Array, ""]


def init_rollout(env: Env, shape: RunShape, model: Model, key: Key) -> RolloutState:
    """Start an episode in every environment of a group."""
    key, reset_key = jax.random.split(key)
    num_envs = shape.envs_per_group
    env_state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
    carries = model.initial_carry(env.spec, (num_envs,))
    return RolloutState(
        key,
        env_state,
        observation,
        is_start=jnp.ones(num_envs, bool),
        actor_carry=carries.actor,
        critic_carry=carries.critic,
        episode_return=jnp.zeros(num_envs),
    )


def rollout(
    env: Env, shape: RunShape, model: Model, actor: PyTree, state: RolloutState
) -> tuple[RolloutState, Transition, EpisodeSums]:
    """Collect ``shape.rollout_length`` steps of one group. Leaves the critic's carry unchanged."""
    num_envs = state.is_start.shape[0]
    key, starts_key, steps_key = jax.random.split(state.key, 3)
    starts = make_starts(env, starts_key, pool_size(env.spec, num_envs, shape.rollout_length))

    def step(
        before: tuple[RolloutState, Starts], key: Key
    ) -> tuple[tuple[RolloutState, Starts], tuple[Transition, EpisodeSums]]:
        state, starts = before
        action_key, env_key = jax.random.split(key)

        # act on a sequence of length one, [1, E, A]
        observation = jax.tree.map(lambda x: x[None], state.observation)
        policy, carries = model.actor(actor, observation, state.is_start[None], state.actor_carry)
        action = policy.sample(action_key)

        # step
        env_state, outcome = jax.vmap(env.step)(
            jax.random.split(env_key, num_envs),
            state.env_state,
            policy.environment_action(action[0]),
        )
        is_end = outcome.terminated | outcome.truncated
        episode_return = state.episode_return + outcome.reward.mean(-1)

        # store
        transition = Transition(
            state.observation,
            state.is_start,
            action[0],
            policy.log_prob(action)[0],
            outcome.reward,
            outcome.terminated,
            outcome.truncated,
            outcome.observation,
        )
        sums = EpisodeSums(is_end.sum(dtype=jnp.float32), jnp.sum(episode_return * is_end))

        # start new episodes where one has ended
        starts, env_state, next_observation = begin_where(
            is_end, starts, env_state, outcome.observation
        )
        state = state._replace(
            env_state=env_state,
            observation=next_observation,
            is_start=is_end,
            actor_carry=jax.tree.map(lambda x: x[0], carries),
            episode_return=jnp.where(is_end, 0.0, episode_return),
        )
        return (state, starts), (transition, sums)

    keys = jax.random.split(steps_key, shape.rollout_length)
    (state, _), (transitions, sums) = jax.lax.scan(step, (state._replace(key=key), starts), keys)
    return state, transitions, jax.tree.map(jnp.sum, sums)
