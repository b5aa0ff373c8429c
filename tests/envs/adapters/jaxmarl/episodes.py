"""Whole episodes with the same keys and actions in our adapter and in the library's own class."""

from functools import partial

import jax
import jax.numpy as jnp

from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import random_action


@partial(jax.jit, static_argnums=(0, 2))
def play(env, key, num_steps):
    """Play random legal actions; return the first observation, actions [T, A, ...] and steps."""
    state, first = env.reset(key)

    def body(before, step_key):
        state, observation = before
        action = random_action(env.spec, jax.random.fold_in(step_key, 1), observation)
        state, step = env.step(step_key, state, action)
        return (state, step.observation), (action, step)

    _, (actions, steps) = jax.lax.scan(body, (state, first), jax.random.split(key, num_steps))
    return first, actions, steps


@partial(jax.jit, static_argnums=0)
def rollout(env, key, actions):
    """Play our episode; return the first observation and the steps, [T, ...]."""
    state, observation = env.reset(key)

    def body(state, inputs):
        return env.step(inputs[0], state, inputs[1])

    _, steps = jax.lax.scan(body, state, (jax.random.split(key, len(actions)), actions))
    return observation, steps


@partial(jax.jit, static_argnums=0)
def library_rollout(library, key, actions):
    """Play the library's episode with ``step_env``.

    Returns states and observations, [T + 1, ...], rewards [T, A] and ends [T].
    """

    def stack(values):
        return jnp.stack([values[agent] for agent in library.agents])

    def body(state, inputs):
        key, action = inputs
        by_name = {agent: action[index] for index, agent in enumerate(library.agents)}
        observations, state, rewards, dones, _ = library.step_env(key, state, by_name)
        return strongly_typed(state), (
            strongly_typed(state),
            stack(observations),
            stack(rewards),
            dones["__all__"],
        )

    with jax.numpy_rank_promotion("allow"):
        observations, state = library.reset(key)
        first = strongly_typed(state), stack(observations)
        keys = jax.random.split(key, len(actions))
        _, (states, local, rewards, ends) = jax.lax.scan(body, first[0], (keys, actions))
    states, local = jax.tree.map(
        lambda one, rest: jnp.concatenate([one[None], rest]), first, (states, local)
    )
    return states, local, rewards, ends


def episode_length(steps):
    """Return the number of steps up to and including the first end."""
    return int(jnp.argmax(steps.terminated | steps.truncated)) + 1


def joined(first, rest, length):
    """Return the episode's observations, [length + 1, ...]."""
    return jax.tree.map(
        lambda one, others: jnp.concatenate([one[None], others[:length]]), first, rest
    )


def same_types(env, key):
    """Whether states after reset and step have equal types, including weak types.

    Only then does jit compile a step once.
    """
    state, observation = jax.eval_shape(env.reset, key)
    action = jax.eval_shape(lambda key, seen: random_action(env.spec, key, seen), key, observation)
    after, _ = jax.eval_shape(env.step, key, state, action)
    assert jax.tree.structure(state) == jax.tree.structure(after)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (one.shape, one.dtype, one.weak_type) == (other.shape, other.dtype, other.weak_type)
