"""Contents of a rollout: starts, ends, carries, log-probabilities, sums, random numbers."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from ratiosym.learning.model import make_model
from ratiosym.learning.rollout import init_rollout, rollout
from tests.learning.helpers import TINY, Drift, assert_close, assert_equal, differ, random_params
from tests.probes import Counter

SHAPE = dataclasses.replace(TINY, num_envs=10, rollout_length=7)  # 5 environments in a group
MODEL = make_model(SHAPE)
COUNTER = Counter(lengths=(2, 3, 11))


@functools.cache
def programs(env, shape):
    """Return parameters, and functions for the initial state and the rollout of a group."""
    params, model = random_params(env.spec, shape), make_model(shape)
    first = jax.jit(lambda key: init_rollout(env, shape, model, key))
    step = jax.jit(lambda actor, state: rollout(env, shape, model, actor, state))
    return params.actor, first, step


def play(env, shape, num_rollouts, key=0):
    """Play rollouts; return the states around them, and their transitions and sums."""
    actor, first, step = programs(env, shape)
    states, transitions, sums = [first(jax.random.key(key))], [], []
    for _ in range(num_rollouts):
        state, transition, episode_sums = step(actor, states[-1])
        states.append(state)
        transitions.append(transition)
        sums.append(episode_sums)
    return states, transitions, sums


def joined(transitions):
    """Concatenate rollouts in time."""
    return jax.tree.map(lambda *x: np.concatenate(x), *transitions)


def test_starts_follow_ends_within_and_across_rollouts():
    states, transitions, _ = play(COUNTER, SHAPE, 4)
    whole = joined(transitions)
    is_end = whole.terminated | whole.truncated
    assert states[0].is_start.all()
    np.testing.assert_array_equal(whole.is_start[0], states[0].is_start)
    np.testing.assert_array_equal(whole.is_start[1:], is_end[:-1])
    np.testing.assert_array_equal(states[-1].is_start, is_end[-1])
    time = whole.observation.state[..., 0]
    np.testing.assert_array_equal(whole.is_start, time == 0)
    lengths = np.array(COUNTER.lengths)[whole.observation.state[..., 1].astype(int) % 3]
    np.testing.assert_array_equal(is_end, time + 1 == lengths)
    # Episodes must continue across rollouts for this test to be meaningful.
    assert (~whole.is_start[[7, 14, 21]]).any()


def test_last_state_is_the_episodes_own_and_not_the_next_ones():
    states, transitions, _ = play(COUNTER, SHAPE, 3)
    whole = joined(transitions)
    is_end = whole.terminated | whole.truncated
    before, after = whole.observation.state, whole.last_observation.state
    np.testing.assert_array_equal(after[..., 0], before[..., 0] + 1)
    np.testing.assert_array_equal(after[..., 1], before[..., 1])  # the same episode
    following = np.concatenate([before[1:], np.asarray(states[-1].observation.state)[None]])
    np.testing.assert_array_equal(following[~is_end], after[~is_end])
    assert (following[is_end][:, 0] == 0).all()
    assert (following[is_end] != after[is_end]).any(axis=-1).all()
    np.testing.assert_array_equal(whole.reward, np.repeat(after[..., :1], 2, axis=-1))


def test_kinds_of_end_are_kept_apart():
    env = Drift()
    _, transitions, _ = play(env, SHAPE, 3)
    whole = joined(transitions)
    at_limit = np.isclose(
        whole.last_observation.state[..., env.num_agents] * env.time_limit, env.time_limit
    )
    assert whole.terminated.any()
    assert whole.truncated.any()
    np.testing.assert_array_equal(whole.truncated, at_limit & ~whole.terminated)


def test_sums_count_ended_episodes_only_and_whole():
    states, transitions, sums = play(COUNTER, SHAPE, 4)
    for state, transition, episode_sums in zip(states[1:], transitions, sums, strict=True):
        is_end = np.asarray(transition.terminated | transition.truncated)
        lengths = np.asarray(transition.observation.state[..., 0] + 1)[is_end]
        assert episode_sums.num_ended == is_end.sum()
        np.testing.assert_allclose(episode_sums.total_return, np.sum(lengths * (lengths + 1) / 2))
        time = np.asarray(state.observation.state[:, 0])
        np.testing.assert_allclose(
            state.episode_return, time * (time + 1) / 2
        )  # of the current episode
    # Averaged over episodes: in a mean over steps, longer ones would weigh more.
    total, number = sum(s.total_return for s in sums), sum(s.num_ended for s in sums)
    whole = joined(transitions)
    is_end, time = whole.terminated, whole.observation.state[..., 0] + 1
    np.testing.assert_allclose(total / number, np.mean((time * (time + 1) / 2)[is_end]), rtol=1e-6)


def test_returns_are_means_over_agents():
    _, [transition], [sums] = play(Drift(), SHAPE, 1)
    reward = np.asarray(transition.reward)
    assert np.abs(reward[..., 0] - reward[..., 1]).max() > 0.1
    expected, running = 0.0, np.zeros(5)
    for t in range(7):
        running += reward[t].mean(-1)
        is_end = np.asarray(transition.terminated[t] | transition.truncated[t])
        expected += running[is_end].sum()
        running[is_end] = 0.0
    np.testing.assert_allclose(sums.total_return, expected, rtol=1e-5)


@pytest.mark.parametrize("is_continuous", [False, True], ids=["discrete", "continuous"])
def test_stored_log_probs_are_those_of_the_policy_that_acted(is_continuous):
    """test_update does the same for sequences and without memory."""
    env = Drift(is_continuous)
    states, transitions, _ = play(env, SHAPE, 3)
    actor = programs(env, SHAPE)[0]
    act = jax.jit(MODEL.actor)
    for state, transition in zip(
        states, transitions, strict=False
    ):  # the whole rollout from the stored carry
        policy, carries = act(actor, transition.observation, transition.is_start, state.actor_carry)
        log_prob = jax.jit(type(policy).log_prob)(policy, transition.action)
        np.testing.assert_allclose(log_prob, transition.log_prob, atol=1e-5)
    np.testing.assert_allclose(carries[-1], states[-1].actor_carry, atol=1e-6)
    if not is_continuous:
        taken = np.take_along_axis(
            transition.observation.legal, np.asarray(transition.action)[..., None], -1
        )
        assert taken.all()


def test_carry_is_zeroed_exactly_at_starts():
    """A carry depends on the whole current episode, and on nothing before it."""
    states, transitions, _ = play(COUNTER, SHAPE, 4)
    actor, whole = programs(COUNTER, SHAPE)[0], joined(transitions)
    ages, act = set(), jax.jit(MODEL.actor)
    for env in range(5):
        begin = np.flatnonzero(whole.is_start[:, env])[-1]  # where the current episode started
        if states[-1].is_start[env]:
            continue
        carry = np.zeros((1, 2, SHAPE.actor_hidden_size), np.float32)
        for t in range(begin, len(whole.is_start)):
            observation = jax.tree.map(
                lambda x, e=env, t=t: x[t : t + 1, e : e + 1], whole.observation
            )
            carry = act(actor, observation, np.zeros((1, 1), bool), carry)[1][0]
        np.testing.assert_allclose(states[-1].actor_carry[env], carry[0], atol=1e-6)
        ages.add(len(whole.is_start) - begin)
    assert max(ages) > SHAPE.rollout_length  # one started in an earlier rollout
    assert min(ages) < SHAPE.rollout_length


def test_the_same_key_gives_the_same_rollout_and_another_key_another():
    first, again, other = (play(Drift(), SHAPE, 1, key)[1][0] for key in (0, 0, 1))
    assert_equal(first, again)
    assert differ(first.action, other.action)
    assert differ(first.observation, other.observation)


def test_groups_side_by_side_draw_their_own_random_numbers():
    """Each group behaves as if alone with its key, and all differ (Mava's replicas share a key)."""
    env, shape = Drift(), SHAPE
    actor, first, _ = programs(env, shape)
    keys = jax.random.split(jax.random.key(5), 3)
    groups = jax.jit(jax.vmap(first))(keys)
    _, transitions, _ = jax.jit(jax.vmap(lambda s: rollout(env, shape, MODEL, actor, s)))(groups)
    for i in range(3):
        alone = rollout_of(env, shape, keys[i])
        assert_close(jax.tree.map(lambda x, i=i: x[i], transitions), alone, rtol=1e-5, atol=1e-5)
        for j in range(i):
            assert differ(groups.observation.local[i], groups.observation.local[j])
            assert (transitions.action[i] != transitions.action[j]).any()
            assert (transitions.terminated[i] != transitions.terminated[j]).any()


def rollout_of(env, shape, key):
    actor, first, step = programs(env, shape)
    return step(actor, first(key))[1]


def test_environments_and_steps_draw_their_own_random_numbers():
    env = Drift(is_continuous=True)
    [state, _], [transition], _ = play(env, SHAPE, 1)
    actor = programs(env, SHAPE)[0]
    policy, _ = jax.jit(MODEL.actor)(
        actor, transition.observation, transition.is_start, state.actor_carry
    )
    noise = np.asarray((transition.action - policy.mean) / policy.scale)  # samples, [T, E, A, n]
    assert (
        len(np.unique(noise.reshape(-1, noise.shape[-1]).round(3), axis=0))
        == noise.size // noise.shape[-1]
    )


def test_successive_rollouts_draw_new_starts_and_new_actions():
    _, transitions, _ = play(Drift(), SHAPE, 2)
    first, second = transitions
    assert differ(first.action, second.action)
    # The first step's starts were drawn in the rollout before.
    one, two = (
        np.asarray(t.observation.local[1:])[np.asarray(t.is_start[1:])][..., 0] for t in transitions
    )
    assert len(one)
    assert len(two)
    assert not np.isin(one, two).any()
