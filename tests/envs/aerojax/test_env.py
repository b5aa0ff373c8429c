"""The whole environment: symmetry, rewards against events, determinism, robustness, starts."""

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.aerojax.combat import SHOT, Locks
from ratiosym.envs.aerojax.config import PRESETS, Config
from ratiosym.envs.aerojax.env import METRICS, AeroJax, dogfight
from ratiosym.envs.protocol import check_env
from ratiosym.envs.teams import teams_of
from ratiosym.errors import InputError
from tests.envs.aerojax.scenes import ENV, reset_2v2, step_2v2

NUM, LENGTH = 256, 500


@lru_cache(maxsize=1)
def batch():
    """Compiled once for this file: 256 episodes of 500 steps from given states, with given actions.

    Every third action is replaced by our team's own script at level L4 if ``is_scripted``.
    """

    def run(states, keys, actions, is_scripted):
        def body(state, inputs):
            key, action = inputs
            script = jax.vmap(
                lambda s: ENV.script(s, jnp.zeros((2, 3)), jnp.ones(2), is_ally=True)
            )(state)
            action = jnp.where(is_scripted, script, action)
            state, step = jax.vmap(ENV.step)(key, state, action)
            finite = jnp.stack(
                [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((state.flight, step))]
            ).all()
            return state, (
                state.fate,
                state.flight.position,
                step.reward,
                step.terminated,
                finite,
                state.health,
            )

        return jax.lax.scan(body, states, (keys, actions))

    return jax.jit(run)


@lru_cache(maxsize=1)
def starts():
    keys = jax.random.split(jax.random.key(7), NUM)
    return jax.jit(jax.vmap(ENV.reset))(keys)


def keys_for(seed):
    return jax.random.split(jax.random.key(seed), (LENGTH, NUM))


@pytest.mark.slow
def test_a_million_random_and_bang_bang_aircraft_steps_stay_finite_and_pay_what_happened():
    """Two batches of 512,000 aircraft-steps; the reward is recomputed from the log of fates."""
    states, _ = starts()
    rng = np.random.default_rng(0)
    shape = (LENGTH, NUM, 2, 3)
    for actions in (rng.uniform(-1, 1, shape), rng.choice([-1.0, 1.0], shape)):
        _, (fates, places, rewards, ends, finite, _) = batch()(
            states, keys_for(1), jnp.asarray(actions, jnp.float32), False
        )
        assert np.asarray(finite).all()
        fates, rewards, ends = (np.asarray(x) for x in (fates, rewards, ends))
        before = np.concatenate([np.zeros((1, NUM, 4), int), fates[:-1]])
        dies = (before == 0) & (fates != 0)
        kills = (dies[..., 2:] & (fates[..., 2:] == SHOT)).sum(-1)
        alive = (fates == 0).reshape(LENGTH, NUM, 2, 2).sum(-1)
        is_end = (alive == 0).any(-1) | (np.arange(LENGTH) == LENGTH - 1)[:, None]
        expected = (
            0.5 * kills - 0.25 * dies[..., :2].sum(-1) + (is_end & (alive[..., 0] > alive[..., 1]))
        )
        np.testing.assert_array_equal(ends, is_end)
        np.testing.assert_allclose(rewards, np.stack([expected] * 2, -1), atol=1e-6)
        assert kills.sum() > 0
        inside = np.hypot(*np.moveaxis(np.asarray(places)[fates == 0], -1, 0)[:2]) <= 8000.0
        assert inside.all()


def half_turned_swap(state):
    """Swap the teams by half a turn about the airspace's axis."""

    def swap(leaf):
        return jnp.concatenate([leaf[:, 2:], leaf[:, :2]], axis=1)

    turn = jnp.array([-1.0, -1.0, 1.0])[None, None]
    flight = jax.tree.map(swap, state.flight)
    flight = flight._replace(
        position=flight.position * turn, velocity=flight.velocity * turn, lift=flight.lift * turn
    )
    locks = Locks(state.locks.target[:, ::-1], state.locks.time[:, ::-1])
    return state._replace(
        flight=flight, health=swap(state.health), fate=swap(state.fate), locks=locks
    )


@pytest.mark.slow
def test_swapping_the_teams_swaps_the_fates():
    """L4 has no noise, so the swapped episode is the same from the other side."""
    states, _ = starts()
    states = states._replace(skill=jnp.ones((NUM, 2)))
    nothing = jnp.zeros((LENGTH, NUM, 2, 3))
    _, (fates, places, *_) = batch()(states, keys_for(2), nothing, True)
    _, (swapped, moved, *_) = batch()(half_turned_swap(states), keys_for(2), nothing, True)
    fates, swapped = np.asarray(fates), np.asarray(swapped)[..., [2, 3, 0, 1]]
    places = np.asarray(places)
    moved = np.asarray(moved)[:, :, [2, 3, 0, 1]] * np.array([-1, -1, 1])
    # Combat is chaotic, so rounding errors grow. Half a minute nearly always agrees, the first
    # seconds always.
    np.testing.assert_allclose(places[50], moved[50], atol=1.0)
    assert (fates[150] == swapped[150]).all(axis=-1).mean() > 0.95
    assert (fates[150] != 0).any(axis=-1).mean() > 0.2  # there was something to swap


def test_an_episode_is_a_function_of_its_key(key):
    state, observation = reset_2v2()(key)
    again, same = reset_2v2()(key)
    other, _ = reset_2v2()(jax.random.key(1))
    for one, two in zip(
        jax.tree.leaves((state, observation)), jax.tree.leaves((again, same)), strict=True
    ):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(state.flight.position, other.flight.position)
    action = jnp.full((2, 3), 0.5)
    results = [step_2v2()(k, state, action) for k in (key, key, jax.random.key(1))]
    for one, two in zip(jax.tree.leaves(results[0]), jax.tree.leaves(results[1]), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_step_draws_from_its_key(key):
    """With another key the opponents steer differently, and our own aircraft do not."""
    state, _ = reset_2v2()(key)
    state = state._replace(skill=jnp.full_like(state.skill, 0.25))  # the lower, the more noise
    action = jnp.zeros((2, 3))
    one, again, other = (step_2v2()(jax.random.key(k), state, action)[0] for k in (1, 1, 2))
    flown = [
        jax.tree.map(np.asarray, jax.tree.leaves(after.flight)) for after in (one, again, other)
    ]
    for leaf, same, another in zip(*flown, strict=True):
        np.testing.assert_array_equal(leaf, same)
        np.testing.assert_array_equal(leaf[:2], another[:2])
    assert not all(
        np.array_equal(leaf[2:], x[2:]) for leaf, x in zip(flown[0], flown[2], strict=True)
    )


def test_a_batch_is_a_loop(key):
    """256 environments in a batch take the same step as each one alone."""
    states, _ = starts()
    action = jax.random.uniform(key, (LENGTH, NUM, 2, 3), minval=-1.0)
    keys = keys_for(3)
    _, (fates, places, *_, health) = batch()(states, keys, action, False)
    for index in (0, 100, 255):
        state = jax.tree.map(lambda leaf, index=index: leaf[index], states)
        for step in range(3):
            state, _ = step_2v2()(keys[step, index], state, action[step, index])
            np.testing.assert_allclose(
                state.flight.position, places[step, index], rtol=1e-5, atol=0.01
            )
            np.testing.assert_array_equal(state.fate, fates[step, index])
            np.testing.assert_allclose(state.health, health[step, index], atol=1e-5)


def test_starts_are_the_stated_mixture():
    """Half the starts are head-on and 6 km apart, a quarter each with one team behind."""
    states, _ = starts()
    places, velocities = np.asarray(states.flight.position), np.asarray(states.flight.velocity)
    ours, theirs = places[:, :2].mean(1), places[:, 2:].mean(1)
    gap = np.linalg.norm((theirs - ours)[:, :2], axis=1)
    course = velocities / np.linalg.norm(velocities, axis=-1, keepdims=True)
    same_way = (course[:, 0] * course[:, 2]).sum(-1)
    is_neutral = same_way < -0.9
    assert ((same_way > 0.9) | is_neutral).all()
    assert abs(is_neutral.mean() - 0.5) < 0.12
    assert (np.abs(gap[is_neutral] - 6000) < 250).all()
    assert ((gap[~is_neutral] > 600) & (gap[~is_neutral] < 2200)).all()
    ahead = ((theirs - ours) * course[:, 0]).sum(-1) > 0
    assert abs(ahead[~is_neutral].mean() - 0.5) < 0.15
    assert (ahead[is_neutral]).all()  # head-on, they face each other
    assert ((places[..., 2] >= 4000) & (places[..., 2] <= 6000)).all()
    speed = np.linalg.norm(velocities, axis=-1)
    assert ((speed >= 199.9) & (speed <= 250.1)).all()
    yaw = np.arctan2(course[:, 0, 1], course[:, 0, 0])
    assert np.histogram(yaw, bins=4, range=(-np.pi, np.pi))[0].min() > 35
    skill = np.asarray(states.skill)
    assert ((skill >= 0.25) & (skill <= 0.75)).all()
    assert np.ptp(skill) > 0.4


def test_sizes_and_names():
    for size, local, state in ((2, 51, 79), (4, 99, 155), (8, 195, 307)):
        spec = dogfight(size).spec
        assert (spec.observation_size, spec.state_size, spec.metrics) == (local, state, METRICS)
    assert dogfight(4).config.radius == 9000.0
    assert dogfight(2) == dogfight(2)
    assert hash(dogfight(2)) == hash(dogfight(2))
    assert dogfight(2, "L4").config.skill == (1.0, 1.0)
    assert dogfight(2, "L4").spec.name == "aerojax-2v2-l4"
    assert set(PRESETS) == {"easy", "default", "hard"}
    assert PRESETS["default"] == Config()
    assert set(teams_of(ENV)) == {"random", "straight", "L1", "L2", "L3", "L4"}


def test_wrong_input_is_named():
    with pytest.raises(InputError, match=r"'L9'.*straight, L1"):
        ENV.against("L9")
    with pytest.raises(InputError, match=r"expected 2 of: fighter, heavy, interceptor"):
        AeroJax(2, allies=("fighter",))
    with pytest.raises(InputError, match="bomber"):
        AeroJax(1, opponents=("bomber",))
    with pytest.raises(InputError, match="at least 1"):
        AeroJax(0)


@pytest.mark.slow
def test_mixed_types_and_presets_keep_the_contract(key):
    mixed = AeroJax(2, PRESETS["easy"], ("fighter", "heavy"), ("interceptor", "heavy"))
    check_env(replace(mixed, config=replace(mixed.config, time_limit=60)), key, 70)
    _, observation = mixed.reset(key)
    np.testing.assert_array_equal(observation.local[:, 11], [0.0, 0.5])
    check_env(AeroJax(1, replace(PRESETS["hard"], time_limit=60)), key, 70)


@pytest.mark.slow
def test_memory_grows_with_the_number_of_environments_and_no_faster():
    """256 environments need at most slightly more than four times the memory of 64."""

    def num_bytes(num_envs):
        def step(keys, state, action):
            return jax.vmap(ENV.step)(keys, state, action)

        keys = jax.random.split(jax.random.key(0), num_envs)
        state = jax.eval_shape(jax.vmap(ENV.reset), keys)[0]
        action = jax.ShapeDtypeStruct((num_envs, 2, 3), jnp.float32)
        needs = jax.jit(step).lower(keys, state, action).compile().memory_analysis()
        return needs.temp_size_in_bytes + needs.argument_size_in_bytes + needs.output_size_in_bytes

    small, large = num_bytes(64), num_bytes(256)
    assert 3 * small < large < 4.2 * small
