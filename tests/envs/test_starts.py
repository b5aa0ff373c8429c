"""Ended environments each take a start from a pool; the others continue."""

import functools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.protocol import random_action
from ratiosym.envs.registry import make
from ratiosym.envs.starts import Starts, begin_where, make_starts, pool_size
from tests.probes import Counter

ENV = Counter(lengths=(3, 5))


def with_ids(state, observation, ids, time=0):
    """Return the same states with other episode ids."""
    return (
        state._replace(time=state.time + time, episode=jnp.array(ids)),
        observation._replace(state=observation.state.at[:, 1].set(jnp.array(ids, jnp.float32))),
    )


@functools.cache
def resets(num_envs):
    return jax.jit(jax.vmap(ENV.reset))(jax.random.split(jax.random.key(9), num_envs))


def episodes(num_envs):
    """Return environments at time 2 with ids from 1000 on, which no start has."""
    return with_ids(*resets(num_envs), np.arange(1000, 1000 + num_envs), time=2)


def numbered(num_starts, num_drawn=0):
    """Return a pool whose starts have the ids 0, 1, 2, ..."""
    return Starts(*with_ids(*resets(num_starts), np.arange(num_starts)), jnp.int32(num_drawn))


def draw(starts, is_end):
    return jax.jit(begin_where)(jnp.array(is_end), starts, *episodes(len(is_end)))


def test_ended_environments_take_the_next_starts_in_order_and_the_others_go_on():
    starts, state, observation = draw(numbered(8), [False, True, True, False, True])
    np.testing.assert_array_equal(state.episode, [1000, 0, 1, 1003, 2])
    np.testing.assert_array_equal(state.time, [2, 0, 0, 2, 0])
    np.testing.assert_array_equal(observation.state[:, 1], [1000, 0, 1, 1003, 2])
    assert starts.num_drawn == 3

    starts, state, _ = draw(
        starts, [True, False, False, False, True]
    )  # continuing from the pool's position
    np.testing.assert_array_equal(state.episode, [3, 1001, 1002, 1003, 4])
    assert starts.num_drawn == 5


def test_nothing_is_drawn_when_nothing_ends():
    before = numbered(8)
    starts, state, observation = draw(before, [False] * 5)
    jax.tree.map(np.testing.assert_array_equal, (state, observation), episodes(5))
    jax.tree.map(np.testing.assert_array_equal, starts, before)


def test_a_dry_pool_is_gone_through_again():
    starts, state, _ = draw(numbered(3, num_drawn=2), [True, True, False, True, True])
    np.testing.assert_array_equal(state.episode, [2, 0, 1002, 1, 2])
    assert starts.num_drawn == 6


def test_every_part_of_a_start_is_taken_together():
    starts = numbered(5)
    _, state, observation = draw(starts, [True] * 5)
    jax.tree.map(
        np.testing.assert_array_equal, (state, observation), (starts.state, starts.observation)
    )


def test_starts_are_resets_of_the_environment_itself():
    key = jax.random.key(3)
    starts = jax.jit(lambda key: make_starts(ENV, key, 5))(key)
    assert isinstance(starts, Starts)
    assert starts.num_drawn == 0
    expected = [jax.jit(ENV.reset)(k) for k in jax.random.split(key, 5)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *expected)
    jax.tree.map(np.testing.assert_array_equal, (starts.state, starts.observation), stacked)


def test_drawn_starts_have_the_environments_own_distribution():
    """Over 100 pools, ids taken at random ends are uniform in 0..999."""

    def one_pool(key):
        starts_key, end_key = jax.random.split(key)
        is_end = jax.random.bernoulli(end_key, 0.4, (64,))
        _, state, _ = begin_where(is_end, make_starts(ENV, starts_key, 64), *episodes(64))
        return state.episode, is_end

    ids, is_end = jax.jit(jax.vmap(one_pool))(jax.random.split(jax.random.key(0), 100))
    drawn = np.asarray(ids)[np.asarray(is_end)]
    assert ((drawn >= 0) & (drawn < 1000)).all()
    counts = np.histogram(drawn, bins=10, range=(0, 1000))[0]
    expected = len(drawn) / 10
    assert (
        np.sum((counts - expected) ** 2 / expected) < 27.9
    )  # chi-squared with 9 degrees of freedom: p = 0.001


@pytest.mark.parametrize(
    ("num_envs", "num_steps", "time_limit", "usual_length", "expected"),
    [
        (4, 8, 8, None, 4),
        (4, 8, 7, None, 8),
        (4, 9, 8, None, 8),
        (4, 8, 8, 2, 16),
        (3, 8, 16, 5, 6),
        (5, 1, 999, 9, 5),
    ],
)
def test_pool_size_is_for_episodes_of_the_usual_length(
    num_envs, num_steps, time_limit, usual_length, expected
):
    spec = replace(ENV.spec, time_limit=time_limit, usual_length=usual_length)
    assert pool_size(spec, num_envs, num_steps) == expected
    # Enough for ends at the time limit: one at once, then one every ``time_limit`` steps.
    assert expected >= num_envs * len(range(0, num_steps, time_limit))


@functools.cache
def connector_play(num_envs=64, num_steps=128, num_starts=None):
    """Play a real task with early ends randomly.

    Returns the pool's size, and the terminal states and what followed them, [ends].
    """
    env = make("connector-5x5x3a", agent_ids=False)
    num_starts = num_starts or pool_size(env.spec, num_envs, num_steps)

    def step(before, key):
        state, observation, starts = before
        keys = jax.random.split(key, num_envs)
        action = jax.vmap(partial(random_action, env.spec))(keys, observation)
        state, outcome = jax.vmap(env.step)(keys, state, action)
        is_end = outcome.terminated | outcome.truncated
        starts, state, observation = begin_where(is_end, starts, state, outcome.observation)
        return (state, observation, starts), (is_end, outcome, state, observation)

    @jax.jit
    def play(key):
        reset_key, starts_key, steps_key = jax.random.split(key, 3)
        state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
        starts = make_starts(env, starts_key, num_starts)
        return jax.lax.scan(
            step, (state, observation, starts), jax.random.split(steps_key, num_steps)
        )[1]

    is_end, *rest = play(jax.random.key(0))
    where = np.nonzero(np.asarray(is_end))
    return env, num_starts, *jax.tree.map(lambda x: x[where], rest)


def num_different(state):
    """Count distinct starts: every reset of this library keeps its own key."""
    return len(np.unique(np.asarray(jax.random.key_data(state.key)), axis=0))


@pytest.mark.slow
def test_no_two_episodes_of_a_real_task_share_a_start_unless_the_pool_ran_dry():
    _, num_starts, outcome, state, _ = connector_play()
    num_ended = len(outcome.terminated)
    assert outcome.terminated.any()
    assert num_ended < num_starts  # random play does not exhaust a pool of this size
    assert num_different(state) == num_ended
    *_, outcome, state, _ = connector_play(num_starts=100)
    assert len(outcome.terminated) > 100
    assert num_different(state) == 100


def test_the_terminal_observation_is_kept():
    _, _, outcome, _, observation = connector_play()
    assert (outcome.terminated != outcome.truncated).all()
    assert not outcome.observation.active[outcome.terminated].any()  # all connected or blocked
    assert outcome.observation.active[outcome.truncated].any(-1).all()
    assert observation.active.any(-1).all()  # followed by the new episode's first
    assert (outcome.observation.state != observation.state).any(-1).all()


def test_starts_of_a_real_task_have_its_own_distribution():
    """The first agent's cell has the same distribution from pools and from plain resets."""
    env, _, _, state, _ = connector_play()
    position = jax.jit(jax.vmap(lambda key: env.reset(key)[0].agents.position[0]))
    one, other = (
        np.bincount(np.asarray(cells) @ [5, 1], minlength=25)
        for cells in (
            state.agents.position[:, 0],
            position(jax.random.split(jax.random.key(1), 4096)),
        )
    )
    # Two samples of different size, chi-squared with 24 degrees of freedom: p = 0.001
    weight = np.sqrt(other.sum() / one.sum())
    assert np.sum((one * weight - other / weight) ** 2 / (one + other)) < 51.2
