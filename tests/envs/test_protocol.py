"""check_env accepts valid environments and names violations; the probes behave as documented."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.protocol import check_env, check_structure
from ratiosym.types import Continuous, Observation
from tests.probes import Broken, ConstantReward, Counter, Matching, Recall, Target
from tests.typechecking import unchecked

PROBES = [
    ConstantReward(),
    ConstantReward(num_agents=3),
    Recall(),
    Matching(),
    Target(),
    Counter(),
    Counter(lengths=(4,), truncates=True, num_agents=1),
    Broken(num_good=20),
]


@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_probes_keep_the_contract(probe, key):
    check_env(probe, key, num_steps=20)


@dataclass(frozen=True)
class Altered:
    """Counter whose results are changed by functions that break the contract."""

    spec: Any = Counter().spec
    on_reset: Any = None  # of (state, observation)
    on_step: Any = None  # of (state, step)

    def reset(self, key):
        result = Counter().reset(key)
        return self.on_reset(*result) if self.on_reset else result

    def step(self, key, state, action):
        result = Counter().step(key, state, action)
        return self.on_step(*result) if self.on_step else result


def change_start(**changes):
    """Make an environment with a wrong first observation, changed field by field."""

    def on_reset(state, observation):
        return state, observation._replace(
            **{k: f(getattr(observation, k)) for k, f in changes.items()}
        )

    return Altered(on_reset=on_reset)


def change_step(**changes):
    """Make an environment with wrong steps, changed by functions of the whole step."""
    return Altered(
        on_step=lambda state, step: (
            state,
            step._replace(**{k: f(step) for k, f in changes.items()}),
        )
    )


def change_step_observation(**changes):
    return change_step(
        observation=lambda step: step.observation._replace(
            **{k: f(step.observation) for k, f in changes.items()}
        )
    )


def change_spec(**changes):
    with unchecked():
        return Altered(spec=replace(Counter().spec, **changes))


def half(x):
    return x.astype(jnp.float16)


def at_time_2(step, value, other):
    return jnp.where(step.metrics["time"] == 2, value, other)


DRAW = itertools.count()  # randomness that does not come from the key

WRONG = {
    "no agents": (
        change_spec(num_agents=0),
        r"spec.num_agents is 0, expected an int of at least 1",
    ),
    "float limit": (change_spec(time_limit=5.0), r"spec.time_limit is 5.0, expected an int"),
    "float size": (
        change_spec(action=Continuous(0)),
        r"spec.action is 0, expected an int of at least 1",
    ),
    "bare action": (
        change_spec(action=2),
        r"spec.action is 2, expected Discrete\(num_actions\) or Continuous\(size\)",
    ),
    "metrics twice": (
        change_spec(metrics=("time", "time")),
        r"spec.metrics is .* different strings",
    ),
    "dict spec": (Altered(spec={}), r"spec is of type dict, expected EnvSpec"),
    "observation size": (
        change_spec(observation_size=4),
        r"reset: observation.local is float32\[2, 3\], expected float32\[2, 4\]",
    ),
    "state size": (
        change_spec(state_size=9),
        r"observation.state is float32\[2\], expected float32\[9\]",
    ),
    "agents": (
        change_spec(num_agents=3),
        r"observation.local is float32\[2, 3\], expected float32\[3, 3\]",
    ),
    "continuous": (
        change_spec(action=Continuous(1)),
        r"observation.legal is bool\[2, 2\], expected bool\[2, 0\]",
    ),
    "metric names": (
        change_spec(metrics=("won",)),
        r"metrics are \['episode', 'time'\], expected \['won'\]",
    ),
    "start dtype": (change_start(local=half), r"reset: observation.local is float16"),
    "start legal": (
        change_start(legal=half),
        r"reset: observation.legal is float16\[2, 2\], expected bool",
    ),
    "start active": (
        change_start(active=lambda x: x[:1]),
        r"observation.active is bool\[1\], expected bool\[2\]",
    ),
    "start finite": (
        change_start(local=lambda x: x / 0),
        r"reset before step 0: observation.local is .*inf",
    ),
    "no choice": (change_start(legal=jnp.zeros_like), r"agents \[0, 1\] have no legal action"),
    "swapped": (
        Altered(on_reset=lambda state, observation: (observation, state)),
        r"reset: observation is of type CounterState, expected Observation",
    ),
    "no state": (
        Altered(on_reset=lambda state, observation: observation),
        r"reset: returned a Observation of 4, expected \(state, Observation\)",
    ),
    "tuple of five": (
        Altered(on_step=lambda state, step: tuple(step)),
        r"step: returned a tuple of 5, expected \(state, Step\)",
    ),
    "bare tuple": (
        Altered(on_step=lambda state, step: (state, tuple(step))),
        r"step: its second result is of type tuple, expected Step",
    ),
    "bare observation": (
        change_step(observation=lambda step: step.observation.local),
        r"step: step.observation is of type ShapeDtypeStruct, expected Observation",
    ),
    "state dtype": (
        Altered(on_step=lambda state, step: (state._replace(time=state.time * 1.0), step)),
        r"step: state.time is float32\[\], expected int32\[\]",
    ),
    "state structure": (
        Altered(on_step=lambda state, step: (tuple(state), step)),
        r"step: state has the structure",
    ),
    "reward shape": (
        change_step(reward=lambda step: step.reward[0]),
        r"step.reward is float32\[\], expected",
    ),
    "reward dtype": (
        change_step(reward=lambda step: step.reward.astype(jnp.int32)),
        r"step.reward is int32\[2\], expected float32\[2\]",
    ),
    "reward finite": (
        change_step(reward=lambda step: at_time_2(step, jnp.nan, step.reward)),
        r"step 1 \(number 2 of its episode\): reward is \[nan nan\], expected finite",
    ),
    "terminated dtype": (
        change_step(terminated=lambda step: step.terminated * 1.0),
        r"step.terminated is float32\[\], expected bool\[\]",
    ),
    "truncated per agent": (
        change_step(truncated=lambda step: jnp.full(2, step.truncated)),
        r"step.truncated is bool\[2\], expected bool\[\]",
    ),
    "both ends": (
        change_step(truncated=lambda step: step.terminated),
        r"terminated and truncated are both true, expected at most one",
    ),
    "no end": (
        change_step(terminated=lambda step: jnp.array(False)),
        r"step 4 \(number 5 .*: the episode continues, expected an end: spec.time_limit is 5",
    ),
    "metrics list": (change_step(metrics=lambda step: [1.0]), r"metrics are of type list"),
    "metric dtype": (
        change_step(metrics=lambda step: {k: v > 0 for k, v in step.metrics.items()}),
        r"step: step.metrics\['episode'\] is bool\[\], expected float32\[\]",
    ),
    "metric finite": (
        change_step(metrics=lambda step: step.metrics | {"time": at_time_2(step, jnp.inf, 0.0)}),
        r"metrics\['time'\] is inf, expected finite",
    ),
    "no choice later": (
        change_step_observation(legal=lambda o: o.legal.at[1].set(o.local[0, 0] < 2)),
        r"step 1 \(number 2 of its episode\): agents \[1\] have no legal action",
    ),
    "state not finite": (
        change_step_observation(state=lambda o: o.state / 0),
        r"step 0 \(number 1 of its episode\): observation.state is \[.*\], expected finite",
    ),
    "other randomness": (
        change_step(reward=lambda step: step.reward + next(DRAW)),
        r"step: result\[1\].reward is .* and then .* for the same key and arguments",
    ),
    "other randomness at the start": (
        change_start(state=lambda x: x + next(DRAW)),
        r"reset: result\[1\].state is .* and then .* for the same key",
    ),
    "a class": (Altered, r"the class Altered; return an instance of it, as in Altered\(\)"),
    "no methods": (7, r"of type int and has no `spec`. It needs a property `spec`"),
    "no name": (change_spec(name=None), r"spec.name is None, expected a name"),
    "python branch": (
        change_step(reward=lambda step: step.reward if step.terminated else -step.reward),
        r"step: cannot be traced by JAX",
    ),
}


@pytest.mark.unchecked
@pytest.mark.parametrize("name", WRONG)
def test_wrong_environments_are_named(name, key):
    env, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        check_env(env, key, num_steps=5)


def test_the_environment_that_is_altered_is_right_unaltered(key):
    check_env(Altered(), key, num_steps=10)


def test_unhashable_environments_are_named(key):
    class Mutable(Altered):
        __hash__ = None

    with pytest.raises(ValueError, match=r"not hashable .* frozen dataclass"):
        check_env(Mutable(), key, num_steps=1)


def test_no_steps_check_nothing(key):
    with pytest.raises(ValueError, match="`num_steps` is 0; it must be at least 1"):
        check_env(Counter(), key, num_steps=0)


REMEDIES = {
    "observation size": r"by the sizes in `spec`. Change one or the other",
    "start dtype": r"Convert it with .astype\(jnp.float32\)",
    "state dtype": r"as before the step. Its shapes and dtypes must not change",
    "no choice": r"no longer active needs one too, such as doing nothing",
    "both ends": r"truncated = is_late & ~terminated",
    "no end": r"set `truncated` at the limit, or raise the limit",
    "other randomness": r"Draw all randomness from the key",
    "python branch": r"use jnp.where or jax.lax.cond instead of Python's if",
}


@pytest.mark.unchecked
@pytest.mark.parametrize("name", REMEDIES)
def test_messages_say_what_to_do(name):
    with pytest.raises(ValueError, match=REMEDIES[name]):
        check_env(WRONG[name][0])


def test_structure_is_checked_without_playing():
    check_structure(change_step(reward=lambda step: step.reward / 0))
    with pytest.raises(ValueError, match=r"step.reward is float32\[\], expected float32\[2\]"):
        check_structure(change_step(reward=lambda step: step.reward[0]))


@dataclass(frozen=True)
class Drawn(Counter):
    dtype: str = "uint8"

    def draw(self, state):
        return np.zeros((4, 5, 3), self.dtype)


def test_pictures_are_part_of_the_contract():
    check_env(Drawn())
    with pytest.raises(ValueError, match=r"the picture is float32\[4, 5, 3\], expected uint8"):
        check_env(Drawn(dtype="float32"))


def test_broken_breaks_when_it_says(key):
    with pytest.raises(ValueError, match=r"step 20 .*: reward is \[nan nan\]"):
        check_env(Broken(num_good=20), key, num_steps=21)


def test_constant_reward_is_one(key):
    _, rewards, _ = play(ConstantReward(), key, lambda observation: jnp.array([0]))
    np.testing.assert_array_equal(rewards, [[1.0]])


def test_recall_pays_memory_and_shows_the_bit_once(key):
    env = Recall(num_blank=3, num_agents=8)
    bits = env.reset(key)[0].bit
    assert 0 < bits.sum() < 8
    observations, rewards, _ = play(env, key, lambda observation: bits)
    np.testing.assert_array_equal(rewards, [[0] * 8] * 3 + [[1] * 8])
    np.testing.assert_array_equal(observations.local[0, :, 0], 2 * bits - 1)
    np.testing.assert_array_equal(observations.local[1:], 0)
    _, rewards, _ = play(env, key, lambda observation: 1 - bits)
    np.testing.assert_array_equal(rewards, 0)


def test_matching_pays_both_right_and_punishes_the_illegal(key):
    env = Matching()
    for seed in range(4):
        state, observation = env.reset(jax.random.key(seed))
        right = 1 + (observation.local[0, 0] > 0).astype(jnp.int32)
        rewards = {}
        for pair in itertools.product(range(3), repeat=2):
            rewards[pair] = float(env.step(key, state, jnp.array(pair))[1].reward.mean())
        assert rewards.pop((int(right), int(right))) == 1
        assert all(reward == (-1 if 0 in pair else 0) for pair, reward in rewards.items())
        np.testing.assert_array_equal(observation.legal, [[False, True, True]] * 2)


def test_target_pays_nearness(key):
    env = Target()
    _, rewards, _ = play(env, key, lambda observation: observation.local)
    np.testing.assert_array_equal(rewards, 0)
    keys = jax.random.split(key, 4000)
    states, _ = jax.vmap(env.reset)(keys)
    assert jnp.abs(states).max() < 0.8
    _, steps = jax.vmap(env.step)(keys, states, jnp.zeros((4000, 2, 1)))
    np.testing.assert_allclose(steps.reward.mean(), -0.64 / 3, atol=0.01)


@pytest.mark.parametrize("truncates", [False, True])
def test_counter_counts(truncates, key):
    env = Counter(lengths=(2, 4), truncates=truncates)
    seen = set()
    for seed in range(6):
        key = jax.random.key(seed)
        observations, rewards, last = play(env, key, lambda observation: jnp.zeros(2, jnp.int32))
        episode = int(observations.state[0, 1])
        length = (2, 4)[episode % 2]
        seen.add(length)
        np.testing.assert_array_equal(observations.local[:, 1, 0], np.arange(length))
        np.testing.assert_array_equal(observations.local[:, 0, 1], episode)
        np.testing.assert_array_equal(observations.local[0, :, 2], [0, 1])
        assert rewards.mean(axis=1).sum() == length * (length + 1) / 2
        assert (bool(last.terminated), bool(last.truncated)) == (not truncates, truncates)
        assert last.observation.state[0] == last.metrics["time"] == length
        assert last.metrics["episode"] == episode
    assert seen == {2, 4}


def play(env, key, policy):
    """Play an episode; return observations, rewards and the last step."""
    state, observation = env.reset(key)
    observations, rewards, is_over = [], [], False
    while not is_over:
        observations.append(observation)
        state, step = env.step(key, state, policy(observation))
        observation, is_over = step.observation, step.terminated | step.truncated
        rewards.append(step.reward)
    return Observation(*map(np.stack, zip(*observations, strict=True))), np.stack(rewards), step
