"""A custom environment: agents on a ring of cells have to meet in one of them.

    python examples/custom_environment.py
    ratiosym train examples/custom_environment.py:make_env --preset smoke --out runs/meeting
    ratiosym render runs/meeting

An environment is a frozen dataclass with a ``spec`` and two pure functions, ``reset`` and ``step``.
``draw`` is optional. ``ratiosym.check_env`` plays it and reports any violation of the contract.
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
    """Positions of the agents, and the number of steps taken."""

    cells: jax.Array  # int32 [A]
    time: jax.Array  # int32 []


@dataclass(frozen=True)
class Meeting:
    """Agents on a ring of ``num_cells`` cells have to meet.

    - Observation ``[A, num_cells]``: number of others in each cell, relative to the agent's own.
    - State ``[num_cells]``: number of agents in each cell.
    - Action: one cell back, stay, one cell forward.
    - Reward, shared: the largest fraction of agents in one cell.
    - End: all agents have met (terminated), or the time limit (truncated).
    - Metric: ``met``, whether all agents have met.
    """

    num_agents: int = 3
    num_cells: int = 8
    time_limit: int = 20

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
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
        """Start an episode with all agents at random cells."""
        cells = jax.random.randint(key, (self.num_agents,), 0, self.num_cells)
        state = MeetingState(cells, jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, key, state, action):
        """Move all agents. Never resets: the learner starts new episodes."""
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
        """Draw a state (optional): uint8 [H, W, 3], one square per cell."""
        crowd = np.asarray(self._crowd(state.cells)) / self.num_agents
        strip = np.uint8(255 * (1 - crowd))[None, :, None]
        return np.repeat(strip.repeat(32, axis=0).repeat(32, axis=1), 3, axis=2)

    def _crowd(self, cells):
        return jnp.zeros(self.num_cells).at[cells].add(1.0)  # [num_cells]

    def _observe(self, state):
        crowd = self._crowd(state.cells)
        around = (state.cells[:, None] + jnp.arange(self.num_cells)[None]) % self.num_cells
        return Observation(
            local=crowd[around].at[:, 0].add(-1.0),  # [A, num_cells], without the agent itself
            legal=jnp.ones((self.num_agents, 3), bool),
            active=jnp.ones(self.num_agents, bool),
            state=crowd,
        )


def make_env():
    """The function to name as a task: it takes no arguments and returns the environment."""
    return Meeting()


if __name__ == "__main__":
    env = make_env()
    ratiosym.check_env(env)
    with tempfile.TemporaryDirectory() as directory:
        (run,) = ratiosym.train(env, preset="smoke", steps=2048, out=f"{directory}/run")
        before, after = run.summary["first_return"], run.summary["final_return"]
        print(f"return {before:.1f} before training, {after:.1f} after")
