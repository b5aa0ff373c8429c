"""RWARE: robots in a warehouse carry requested shelves to the goals."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ratiosym.envs.adapters.jumanji.library import (
    check_library,
    draw,
    hidden_notebook,
    making,
    on_host,
)
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.types import Discrete, EnvSpec, Key, Observation, State, Step

SIZES = {
    "tiny": (1, 3),
    "small": (2, 3),
    "medium": (2, 5),
    "large": (3, 5),
    "xlarge": (4, 5),
}  # clusters: rows, columns
TIME_LIMIT = 500
AGENTS_LAYER = 1  # of the library's grid; 0 is the shelves'


@cache
def rware(size: str, num_agents: int, hard: bool = False) -> "Rware":
    """Make a warehouse of one of the ``SIZES``.

    As many shelves are requested as there are agents, or half as many if ``hard``.
    """
    name = f"rware-{size}-{num_agents}ag{'-hard' if hard else ''}"
    check_library(name)
    return Rware(name, size, num_agents, num_requests=num_agents // 2 if hard else num_agents)


class RwareState(NamedTuple):
    """The library's state, and what the metrics accumulate over the episode."""

    world: Any
    num_deliveries: Float[Array, ""]


@dataclass(frozen=True)
class Rware:
    """Robots carry requested shelves to two goals in the bottom row, and put shelves back.

    - Observation ``[A, 66]``: own row and column (unscaled), whether it carries a shelf, its
      direction one-hot (up, right, down, left), whether it is on a highway; for each of the 8
      surrounding cells, row by row, whether another robot is there and its direction one-hot; for
      each of the 9 cells whether a shelf is there and whether it is requested.
    - State ``[66 A]``: all observations.
    - Action ``[A]``: nothing, forward, turn left, turn right, load or unload. A loaded robot cannot
      drive into a shelf.
    - Reward, shared: +1 for every requested shelf that reaches a goal. A new shelf is then
      requested immediately.
    - End: a collision: two robots in one cell, or a robot in a cell that one with a higher number
      just left. Time limit 500.
    - Metrics: ``deliveries`` of the episode so far; ``collided``, whether robots collided.
    """

    name: str
    size: str
    num_agents: int
    num_requests: int

    @cached_property
    def library(self) -> Any:
        """The library's RobotWarehouse."""
        shelf_rows, shelf_columns = SIZES[self.size]
        with making():
            from jumanji.environments.routing.robot_warehouse.env import RobotWarehouse
            from jumanji.environments.routing.robot_warehouse.generator import RandomGenerator

            generator = RandomGenerator(
                shelf_rows=shelf_rows,
                shelf_columns=shelf_columns,
                column_height=8,
                num_agents=self.num_agents,
                sensor_range=1,
                request_queue_size=self.num_requests,
            )
            return RobotWarehouse(generator, time_limit=TIME_LIMIT)

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        num_agents, observation_size = self.num_agents, 66
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=observation_size,
            state_size=num_agents * observation_size,
            action=Discrete(5),
            time_limit=TIME_LIMIT,
            metrics=("deliveries", "collided"),
            # until two robots collide; 96 steps with four robots and random actions
            usual_length=TIME_LIMIT // 4,
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode with robots at random places, shelves at home and random requests."""
        with jax.numpy_rank_promotion("allow"):
            world, timestep = self.library.reset(key)
        return RwareState(strongly_typed(world), jnp.zeros(())), _observation(timestep)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        with jax.numpy_rank_promotion("allow"):
            # Draw new requests from this step's key rather than from the one in the library's
            # state, so that episodes with the same start diverge.
            world, timestep = self.library.step(state.world.replace(key=key), action)
        num_deliveries = state.num_deliveries + timestep.reward
        collided = _collided(world)
        step = Step(
            observation=_observation(timestep),
            reward=jnp.broadcast_to(timestep.reward, action.shape),
            terminated=collided,
            truncated=~collided & (world.step_count >= self.library.time_limit),
            metrics={"deliveries": num_deliveries, "collided": collided.astype(jnp.float32)},
        )
        return RwareState(strongly_typed(world), num_deliveries), step

    def draw(self, state: State) -> np.ndarray:
        """Draw the warehouse with the library's viewer, uint8 ``[H, W, 3]``.

        Requested shelves are teal, loaded robots red.
        """
        with hidden_notebook():
            from jumanji.environments.routing.robot_warehouse.viewer import RobotWarehouseViewer

        viewer = RobotWarehouseViewer(
            self.library.grid_size, self.library.goals, self.name, render_mode="rgb_array"
        )
        return draw(viewer, on_host(state.world))


def _observation(timestep: Any) -> Observation:
    local = timestep.observation.agents_view.astype(jnp.float32)
    return Observation(
        local=local,
        legal=timestep.observation.action_mask,
        active=jnp.ones(len(local), bool),
        state=local.reshape(-1),  # [A F]
    )


def _collided(world: Any) -> Array:
    """Whether some agent's cell does not hold its number: the library's own, unexported test.

    Agents move one after another and clear the cell they leave, even if another has already
    entered it. This counts as a collision, too, as in the library.
    """
    position = world.agents.position
    numbers = world.grid[AGENTS_LAYER, position.x, position.y]
    return jnp.any(numbers != 1 + jnp.arange(len(numbers)))
