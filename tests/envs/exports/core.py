"""Helpers for the tests of exports: environments, and the core's own episodes for comparison."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.protocol import random_action
from ratiosym.envs.registry import make
from ratiosym.envs.tasks import TASKS
from ratiosym.types import Discrete, EnvSpec, Observation, Step
from tests.probes import Counter, Matching, Target

PAXMEN = [name for name, task in TASKS.items() if task.suite.name == "paxmen"]


@dataclass(frozen=True)
class Leaving:
    """Three agents; agent i acts for i + 1 steps and is out then. The third ends the task at step
    3.

    All get a reward of 1 a step, out or not. Each sees the time; action 1 alone is legal once out.
    The sum of the actions is what the critic sees after the time.
    """

    @property
    def spec(self):
        return EnvSpec("leaving", 3, 1, 2, Discrete(2), time_limit=3)

    def reset(self, key):
        state = jnp.zeros(2)
        return state, self._observation(state)

    def step(self, key, state, action):
        state = jnp.stack([state[0] + 1, jnp.sum(action).astype(jnp.float32)])
        end = state[0] >= 3
        return state, Step(self._observation(state), jnp.ones(3), end, jnp.zeros((), bool), {})

    def draw(self, state):
        """Draw one pixel with the time as red."""
        return np.array([[[state[0], 0, 0]]], np.uint8)

    def _observation(self, state):
        active = jnp.arange(3) >= state[0]
        legal = jnp.stack([active, jnp.ones(3, bool)], axis=1)
        return Observation(jnp.full((3, 1), state[0]), legal, active, state)


def environments(*daily):
    """Return our tasks (slow, unless in ``daily``) and probes of ends, masks, leaving agents."""
    for name, task in TASKS.items():
        if task.suite.name in ("paxmen", "aerojax"):
            marks = () if name in daily else pytest.mark.slow
            yield pytest.param(make(name, agent_ids=False), id=name, marks=marks)
    yield pytest.param(Counter(), id="terminating")
    yield pytest.param(Counter(lengths=(4,), truncates=True, num_agents=3), id="truncating")
    yield pytest.param(Matching(), id="masked")
    yield pytest.param(Target(num_agents=3), id="continuous")
    yield pytest.param(Leaving(), id="leaving")


@partial(jax.jit, static_argnums=0)
def start_of(env, key):
    """Return the core's initial state and observation."""
    return env.reset(key)


@partial(jax.jit, static_argnums=0)
def step_of(env, key, state, observation):
    """Take the core's step with a random legal action; return action, next state and step."""
    action = random_action(env.spec, jax.random.fold_in(key, 7), observation)
    return action, *env.step(key, state, action)


def same(one, other):
    """Assert equality up to the last bits of floats, which may depend on compilation."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(_numbers(a), _numbers(b), rtol=1e-5, atol=1e-6)


def _numbers(leaf):
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)
