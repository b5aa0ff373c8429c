"""Hand-made states, and compiled functions shared by the tests."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from ratiosym.envs.aerojax.combat import Locks
from ratiosym.envs.aerojax.dynamics import Flight, trim
from ratiosym.envs.aerojax.env import dogfight
from ratiosym.envs.aerojax.state import AeroState

ENV = dogfight(2)
FAR = 7500.0  # m from the axis, visible to nobody


@lru_cache(maxsize=1)
def step_2v2():
    return jax.jit(ENV.step)


@lru_cache(maxsize=1)
def reset_2v2():
    return jax.jit(ENV.reset)


@lru_cache(maxsize=1)
def observe_2v2():
    """Observe a state, with a key for the detections."""

    def observe(state, key):
        draws = jax.random.uniform(key, (ENV._num_draws,))
        return ENV._observation(state, ENV._geometry(state), draws)

    return jax.jit(observe)


@lru_cache(maxsize=1)
def watch_2v2():
    """Observe one state with many keys."""
    return jax.jit(jax.vmap(observe_2v2(), (None, 0)))


def scene(places, courses, banks=None, speed=225.0, skill=0.0):
    """Build a state of trimmed aircraft, ours first.

    ``places`` is [N, 3]; courses are degrees from east; banks are to the right.
    """
    places, courses = np.asarray(places, np.float32), np.radians(np.asarray(courses, np.float32))
    num = len(places)
    banks = (
        np.zeros(num, np.float32) if banks is None else np.radians(np.asarray(banks, np.float32))
    )
    zero, one = np.zeros(num, np.float32), np.ones(num, np.float32)
    vh = np.stack([np.cos(courses), np.sin(courses), zero], -1)
    right = np.stack([np.sin(courses), -np.cos(courses), zero], -1)
    lift = np.cos(banks)[:, None] * np.array([[0, 0, 1.0]]) + np.sin(banks)[:, None] * right
    alpha, throttle = trim(
        ENV.config, ENV.config.airframes[0], jnp.asarray(places[:, 2]), jnp.asarray(one * speed)
    )
    flight = Flight(
        *(jnp.asarray(x, jnp.float32) for x in (places, speed * vh, lift, alpha, throttle))
    )
    n = num // 2
    locks = Locks(jnp.full((2, n), -1, jnp.int32), jnp.zeros((2, n)))
    skills = jnp.full(n, skill, jnp.float32)
    return AeroState(
        flight, jnp.ones(num), jnp.zeros(num, jnp.int32), locks, skills, jnp.zeros((), jnp.int32)
    )


def hands_off(state):
    """Return the action that keeps our aircraft trimmed."""
    n = state.skill.shape[0]
    zero = jnp.zeros(n)
    return jnp.stack([zero, zero, 2 * state.flight.throttle[:n] - 1], -1)


def rows_of(observation, agent):
    """Return the other aircraft in an agent's observation, [rows, 12]."""
    return np.asarray(observation.local[agent, 15:]).reshape(-1, 12)
