"""MPE's adapter matches the library."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jaxmarl import mpe_spread
from tests.envs.adapters.jaxmarl.episodes import library_rollout, rollout


def library_spread(num_agents):
    """Build the library's own class with its defaults."""
    mpe_spread(num_agents)  # loads the module without importing the whole library
    module = sys.modules["jaxmarl.environments.mpe.simple_spread"]
    return module.SimpleSpreadMPE(
        num_agents=num_agents, num_landmarks=num_agents, local_ratio=0.5, action_type="Continuous"
    )


def episode_actions(key, num_agents, num_steps=26):
    return jax.random.uniform(key, (num_steps, num_agents, 5), minval=-1.0, maxval=1.0)


@pytest.mark.parametrize("num_agents", [3, pytest.param(5, marks=pytest.mark.slow), 10])
def test_mpe_episodes_are_the_librarys(num_agents, key):
    library, env = library_spread(num_agents), mpe_spread(num_agents)
    for reset_key in jax.random.split(key, 3):
        actions = episode_actions(jax.random.fold_in(reset_key, 1), num_agents)
        _, local, rewards, ends = library_rollout(library, reset_key, actions)
        first, steps = rollout(env, reset_key, actions)
        close(first.local, local[0])
        close(first.state, local[0].reshape(-1))
        close(steps.observation.local, local[1:])
        close(steps.observation.state, local[1:].reshape(26, -1))
        close(steps.reward, rewards)
        np.testing.assert_array_equal(steps.terminated | steps.truncated, ends)


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_mpe_tanh_actions_reach_twice_as_far_as_the_librarys_box(key):
    env = mpe_spread(3)
    state, _ = env.reset(key)
    right = jnp.tile(jnp.array([[0.0, -1.0, 1.0, 0.0, 0.0]]), (3, 1))
    world = state.world.replace(p_pos=jnp.arange(12.0).reshape(6, 2))  # far apart: no contact
    _, step = env.step(key, state._replace(world=world), right)
    # force 5 (right - left) = 10 for a time of 0.1
    np.testing.assert_allclose(step.observation.local[:, :2], [[1.0, 0.0]] * 3, rtol=1e-6)


def test_mpe_rewards_are_each_agents_own(key):
    env = mpe_spread(3)
    state, _ = env.reset(key)
    agents = jnp.array([[0.0, 0.0], [0.2, 0.0], [5.0, 0.0]])  # the first two collide
    landmarks = jnp.array([[0.0, 1.0], [0.2, 2.0], [5.0, 3.0]])
    world = state.world.replace(p_pos=jnp.concatenate([agents, landmarks]))
    _, step = env.step(
        key, state._replace(world=world), jnp.zeros((3, 5))
    )  # at rest, so nobody moves yet
    np.testing.assert_allclose(step.reward, [-3.5, -3.5, -3.0], rtol=1e-5)


def test_mpe_metrics_count_cover_and_collisions(key):
    env = mpe_spread(3)
    state, _ = env.reset(key)
    agents = jnp.array([[0.0, 0.0], [0.29, 0.0], [5.0, 0.0]])
    landmarks = jnp.array([[0.0, 0.09], [9.0, 0.0], [5.0, 0.11]])
    world = state.world.replace(p_pos=jnp.concatenate([agents, landmarks]))
    state, step = env.step(key, state._replace(world=world), jnp.zeros((3, 5)))
    np.testing.assert_allclose(step.metrics["covered"], 1 / 3, rtol=1e-6)
    assert step.metrics["collisions"] == 1
    state, step = env.step(key, state._replace(world=world), jnp.zeros((3, 5)))
    assert step.metrics["collisions"] == 2  # of the episode so far
    apart = world.replace(p_pos=world.p_pos.at[1].set(jnp.array([0.31, 0.0])))
    _, step = env.step(key, state._replace(world=apart), jnp.zeros((3, 5)))
    assert step.metrics["collisions"] == 2


@pytest.mark.parametrize("num_agents", [3, 10])
def test_mpe_is_truncated_at_exactly_the_limit(num_agents, key):
    env = mpe_spread(num_agents)
    assert env.spec.time_limit == 26
    _, steps = rollout(env, key, episode_actions(key, num_agents))
    np.testing.assert_array_equal(steps.truncated, [False] * 25 + [True])
    assert not steps.terminated.any()


def test_mpe_batches_are_their_rows(key):
    env = mpe_spread(3)
    keys = jax.random.split(key, 4)
    actions = episode_actions(key, 3, num_steps=4 * 26).reshape(4, 26, 3, 5)
    batch = jax.vmap(partial(rollout, env))(keys, actions)
    for row, (row_key, row_actions) in enumerate(zip(keys, actions, strict=True)):
        alone = rollout(env, row_key, row_actions)
        for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(batch), strict=True):
            close(one, other[row])


def test_mpe_is_deterministic_and_each_key_starts_elsewhere(key):
    env = mpe_spread(3)
    actions = episode_actions(key, 3)
    one, same = rollout(env, key, actions), rollout(env, key, actions)
    jax.tree.map(np.testing.assert_array_equal, one, same)
    other = rollout(env, jax.random.key(1), actions)
    assert not np.allclose(one[0].local, other[0].local)


def test_mpe_steps_compile_once(key):
    env = mpe_spread(3)
    num_traces = 0

    def step(key, state, action):
        nonlocal num_traces
        num_traces += 1
        return env.step(key, state, action)

    step = jax.jit(step)
    state, _ = jax.jit(env.reset)(key)
    for action in episode_actions(key, 3)[:4]:
        state, _ = step(key, state, action)
    assert num_traces == 1


def test_one_environment_for_each_size():
    assert mpe_spread(3) is mpe_spread(3)
    assert mpe_spread(3) != mpe_spread(5)


def test_environments_can_be_made_while_tracing(key):
    mpe_spread.cache_clear()
    inside = jax.jit(lambda key: mpe_spread(3).reset(key)[1])(key)
    np.testing.assert_array_equal(inside.local, mpe_spread(3).reset(key)[1].local)
