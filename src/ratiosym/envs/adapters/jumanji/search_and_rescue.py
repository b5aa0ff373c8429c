"""Search and Rescue: searchers find drifting targets on a square with periodic boundaries."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ratiosym.envs.adapters.jumanji.library import check_library, draw, making, on_host
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.types import Continuous, EnvSpec, Key, Observation, State, Step

NUM_RAY_VALUES = 3 * 128
TIME_LIMIT = 400  # the library's default


@cache
def search_and_rescue(num_targets: int, num_agents: int) -> "SearchAndRescue":
    """Make a task with the library's defaults for everything but the numbers of both kinds."""
    name = f"sar-{num_targets}tg-{num_agents}ag"
    check_library(name)
    return SearchAndRescue(name, num_targets, num_agents)


def _with_one_view(library_class: Any) -> Any:
    """Make XLA compute the views of the library's class once per step.

    By default, the compiler fuses parts of the step into every loop that uses them and computes
    them repeatedly. Barriers before and after the views make the step 1.2 times as fast.
    """
    hold = jax.lax.optimization_barrier

    def view(self: Any, state: Any) -> Any:
        return hold(library_class._state_to_observation(self, hold(state)))

    return type("WithOneView", (library_class,), {"_state_to_observation": view})


@dataclass(frozen=True)
class SearchAndRescue:
    """Searchers in the periodic unit square approach targets that drift at random.

    - Observation ``[A, 386]``: three times 128 rays from -0.4 pi to 0.4 pi around the heading, with
      the distance along each ray to the nearest other searcher (over 0.4), found target and unfound
      target (over 0.1), or -1 for none; then the fraction of targets not yet found and the fraction
      of time elapsed.
    - State ``[386 A]``: all observations.
    - Action ``[A, 2]`` in [-1, 1]: turn, by at most pi/4; change of speed, by at most 0.005. The
      speed stays in [0.005, 0.02].
    - Reward, shared: the sum of what all searchers found in this step. A new target within 0.02 and
      ahead is worth (400 - t) / 400 in step t + 1, split equally between searchers that find it in
      the same step.
    - End: all targets are found. Time limit 400.
    - Metrics: ``found``, the fraction of targets found so far.
    """

    name: str
    num_targets: int
    num_agents: int

    @cached_property
    def library(self) -> Any:
        """The library's SearchAndRescue."""
        with making():
            from jumanji.environments.swarms.search_and_rescue.env import SearchAndRescue as Library
            from jumanji.environments.swarms.search_and_rescue.generator import RandomGenerator

            generator = RandomGenerator(num_targets=self.num_targets, num_searchers=self.num_agents)
            return Library(generator=generator, time_limit=TIME_LIMIT)

    @cached_property
    def world(self) -> Any:
        """The same with views that XLA computes once per step."""
        with making():
            return _with_one_view(type(self.library))(
                generator=self.library.generator, time_limit=TIME_LIMIT
            )

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        num_agents, observation_size = self.num_agents, NUM_RAY_VALUES + 2
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=observation_size,
            state_size=num_agents * observation_size,
            action=Continuous(2),
            time_limit=TIME_LIMIT,
            metrics=("found",),
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode with uniformly placed searchers and targets, the targets at rest."""
        with jax.numpy_rank_promotion("allow"):
            state, timestep = self.world.reset(key)
        return strongly_typed(state), self._observation(timestep)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        with jax.numpy_rank_promotion("allow"):
            # Draw the targets' drift from this step's key rather than from the one in the library's
            # state, so that episodes with the same start diverge.
            state, timestep = self.world.step(state.replace(key=key), action)
        terminated = state.targets.found.all()
        step = Step(
            observation=self._observation(timestep),
            reward=jnp.full_like(timestep.reward, timestep.reward.sum()),  # shared by the team
            terminated=terminated,
            truncated=~terminated & (state.step >= TIME_LIMIT),
            metrics={"found": state.targets.found.mean(dtype=jnp.float32)},
        )
        return strongly_typed(state), step

    def draw(self, state: State) -> np.ndarray:
        """Draw the square with the library's viewer, uint8 ``[H, W, 3]``, found targets in grey."""
        from jumanji.environments.swarms.search_and_rescue.viewer import SearchAndRescueViewer

        viewer = SearchAndRescueViewer(self.name, render_mode="rgb_array")
        return draw(viewer, on_host(state), side=self.library.generator.env_size)

    def _observation(self, timestep: Any) -> Observation:
        seen = timestep.observation
        num_agents = self.num_agents
        shares = jnp.stack([seen.targets_remaining, seen.step / TIME_LIMIT])
        views = seen.searcher_views.reshape(num_agents, -1)  # [A, 3, 128] -> [A, 384]
        # append remaining targets and time to the rays
        local = jnp.concatenate([views, jnp.broadcast_to(shares, (num_agents, 2))], axis=1)
        return Observation(
            local=local,
            legal=jnp.ones((num_agents, 0), bool),
            active=jnp.ones(num_agents, bool),
            state=local.reshape(-1),  # [A F]
        )
