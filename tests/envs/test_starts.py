"""Ended environments draw their starts from a pool, each its own; the others go on."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.starts import Starts, begin_where, make_starts, pool_size
from tests.probes import Counter

ENV = Counter(lengths=(3, 5))


def with_ids(state, observation, ids, time=0):
    """The same moments with other episode ids."""
    return (
        state._replace(time=state.time + time, episode=jnp.array(ids)),
        observation._replace(state=observation.state.at[:, 1].set(jnp.array(ids, jnp.float32))),
    )


@functools.cache
def resets(num_envs):
    return jax.jit(jax.vmap(ENV.reset))(jax.random.split(jax.random.key(9), num_envs))


def episodes(num_envs):
    """Environments with ids from 1000 on, which no start has, at time 2."""
    return with_ids(*resets(num_envs), np.arange(1000, 1000 + num_envs), time=2)


def numbered(num_starts, num_drawn=0):
    """A pool whose starts have the ids 0, 1, 2 ..."""
    return Starts(*with_ids(*resets(num_starts), np.arange(num_starts)), jnp.int32(num_drawn))


def draw(starts, is_end):
    return jax.jit(begin_where)(jnp.array(is_end), starts, *episodes(len(is_end)))


def test_ended_environments_take_the_next_starts_in_order_and_the_others_go_on():
    starts, state, observation = draw(numbered(8), [False, True, True, False, True])
    np.testing.assert_array_equal(state.episode, [1000, 0, 1, 1003, 2])
    np.testing.assert_array_equal(state.time, [2, 0, 0, 2, 0])
    np.testing.assert_array_equal(observation.state[:, 1], [1000, 0, 1, 1003, 2])
    assert starts.num_drawn == 3

    starts, state, _ = draw(starts, [True, False, False, False, True])  # on from where the pool stands
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
    jax.tree.map(np.testing.assert_array_equal, (state, observation), (starts.state, starts.observation))


def test_starts_are_resets_of_the_environment_itself():
    key = jax.random.key(3)
    starts = jax.jit(lambda key: make_starts(ENV, key, 5))(key)
    assert isinstance(starts, Starts)
    assert starts.num_drawn == 0
    expected = [jax.jit(ENV.reset)(k) for k in jax.random.split(key, 5)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *expected)
    jax.tree.map(np.testing.assert_array_equal, (starts.state, starts.observation), stacked)


def test_drawn_starts_have_the_environments_own_distribution():
    """Ids are uniform in 0..999: over 100 pools the ids drawn by random ends cover the range evenly."""

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
    assert np.sum((counts - expected) ** 2 / expected) < 27.9  # chi-squared with 9 degrees of freedom: p = 0.001


@pytest.mark.parametrize(
    ("num_envs", "num_steps", "time_limit", "expected"),
    [(4, 8, 8, 4), (4, 8, 7, 8), (4, 8, 9, 4), (4, 8, 1, 32), (3, 8, 3, 9), (5, 1, 1_000_000, 5)],
)
def test_pool_size_is_enough_for_all_ends_by_the_clock(num_envs, num_steps, time_limit, expected):
    assert pool_size(num_envs, num_steps, time_limit) == expected
    # The most ends an environment can have: one at once, then one in every ``time_limit`` steps.
    assert expected == num_envs * len(range(0, num_steps, time_limit))
