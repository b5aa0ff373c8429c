"""Whole episodes: returns, lengths and metrics, without anything after the end."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ratiosym.learning.evaluate import record_episode, run_episodes
from ratiosym.learning.model import make_model
from ratiosym.learning.policy import Policy
from tests.learning.helpers import TINY, assert_equal, random_params
from tests.probes import Counter, Target


@dataclass(frozen=True)
class Haunted(Counter):
    """A Counter whose rewards and metrics are NaN after the end of an episode."""

    lengths: tuple[int, ...] = (1, 3, 6)

    def step(self, key, state, action):
        length = jnp.array(self.lengths)[state.episode % len(self.lengths)]
        is_after = state.time >= length
        state, step = super().step(key, state, action)
        haunt = lambda x: jnp.where(is_after, jnp.nan, x)  # noqa: E731
        return state, step._replace(
            reward=haunt(step.reward), metrics=jax.tree.map(haunt, step.metrics)
        )


MODEL = make_model(TINY)


def policy_of(env):
    return Policy(MODEL, random_params(env.spec, TINY).actor, env.spec)


def play(env, keys, is_greedy=False):
    team = policy_of(env).team(is_greedy)
    return jax.jit(lambda keys: run_episodes(env, team, keys))(keys)


def test_returns_lengths_and_metrics_are_of_the_episode_and_not_of_what_comes_after():
    env, keys = Haunted(), jax.random.split(jax.random.key(0), 20)
    episodes = play(env, keys)
    ids = np.asarray(episodes.metrics["episode"]).astype(int)
    lengths = np.array(env.lengths)[ids % 3]
    assert set(lengths) == {1, 3, 6}
    np.testing.assert_array_equal(episodes.lengths, lengths)
    np.testing.assert_array_equal(episodes.metrics["time"], lengths)  # at the last step
    np.testing.assert_array_equal(episodes.returns, lengths * (lengths + 1) / 2)
    assert len(np.unique(ids)) > 15  # different in each episode


def test_an_episode_does_not_depend_on_its_neighbours():
    keys = jax.random.split(jax.random.key(0), 20)
    alone, others = play(Haunted(), keys[::5]), play(Haunted(), keys)
    assert_equal(alone, jax.tree.map(lambda x: x[::5], others))


def test_a_recorded_episode_is_the_one_that_is_counted():
    env, keys = Haunted(), jax.random.split(jax.random.key(0), 4)
    episodes = play(env, keys)
    team = policy_of(env).team()
    for i in range(4):
        moments = record_episode(env, team, keys[i])
        assert len(moments) == episodes.lengths[i] + 1  # including the start
        assert [bool(m.is_over) for m in moments] == [False] * (len(moments) - 1) + [True]
        assert_equal(moments[-1].so_far, jax.tree.map(lambda x, i=i: x[i], episodes))


def test_greedy_takes_the_likeliest_action_and_sampling_does_not():
    env, keys = Target(), jax.random.split(jax.random.key(0), 6)
    greedy, sampled = play(env, keys, is_greedy=True), play(env, keys)
    target, observation = jax.vmap(lambda k: env.reset(jax.random.fold_in(k, 0)))(keys)
    actor = random_params(env.spec, TINY).actor
    sequence = jax.tree.map(lambda x: x[None], observation)
    policy, _ = MODEL.actor(actor, sequence, jnp.ones((1, 6), bool), jnp.zeros((6, 2, 8)))
    expected = -np.square(np.tanh(policy.mean[0, ..., 0]) - target).mean(-1)
    np.testing.assert_allclose(greedy.returns, expected, rtol=1e-5)
    assert np.abs(greedy.returns - sampled.returns).min() > 1e-4
