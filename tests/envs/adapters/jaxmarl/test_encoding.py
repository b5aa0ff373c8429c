"""Encoded observations hold what the library's do."""

import jax
import jax.numpy as jnp
import numpy as np

from ratiosym.envs.adapters.jaxmarl import jaxnav
from ratiosym.envs.adapters.jaxmarl.encoding import OTHER, READING, decode, encode
from ratiosym.envs.registry import make

KEY = jax.random.key(0)


def test_encoding_loses_nothing():
    env = make("jaxnav-8x8x2a-encoded", agent_ids=False)
    plain = jaxnav(8, 2)
    state, observation = jax.jit(env.reset)(KEY)
    same, expected = jax.jit(plain.reset)(KEY)
    np.testing.assert_array_equal(state.map_data, same.map_data)
    assert observation.local.shape == expected.local.shape
    np.testing.assert_allclose(decode(env.world, observation.local), expected.local, atol=1e-5)
    np.testing.assert_array_equal(observation.state, expected.state)  # of the critic


def test_encoded_numbers():
    """A wall at 1 m, full speed, a turn to the left, and a goal 6 m behind."""
    library = jaxnav(8, 2).library
    readings = library.normalise_lidar(jnp.ones((1, 200)))
    local = jnp.concatenate([readings, jnp.array([[0.5, 1.0, 0.5, 1.0, 0.0]])], axis=1)
    encoded = np.asarray(encode(library, local))
    np.testing.assert_allclose(encoded[:, :200], 0, atol=1e-6)
    np.testing.assert_allclose(encoded[0, 200:], OTHER * np.array([1, 1, 1, 0, -1]), atol=1e-6)
    at_once = encode(library, local.at[:, 0].set(-0.5))  # a reading of 0 has no logarithm
    np.testing.assert_allclose(at_once[0, 0], READING * np.log(library.lidar_ranges[1]), rtol=1e-6)


def test_scripts_drive_as_without_encoding():
    plain, encoded = jaxnav(8, 2), jaxnav(8, 2, encoded=True)
    state, observation = jax.jit(plain.reset)(KEY)
    _, other = jax.jit(encoded.reset)(KEY)
    for name in plain.teams:
        expected, _ = plain.teams[name].act(KEY, state, observation, ())
        actions, _ = encoded.teams[name].act(KEY, state, other, ())
        np.testing.assert_allclose(actions, expected, atol=1e-4)


def test_the_task_is_the_same_in_either_form():
    """The same actions in the same levels give the same rewards, ends and metrics, so whoever
    drives the variant drives the paper's task, with the encoding as a first layer.
    """
    plain, encoded = jaxnav(8, 2), jaxnav(8, 2, encoded=True)

    def advance(carry, key):
        (state, observation), (other, _) = carry
        act_key, step_key = jax.random.split(key)
        actions, _ = plain.teams["clear"].act(act_key, state, observation, ())
        state, step = plain.step(step_key, state, actions)
        other, variant = encoded.step(step_key, other, actions)
        return ((state, step.observation), (other, variant.observation)), (step, variant)

    def play(key):
        start = plain.reset(key), encoded.reset(key)
        return jax.lax.scan(advance, start, jax.random.split(key, 500))[1]

    steps, variants = jax.jit(jax.vmap(play))(jax.random.split(KEY, 8))
    for name in ("reward", "terminated", "truncated", "metrics"):
        jax.tree.map(np.testing.assert_array_equal, getattr(steps, name), getattr(variants, name))
    assert np.asarray(steps.metrics["success"]).max() == 1  # somebody arrives
    local = jax.vmap(jax.vmap(lambda x: encode(encoded.world, x)))(steps.observation.local)
    np.testing.assert_allclose(variants.observation.local, local, atol=1e-5)
