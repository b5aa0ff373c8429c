"""The adapters give what the library gives, as arrays, and keep its noise away."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.jaxmarl import mpe_spread


def library_spread(num_agents):
    """The library's own class, built here from its own defaults."""
    mpe_spread(num_agents)  # puts the module in place without the library's import of everything
    module = sys.modules["jaxmarl.environments.mpe.simple_spread"]
    return module.SimpleSpreadMPE(
        num_agents=num_agents, num_landmarks=num_agents, local_ratio=0.5, action_type="Continuous"
    )


def library_rollout(library, key, actions):
    """The library's episode by ``step_env``: observations [T + 1, A, F], rewards [T, A], ends [T]."""

    def stack(values):
        return jnp.stack([values[agent] for agent in library.agents])

    def body(world, inputs):
        key, action = inputs
        by_name = {agent: action[index] for index, agent in enumerate(library.agents)}
        observations, world, rewards, dones, _ = library.step_env(key, world, by_name)
        return world, (stack(observations), stack(rewards), dones["__all__"])

    with jax.numpy_rank_promotion("allow"):
        first, world = library.reset(key)
        keys = jax.random.split(key, len(actions))
        _, (observations, rewards, ends) = jax.lax.scan(body, world, (keys, actions))
    return jnp.concatenate([stack(first)[None], observations]), rewards, ends


@partial(jax.jit, static_argnums=0)
def rollout(env, key, actions):
    """Our episode with the same keys: the first observation and the steps, [T, ...]."""
    state, observation = env.reset(key)

    def body(state, inputs):
        return env.step(inputs[0], state, inputs[1])

    _, steps = jax.lax.scan(body, state, (jax.random.split(key, len(actions)), actions))
    return observation, steps


def episode_actions(key, num_agents, num_steps=26):
    return jax.random.uniform(key, (num_steps, num_agents, 5), minval=-1.0, maxval=1.0)


@pytest.mark.parametrize("num_agents", [3, pytest.param(5, marks=pytest.mark.slow), 10])
def test_mpe_episodes_are_the_librarys(num_agents, key):
    library, env = library_spread(num_agents), mpe_spread(num_agents)
    theirs = jax.jit(partial(library_rollout, library))
    for reset_key in jax.random.split(key, 3):
        actions = episode_actions(jax.random.fold_in(reset_key, 1), num_agents)
        local, rewards, ends = theirs(reset_key, actions)
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
    _, step = env.step(key, state._replace(world=world), jnp.zeros((3, 5)))  # moves nobody yet, at rest
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
    assert step.metrics["collisions"] == 2  # the episode's, so far
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


def test_a_missing_library_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxmarl", None)  # as if not installed
    mpe_spread.cache_clear()
    with pytest.raises(ImportError) as error:
        mpe_spread(3)
    assert str(error.value) == (
        "Task 'mpe-spread-3ag' needs the library jaxmarl. Install it with: pip install 'ratiosym[jaxmarl]'"
    )


QUIET = """
import sys
from ratiosym.envs import tasks
assert not any(name.split(".")[0] in ("jaxmarl", "flax", "gymnax") for name in sys.modules), "not lazy"
import jax
env = tasks.make("mpe-spread-3ag")
state, _ = env.reset(jax.random.key(0))
env.step(jax.random.key(1), state, jax.numpy.zeros((3, 5)))
assert "jaxmarl" not in sys.modules and "matplotlib" not in sys.modules, "not alone"
"""

BESIDE = """
from ratiosym.envs.jaxmarl import mpe_spread
env = mpe_spread(3)
import jaxmarl
theirs = jaxmarl.make("MPE_simple_spread_v3", action_type="Continuous")
assert type(theirs) is type(env.library), "two copies of one class"
mpe_spread.cache_clear()
assert type(mpe_spread(3).library) is type(theirs), "two copies of one class, loaded after"
"""


def run(program):
    return subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True)


def test_nothing_is_imported_early_and_nothing_printed():
    result = run(QUIET)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_users_can_import_the_library_themselves():
    result = run(BESIDE)
    assert result.returncode == 0, result.stderr
