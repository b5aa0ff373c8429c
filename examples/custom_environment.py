"""An environment of your own: agents on a ring of cells meet in one of them.

    python examples/custom_environment.py
    ratiosym train examples/custom_environment.py:make_env --preset smoke --out runs/meeting
    ratiosym render runs/meeting

An environment is a frozen dataclass with a ``spec`` and two pure functions, ``reset`` and ``step``.
``draw`` is optional. ``ratiosym.check_env`` plays it and says what is wrong, if anything is.
"""

import tempfile
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ratiosym
from ratiosym import Discrete, EnvSpec, Observation, Step


class MeetingState(NamedTuple):
    """Where everybody is, and how late it is."""

    cells: jax.Array  # int32 [A]
    time: jax.Array  # int32 []


@dataclass(frozen=True)
class Meeting:
    """Agents on a ring of ``num_cells`` cells meet.

    Observation ``[A, num_cells]``: how many others are in each cell, seen from one's own. State
    ``[num_cells]``: how many agents are in each cell. Action: one cell back, stay, one cell on.
    Reward, shared: the largest share of agents in one cell. End: all have met (terminated), or the
    clock (truncated). Metric: ``met``, whether they have.
    """

    num_agents: int = 3
    num_cells: int = 8
    time_limit: int = 20

    @property
    def spec(self) -> EnvSpec:
        """The sizes of everything."""
        return EnvSpec(
            name="meeting",
            num_agents=self.num_agents,
            observation_size=self.num_cells,
            state_size=self.num_cells,
            action=Discrete(3),
            time_limit=self.time_limit,
            metrics=("met",),
        )

    def reset(self, key):
        """Start an episode: everybody anywhere."""
        cells = jax.random.randint(key, (self.num_agents,), 0, self.num_cells)
        state = MeetingState(cells, jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, key, state, action):
        """Everybody moves. Never starts a new episode: the learner does."""
        cells = (state.cells + action - 1) % self.num_cells
        state = MeetingState(cells, state.time + 1)
        share = self._crowd(cells).max() / self.num_agents
        has_met = share == 1.0
        step = Step(
            observation=self._observe(state),
            reward=jnp.full(self.num_agents, share),
            terminated=has_met,
            truncated=~has_met & (state.time >= self.time_limit),
            metrics={"met": has_met.astype(jnp.float32)},
        )
        return state, step

    def draw(self, state):
        """Optional: a picture of a state, uint8 [H, W, 3], one square per cell."""
        crowd = np.asarray(self._crowd(state.cells)) / self.num_agents
        strip = np.uint8(255 * (1 - crowd))[None, :, None]
        return np.repeat(strip.repeat(32, axis=0).repeat(32, axis=1), 3, axis=2)

    def _crowd(self, cells):
        return jnp.zeros(self.num_cells).at[cells].add(1.0)  # [num_cells]

    def _observe(self, state):
        crowd = self._crowd(state.cells)
        around = (state.cells[:, None] + jnp.arange(self.num_cells)[None]) % self.num_cells
        return Observation(
            local=crowd[around].at[:, 0].add(-1.0),  # [A, num_cells], without oneself
            legal=jnp.ones((self.num_agents, 3), bool),
            active=jnp.ones(self.num_agents, bool),
            state=crowd,
        )


def make_env():
    """What a task names: a function without arguments that returns the environment."""
    return Meeting()


if __name__ == "__main__":
    env = make_env()
    ratiosym.check_env(env)
    with tempfile.TemporaryDirectory() as directory:
        (run,) = ratiosym.train(env, preset="smoke", steps=2048, out=f"{directory}/run")
        before, after = run.summary["first_return"], run.summary["final_return"]
        print(f"return {before:.1f} before training, {after:.1f} after")
