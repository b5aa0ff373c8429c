"""Connector: agents join pairs of points by paths that may not cross."""

from dataclasses import dataclass
from functools import cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ratiosym.envs.adapters.jumanji.boards import Board, generate, move
from ratiosym.envs.adapters.jumanji.library import check_library, draw, hidden_notebook
from ratiosym.envs.protocol import Action
from ratiosym.types import Discrete, EnvSpec, Key, Observation, Step

VIEW = 2  # cells that an agent sees in each direction
OFF_BOARD = -1  # in addition to the codes of cells (boards.py)


@cache
def connector(size: int, num_agents: int) -> "Connector":
    """Make a ``size`` x ``size`` board with ``num_agents`` pairs and ``size`` squared steps."""
    name = f"connector-{size}x{size}x{num_agents}a"
    check_library(name)
    return Connector(name, size, num_agents)


@dataclass(frozen=True)
class Connector:
    """Agents on a square board of side ``s`` walk to their targets, leaving uncrossable paths.

    - Observation ``[A, 54]``: own position and own target, row and column, over s^2 (the target is
      (0, 0) once connected); the 5 x 5 cells around the agent, row by row: agents (itself included)
      +1, paths -1, free 0; the same cells again: own target +1, others' targets -1, else 0. Cells
      off the board are +1 in both.
    - State ``[54 A]``: all observations.
    - Action ``[A]``: stay, up, right, down, left; only into free cells and the agent's own target.
      If two agents enter the same cell, the one with the higher number moves and the other stays.
      Connected and blocked agents can only stay, and are inactive.
    - Reward, shared: the sum over agents of +1 on the step it connects, and -0.03 on every step
      that it starts unconnected.
    - End: every agent is connected or blocked. Time limit s^2.
    - Metrics: ``connected``, the fraction of agents at their targets.
    """

    name: str
    size: int
    num_agents: int

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        num_agents = self.num_agents
        observation_size = 4 + 2 * (2 * VIEW + 1) ** 2
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=observation_size,
            state_size=num_agents * observation_size,
            action=Discrete(5),
            time_limit=self.size**2,
            metrics=("connected",),
            # 13 of 25 and 24 of 100 steps with random actions; fewer once trained
            usual_length=self.size**2 // 4,
        )

    def reset(self, key: Key) -> tuple[Board, Observation]:
        """Start an episode on a solvable board: every target is the end of a random walk.

        Boards are those of the library's Connector-v2, as in the paper; v3 generates others.
        """
        board = generate(key, self.size, self.num_agents)
        return board, _observation(board)

    def step(self, key: Key, state: Board, action: Action) -> tuple[Board, Step]:
        """Take one step, which is deterministic."""
        del key
        board, reward = move(state, action)
        observation = _observation(board)
        terminated = ~observation.active.any()
        step = Step(
            observation=observation,
            reward=jnp.full_like(reward, reward.sum()),  # shared, as in the paper's code
            terminated=terminated,
            truncated=~terminated & (board.step_count >= self.size**2),
            metrics={"connected": board.agents.connected.mean(dtype=jnp.float32)},
        )
        return board, step

    def draw(self, state: Board) -> np.ndarray:
        """Draw the board with the library's viewer, uint8 ``[H, W, 3]``.

        Each agent has its own colour; heads are large, targets small.
        """
        with hidden_notebook():
            from jumanji.environments.routing.connector.viewer import ConnectorViewer

        viewer = ConnectorViewer(self.name, self.num_agents, render_mode="rgb_array")
        return draw(viewer, np.asarray(state.grid))


def _observation(state: Board) -> Observation:
    local = _views(state)
    return Observation(
        local=local,
        legal=state.action_mask,
        active=state.action_mask[:, 1:].any(-1),  # a connected agent has no legal move either
        state=local.reshape(-1),  # [A F]
    )


def _views(state: Board) -> Float[Array, "A 54"]:
    """Return each agent's observation, in the vector form of the paper's code, not as a grid."""
    agents, num_cells = state.agents, state.grid.size
    own_target = 3 * agents.id[:, None] + 3
    cells = _windows(state)  # [A, 25]
    is_off, kind = cells == OFF_BOARD, cells % 3
    is_target = (kind == 0) & (cells > 0)
    blockers = jnp.where(is_off | (kind == 2), 1.0, jnp.where(kind == 1, -1.0, 0.0))
    targets = jnp.where(is_off | (cells == own_target), 1.0, jnp.where(is_target, -1.0, 0.0))
    target = jnp.where(agents.connected[:, None], 0, agents.target)
    return jnp.concatenate(
        [agents.position / num_cells, target / num_cells, blockers, targets], axis=1
    )


def _windows(state: Board) -> Int[Array, "A 25"]:
    """Return the cells around each agent, row by row, ``[A, 25]``."""
    board = jnp.pad(state.grid, VIEW, constant_values=OFF_BOARD)
    offsets = jnp.arange(2 * VIEW + 1)
    row, column = state.agents.position[:, 0], state.agents.position[:, 1]
    rows = row[:, None] + offsets[None]  # [A, 5]; the padding shifts everything by VIEW
    columns = column[:, None] + offsets[None]
    return board[rows[:, :, None], columns[:, None, :]].reshape(len(row), -1)
