"""JaxNav: robots with LiDAR drive to their goals among walls."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ratiosym.envs.adapters.jaxmarl.library import build, load, stack, unstack
from ratiosym.envs.adapters.jaxmarl.lidar import sense
from ratiosym.envs.adapters.jaxmarl.pictures import Picture, draw_robots
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.types import Continuous, EnvSpec, Key, Observation, State, Step

# Decision 26: the settings of the environment's own paper. The other ones, the library's defaults,
# are those too.
SETTINGS = {
    "goal_radius": 0.3,
    "goal_rew": 4.0,
    "coll_rew": -4.0,
    "weight_g": 0.25,
    "dt_rew": -0.01,
    "rew_lambda": 0.5,
    "lidar_thresh": 0.1,
    "lidar_rew": -0.1,
    "lidar_num_beams": 200,
    "lidar_max_range": 6.0,
    "max_v": 1.0,
    "max_w": 0.6,
    "max_steps": 500,
    "map_id": "Grid-Rand-Poly",
}
MAP_SETTINGS = {"fill": 0.6, "sample_test_case_type": "grid"}


@cache
def jaxnav(size: int, num_agents: int, affine_actions: bool = False) -> "JaxNav":
    """JaxNav with continuous actions on a map of ``size`` by ``size`` metres, its border of walls
    included.
    """
    name = f"jaxnav-{size}x{size}x{num_agents}a"
    library_class = load(name, "jaxnav.jaxnav_env", "JaxNav")
    settings = {
        "num_agents": num_agents,
        "map_params": {"map_size": (size, size), **MAP_SETTINGS},
        **SETTINGS,
    }
    library, world = (
        build(library_class, **settings),
        build(_with_own_lidar(library_class), **settings),
    )
    return JaxNav(name, library, world, affine_actions)


def _with_own_lidar(library_class: Any) -> Any:
    """The library's class with our LiDAR for its own. It senses once per step, for observation and
    reward alike.
    """
    return type("WithOwnLidar", (library_class,), {"_lidar_sense": sense})


@dataclass(frozen=True)
class JaxNav:
    """``A`` square robots (0.5 m) drive to a goal each, on a map of cells of 1 m of which a part
    are walls.

    Observation ``[A, 205]``: 200 LiDAR readings all around (distance up to 6 m, over 6, minus 0.5),
    linear velocity minus 0.5, angular velocity over 0.6, distance to the goal (at most 6 m, over 6,
    minus 0.5), its bearing over pi, and a constant 0. State ``[(size - 2)^2 + 7 A + 1]``: the inner
    cells (1 a wall), then positions, headings, goals, velocities and time, scaled. Action ``[A,
    2]``: the linear velocity, clipped to [0, 1] m/s, and the angular one, clipped to [-0.6, 0.6]
    rad/s; each changes by at most 0.1 per step. With ``affine_actions`` [-1, 1] is stretched over
    these ranges. Reward: half one's own and half the team's mean of: 0.25 for each metre nearer to
    the goal, 4 for reaching it, -4 for a collision, -0.01 per step until either, -0.1 where a
    reading is 0.4 m or less. End: every robot has reached its goal or collided (terminated), or the
    clock (truncated, at step 500). Robots that collided stand still and are not active; those at
    their goal drive on. Metrics, shares of the robots: ``success`` (reached the goal),
    ``collision``, ``timeout`` (neither, yet).
    """

    name: str
    library: (
        Any  # the library's JaxNav: equal to itself alone, so the factory builds one for each task
    )
    world: Any  # the same with our LiDAR
    affine_actions: bool

    @property
    def spec(self) -> EnvSpec:
        """The sizes of everything."""
        library = self.library
        num_agents, num_cells = library.num_agents, library.map_obj.free_grids
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=library.lidar_num_beams + 5,
            state_size=num_cells + 7 * num_agents + 1,
            action=Continuous(2),
            time_limit=library.max_steps,
            metrics=("success", "collision", "timeout"),
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode: a random map, starts and goals in the middle of random free cells."""
        with jax.numpy_rank_promotion("allow"):
            observations, state = self.world.reset(key)
            state = strongly_typed(state)
            return state, self._observation(observations, state)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step of 0.1 s."""
        actions = unstack(self.world, self._velocities(action))
        with jax.numpy_rank_promotion("allow"):
            observations, state, rewards, dones, _ = self.world.step_env(key, state, actions)
            observation = self._observation(observations, state)
        is_finished = state.goal_reached | state.move_term
        is_over = is_finished.all()
        step = Step(
            observation=observation,
            reward=stack(self.world, rewards),
            terminated=is_over,
            truncated=dones["__all__"] & ~is_over,
            metrics={
                "success": jnp.mean(state.goal_reached, dtype=jnp.float32),
                "collision": jnp.mean(state.move_term, dtype=jnp.float32),
                "timeout": jnp.mean(~is_finished, dtype=jnp.float32),
            },
        )
        return state, step

    def draw(self, state: State) -> Picture:
        """A picture of a state."""
        with jax.numpy_rank_promotion("allow"):
            seen = self.world.get_obs(state)
        readings = stack(self.world, seen)[:, : self.world.lidar_num_beams]
        return draw_robots(self.world, state, np.asarray(self.world.unnormalise_lidar(readings)))

    def _velocities(self, action: Action) -> Float[Array, "A 2"]:
        if not self.affine_actions:
            return (
                action  # Decision 28: tanh values as they are; the library clips what they lead to
            )
        low, high = self.world.min_v, self.world.max_v
        return jnp.stack(
            [low + (action[:, 0] + 1) / 2 * (high - low), action[:, 1] * self.world.max_w], axis=1
        )

    def _observation(self, observations: dict[str, Array], state: State) -> Observation:
        local = stack(self.world, observations)
        num_agents = local.shape[0]
        return Observation(
            local=local,
            legal=jnp.ones((num_agents, 0), bool),
            active=~(state.move_term | state.done),  # those that the library moves
            state=_team_view(self.world, state),
        )


def _team_view(library: Any, state: State) -> Float[Array, "S"]:
    """Decision 27: the library's global row, without what it repeats for each agent (id and
    observation).
    """
    size = jnp.array([library.map_obj.width, library.map_obj.height], jnp.float32)
    parts = [
        state.map_data[1:-1, 1:-1],
        state.pos / size - 0.5,
        state.theta / jnp.pi - 0.5,
        state.goal / size - 0.5,
        state.vel / jnp.array([library.max_v, library.max_w]) - 0.5,
        state.step / library.max_steps - 0.5,
    ]
    return jnp.concatenate([part.reshape(-1).astype(jnp.float32) for part in parts])
