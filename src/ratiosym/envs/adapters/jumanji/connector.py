"""Connector: pairs of points to be joined by paths that may not cross."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ratiosym.envs.adapters.jumanji.library import check_library, draw, making
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.types import Discrete, EnvSpec, Key, Observation, State, Step

VIEW = 2  # an agent sees so many cells in each direction
OFF_BOARD = (
    -1
)  # beside the library's 0 empty and, for agent i, 3 i + 1 path, 3 i + 2 position, 3 i + 3 target


@cache
def connector(size: int, num_agents: int) -> "Connector":
    """``num_agents`` pairs on a ``size`` x ``size`` board, for at most ``size`` squared steps."""
    name = f"connector-{size}x{size}x{num_agents}a"
    check_library(name)
    return Connector(name, size, num_agents)


@dataclass(frozen=True)
class Connector:
    """Agents on a square board of side ``s`` walk to their targets and leave paths behind that
    nobody may cross.

    Observation ``[A, 54]``: own position and own target, row and column, over s^2 (the target (0,
    0) once connected); 5 x 5 cells around oneself, row by row: agents +1, oneself among them, paths
    -1, free 0; the same cells again: own target +1, others' targets -1, else 0. Cells off the board
    are +1 in both. State ``[54 A]``: all of them. Action ``[A]``: stay, up, right, down, left; into
    free cells and the own target only. Of two that enter one cell the later agent goes, the other
    stays. Connected and blocked agents can only stay, and are not active. Reward, shared: the sum
    over agents of +1 on the step it connects and -0.03 on every step that it began unconnected.
    End: every agent is connected or blocked. Time limit s^2. Metrics: ``connected``, the share of
    agents at their targets.
    """

    name: str
    size: int
    num_agents: int

    @cached_property
    def library(self) -> Any:
        """The library's Connector."""
        with making():
            from jumanji.environments.routing.connector.env import Connector as Library
            from jumanji.environments.routing.connector.generator import LegacyRandomWalkGenerator

            # Decision 21: the boards of Connector-v2, as in the paper; v3 draws others
            generator = LegacyRandomWalkGenerator(self.size, self.num_agents)
            return Library(generator=generator, time_limit=self.size**2)

    @property
    def spec(self) -> EnvSpec:
        """The sizes of everything."""
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
            usual_length=self.size**2
            // 4,  # 13 of 25 and 24 of 100 steps at random; fewer once trained
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode on a board that has a solution: every target ends a random walk."""
        with jax.numpy_rank_promotion("allow"):
            state, _ = self.library.reset(key)
        return strongly_typed(state), _observation(state)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step. Nothing in it is random."""
        del key
        with jax.numpy_rank_promotion("allow"):
            state, timestep = self.library.step(state, action)
        observation = _observation(state)
        terminated = ~observation.active.any()
        step = Step(
            observation=observation,
            reward=jnp.full_like(timestep.reward, timestep.reward.sum()),  # shared (Decision 22)
            terminated=terminated,
            truncated=~terminated & (state.step_count >= self.library.time_limit),
            metrics={"connected": state.agents.connected.mean(dtype=jnp.float32)},
        )
        return state, step

    def draw(self, state: State) -> np.ndarray:
        """The board, uint8 ``[H, W, 3]``, as the library draws it: one colour an agent; heads full,
        targets small.
        """
        from jumanji.environments.routing.connector.viewer import ConnectorViewer

        viewer = ConnectorViewer(self.name, self.num_agents, render_mode="rgb_array")
        return draw(viewer, np.asarray(state.grid))


def _observation(state: Any) -> Observation:
    local = _views(state)
    return Observation(
        local=local,
        legal=state.action_mask,
        active=state.action_mask[:, 1:].any(
            -1
        ),  # the mask of a connected agent allows no move either
        state=local.reshape(-1),  # [A F]
    )


def _views(state: Any) -> Float[Array, "A 54"]:
    """What each agent observes: the vector form of the paper's code base, not the library's grid
    (Decision 21).
    """
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


def _windows(state: Any) -> Array:
    """The cells around each agent, row by row, ``[A, 25]``."""
    board = jnp.pad(state.grid, VIEW, constant_values=OFF_BOARD)
    offsets = jnp.arange(2 * VIEW + 1)
    row, column = state.agents.position[:, 0], state.agents.position[:, 1]
    rows = row[:, None] + offsets[None]  # [A, 5]; the padding moved everything by VIEW
    columns = column[:, None] + offsets[None]
    return board[rows[:, :, None], columns[:, None, :]].reshape(len(row), -1)
