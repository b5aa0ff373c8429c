"""What the tests of all faces need: environments to look at, and the core's own episodes to compare with."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.protocol import random_action
from ratiosym.envs.tasks import TASKS, make
from ratiosym.types import Discrete, EnvSpec, Observation, Step
from tests.probes import Counter, Matching, Target

PAXMEN = [name for name, task in TASKS.items() if task.suite == "paxmen"]


@dataclass(frozen=True)
class Leaving:
    """Three agents; agent i acts for i + 1 steps and is out then. The third ends the task at step 3.

    All get a reward of 1 a step, out or not. Each sees the time; action 1 alone is legal once out. The sum of the
    actions is what the critic sees after the time.
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
        """One pixel: the time in red."""
        return np.array([[[state[0], 0, 0]]], np.uint8)

    def _observation(self, state):
        active = jnp.arange(3) >= state[0]
        legal = jnp.stack([active, jnp.ones(3, bool)], axis=1)
        return Observation(jnp.full((3, 1), state[0]), legal, active, state)


def environments(*suites):
    """The tasks of suites, the first of each every day, and probes: both ends, masks, numbers, agents that leave."""
    for suite in suites:
        names = [name for name, task in TASKS.items() if task.suite == suite]
        for name in names:
            marks = () if name == names[0] else pytest.mark.slow
            yield pytest.param(make(name, agent_ids=False), id=name, marks=marks)
    yield pytest.param(Counter(), id="terminating")
    yield pytest.param(Counter(lengths=(4,), truncates=True, num_agents=3), id="truncating")
    yield pytest.param(Matching(), id="masked")
    yield pytest.param(Target(num_agents=3), id="continuous")
    yield pytest.param(Leaving(), id="leaving")


@partial(jax.jit, static_argnums=0)
def play(env, reset_key, step_keys):
    """The core's episode with random legal actions: first observation, actions [T, A], steps [T, ...]."""

    def body(carry, key):
        state, observation = carry
        action = random_action(env.spec, jax.random.fold_in(key, 7), observation)
        state, step = env.step(key, state, action)
        return (state, step.observation), (action, step)

    state, first = env.reset(reset_key)
    _, (actions, steps) = jax.lax.scan(body, (state, first), step_keys)
    return first, actions, steps


def length_of(steps):
    """Steps until the first end."""
    return 1 + int(np.argmax(np.asarray(steps.terminated | steps.truncated)))


def row(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)
