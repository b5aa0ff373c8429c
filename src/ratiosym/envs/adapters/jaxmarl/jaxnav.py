"""JaxNav: robots with LiDAR drive to their goals among walls."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ratiosym.envs.adapters.jaxmarl.drivers import make_teams
from ratiosym.envs.adapters.jaxmarl.encoding import decode, encode
from ratiosym.envs.adapters.jaxmarl.library import build, load, stack, unstack
from ratiosym.envs.adapters.jaxmarl.lidar import sense
from ratiosym.envs.adapters.jaxmarl.pictures import Picture, draw_robots
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.envs.teams import Team
from ratiosym.types import Continuous, EnvSpec, Key, Observation, State, Step

# The settings of the environment's own paper (docs/paper/decisions.md, 26). Settings that are not
# listed are the library's defaults, which agree with that paper.
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
def jaxnav(
    size: int, num_agents: int, affine_actions: bool = False, encoded: bool = False
) -> "JaxNav":
    """Make JaxNav with continuous actions on a map of ``size`` x ``size`` m, border included."""
    name = f"jaxnav-{size}x{size}x{num_agents}a{'-encoded' if encoded else ''}"
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
    return JaxNav(name, library, world, affine_actions, encoded)


def _with_own_lidar(library_class: Any) -> Any:
    """Replace the library's LiDAR by ours, evaluated once per step for observation and reward."""
    return type("WithOwnLidar", (library_class,), {"_lidar_sense": sense})


@dataclass(frozen=True)
class JaxNav:
    """``A`` square robots (0.5 m) each drive to a goal on a map of 1 m cells with random walls.

    - Observation ``[A, 205]``: 200 LiDAR readings all around (distance up to 6 m, over 6, minus
      0.5), linear velocity minus 0.5, angular velocity over 0.6, distance to the goal (at most 6 m,
      over 6, minus 0.5), its bearing over pi, and a constant 0. ``encoded`` presents the same in
      another form (``encoding.encode``).
    - State ``[(size - 2)^2 + 7 A + 1]``: the inner cells (1 for a wall), then positions, headings,
      goals, velocities and time, scaled.
    - Action ``[A, 2]``: linear velocity, clipped to [0, 1] m/s, and angular velocity, clipped to
      [-0.6, 0.6] rad/s; each changes by at most 0.1 per step. ``affine_actions`` rescales [-1, 1]
      to these ranges.
    - Reward: the average of a robot's own term and the team's mean of: 0.25 per metre closer to the
      goal, 4 for reaching it, -4 for a collision, -0.01 per step until either, and -0.1 if a
      reading is 0.4 m or less.
    - End: every robot has reached its goal or collided (terminated), or step 500 (truncated).
      Collided robots stop and are inactive; robots at their goal keep driving.
    - Metrics, as fractions of the robots: ``success`` (reached the goal), ``collision``,
      ``timeout`` (neither so far), ``reachable`` (walls leave a path to the goal: an upper limit of
      ``success``).
    """

    name: str
    library: Any  # the library's JaxNav; compares by identity, so the factory builds one per task
    world: Any  # the same with our LiDAR
    affine_actions: bool
    encoded: bool = False

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        library = self.library
        num_agents, num_cells = library.num_agents, library.map_obj.free_grids
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=library.lidar_num_beams + 5,
            state_size=num_cells + 7 * num_agents + 1,
            action=Continuous(2),
            time_limit=library.max_steps,
            metrics=("success", "collision", "timeout", "reachable"),
        )

    @property
    def teams(self) -> dict[str, Team]:
        """Scripted teams, which observe what learned ones do."""
        to_plain = (lambda local: decode(self.world, local)) if self.encoded else None
        return make_teams(self.world, self._action, to_plain)

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode with a random map, and starts and goals at centres of free cells."""
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
                "reachable": jnp.mean(
                    can_reach(state.map_data, state.pos, state.goal), dtype=jnp.float32
                ),
            },
        )
        return state, step

    def draw(self, state: State) -> Picture:
        """Draw a state."""
        with jax.numpy_rank_promotion("allow"):
            seen = self.world.get_obs(state)
        readings = stack(self.world, seen)[:, : self.world.lidar_num_beams]
        return draw_robots(self.world, state, np.asarray(self.world.unnormalise_lidar(readings)))

    def _velocities(self, action: Action) -> Float[Array, "A 2"]:
        if not self.affine_actions:
            return action  # tanh values unchanged, as for MPE; the library clips speeds
        low, high = self.world.min_v, self.world.max_v
        return jnp.stack(
            [low + (action[:, 0] + 1) / 2 * (high - low), action[:, 1] * self.world.max_w], axis=1
        )

    def _action(self, velocities: Float[Array, "A 2"]) -> Action:
        """Return the action that ``_velocities`` turns into these."""
        if not self.affine_actions:
            return velocities
        low, high = self.world.min_v, self.world.max_v
        return jnp.stack(
            [2 * (velocities[:, 0] - low) / (high - low) - 1, velocities[:, 1] / self.world.max_w],
            axis=1,
        )

    def _observation(self, observations: dict[str, Array], state: State) -> Observation:
        local = stack(self.world, observations)
        if self.encoded:
            local = encode(self.world, local)
        num_agents = local.shape[0]
        return Observation(
            local=local,
            legal=jnp.ones((num_agents, 0), bool),
            active=~(state.move_term | state.done),  # robots that the library still moves
            state=_team_view(self.world, state),
        )


def can_reach(
    walls: Int[Array, "H W"], positions: Float[Array, "A 2"], goals: Float[Array, "A 2"]
) -> Bool[Array, "A"]:
    """Return whether a path of free cells, side by side, leads from each robot to its goal.

    Robots do not fit between two walls that touch at a corner. Each row of cells is the bits of one
    integer, so that one step of the flood fill is a few operations on [A, H]; the map is enclosed
    by walls and has at most 31 cells per side.
    """
    height, width = walls.shape
    free = jnp.sum((walls == 0) << jnp.arange(width)[None], axis=1)[None]  # [1, H]

    def cells(places: Float[Array, "A 2"]) -> Int[Array, "A H"]:
        x, y = jnp.floor(places).astype(jnp.int32).T[:, :, None]
        return jnp.where(jnp.arange(height)[None] == y, 1 << x, 0)

    def spread(reached: Int[Array, "A H"]) -> Int[Array, "A H"]:
        above, below = jnp.roll(reached, 1, axis=1), jnp.roll(reached, -1, axis=1)
        return reached | ((reached << 1 | reached >> 1 | above | below) & free)

    start = cells(positions)
    _, reached = jax.lax.while_loop(
        lambda both: jnp.any(both[0] != both[1]),
        lambda both: (both[1], spread(both[1])),
        (start, spread(start)),
    )
    return jnp.any(reached & cells(goals) != 0, axis=1)


def _team_view(library: Any, state: State) -> Float[Array, "S"]:
    """Return the library's world state without the parts that differ per agent.

    These are the agent's id and observation; what remains describes the team
    (docs/paper/decisions.md, 27).
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
