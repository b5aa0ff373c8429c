"""RWARE: robots in a warehouse bring requested shelves to the goals."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ratiosym.envs.adapters.jumanji.library import check_library, draw, making, on_host
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
    """A warehouse of ``SIZES``; ``hard`` requests half as many shelves as there are agents, else as
    many.
    """
    name = f"rware-{size}-{num_agents}ag{'-hard' if hard else ''}"
    check_library(name)
    return Rware(name, size, num_agents, num_requests=num_agents // 2 if hard else num_agents)


class RwareState(NamedTuple):
    """The library's state and what the metrics remember of the episode."""

    world: Any
    num_deliveries: Float[Array, ""]


@dataclass(frozen=True)
class Rware:
    """Robots drive under shelves, carry the requested ones to two goals in the bottom row, and put
    shelves back.

    Observation ``[A, 66]``: own row, column (cell counts, not scaled), whether one carries a shelf,
    direction one-hot (up, right, down, left), whether one stands on a highway; for each of the 8
    cells around, row by row, whether another robot is there and its direction one-hot; for each of
    the 9 cells whether a shelf is there and whether it is requested. State ``[66 A]``: all of them.
    Action ``[A]``: nothing, forward, turn left, turn right, load or unload; a loaded robot cannot
    drive into a shelf. Reward, shared: +1 for every requested shelf that reaches a goal; another
    one is requested at once. End: a collision: two robots in one cell, or one where a robot of a
    higher number just was. Time limit 500. Metrics: ``deliveries`` of the episode so far;
    ``collided``, whether robots ran into one another.
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
        """The sizes of everything."""
        num_agents, observation_size = self.num_agents, 66
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=observation_size,
            state_size=num_agents * observation_size,
            action=Discrete(5),
            time_limit=TIME_LIMIT,
            metrics=("deliveries", "collided"),
            usual_length=TIME_LIMIT
            // 4,  # until two robots collide; at random 96 steps with four robots
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode: robots anywhere, apart from one another; shelves at home; requests
        uniform.
        """
        with jax.numpy_rank_promotion("allow"):
            world, timestep = self.library.reset(key)
        return RwareState(strongly_typed(world), jnp.zeros(())), _observation(timestep)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        with jax.numpy_rank_promotion("allow"):
            # New requests are drawn from this step's key (Decision 24): episodes that begin alike
            # part ways.
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
        """The warehouse, uint8 ``[H, W, 3]``, as the library draws it: requested shelves teal,
        loaded robots red.
        """
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
    """Whether an agent does not find its own number in its cell: the library's test, which it does
    not give out.

    Agents move one after another and wipe the cell they leave, also where another has already
    entered: that counts as a collision too (Decision 25).
    """
    position = world.agents.position
    numbers = world.grid[AGENTS_LAYER, position.x, position.y]
    return jnp.any(numbers != 1 + jnp.arange(len(numbers)))
