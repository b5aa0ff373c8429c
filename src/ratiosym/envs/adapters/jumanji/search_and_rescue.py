"""Search and Rescue: searchers find drifting targets on a square with periodic boundaries."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ratiosym.envs.adapters.jumanji.library import (
    check_library,
    draw,
    hidden_notebook,
    making,
    on_host,
)
from ratiosym.envs.adapters.jumanji.sight import (
    Sight,
    along_rays,
    for_each,
    in_view,
    make_sight,
    within,
)
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
    def update(self) -> Any:
        """The library's motion of searchers."""
        with making():
            from jumanji.environments.swarms.common.updates import update_state

            return update_state

    @cached_property
    def sight(self) -> Sight:
        """The library's view model."""
        with making():
            return make_sight(self.library._observation_fn)

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
        state = self.library.generator(key, self.library.searcher_params)
        state = strongly_typed(state)
        return state, self._observation(state)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        library = self.library
        side = library.generator.env_size
        # Draw the targets' drift from this step's key rather than from the one in the library's
        # state, so that episodes with the same start diverge.
        key, target_key = jax.random.split(key)
        with jax.numpy_rank_promotion("allow"):
            searchers = self.update(side, library.searcher_params, state.searchers, action)
            targets = library._target_dynamics(target_key, state.targets, side)
            # Without the barrier, XLA draws the drift again in every loop that uses the positions.
            searchers, targets = jax.lax.optimization_barrier((searchers, targets))
            finds = self._finds(searchers, targets)
            rewards = library._reward_fn(finds, state.step, TIME_LIMIT)
        targets = targets.replace(found=targets.found | finds.any(axis=0))
        state = state.replace(searchers=searchers, targets=targets, key=key, step=state.step + 1)
        state = strongly_typed(state)
        terminated = targets.found.all()
        step = Step(
            observation=self._observation(state),
            reward=jnp.full_like(rewards, rewards.sum()),  # shared by the team
            terminated=terminated,
            truncated=~terminated & (state.step >= TIME_LIMIT),
            metrics={"found": targets.found.mean(dtype=jnp.float32)},
        )
        return state, step

    def draw(self, state: State) -> np.ndarray:
        """Draw the square with the library's viewer, uint8 ``[H, W, 3]``, found targets in grey."""
        with hidden_notebook():
            from jumanji.environments.swarms.search_and_rescue.viewer import SearchAndRescueViewer

        viewer = SearchAndRescueViewer(self.name, render_mode="rgb_array")
        return draw(viewer, on_host(state), side=self.library.generator.env_size)

    def _finds(self, searchers: Any, targets: Any) -> Bool[Array, "A T"]:
        """Return which targets each searcher finds: new ones in contact and ahead."""
        sight, reach = self.sight, self.library.target_contact_range
        index = jnp.arange(self.num_targets)[None]

        def add_find(target: Array, finds: Array) -> Array:
            is_seen = in_view(sight, searchers, targets.pos[target])
            return finds | (is_seen[:, None] & (index == target[:, None]))

        near = within(sight, searchers.pos, targets.pos, reach) & ~targets.found[None]
        return for_each(near, add_find, jnp.zeros_like(near))

    def _views(self, searchers: Any, targets: Any) -> Float[Array, "A 3 R"]:
        """Return the nearest searcher, found target and other target on each ray, or -1."""
        sight, settings = self.sight, self.library._observation_fn
        reach, far = settings.target_vision_range, settings.searcher_vision_range

        def see_target(target: Array, views: Array) -> Array:
            seen = along_rays(sight, searchers, targets.pos[target], reach)
            is_found = targets.found[target][:, None]
            kinds = jnp.stack([is_found, ~is_found], axis=1) & (target >= 0)[:, None, None]
            return jnp.minimum(views, jnp.where(kinds, seen[:, None], jnp.inf))

        def see_searcher(other: Array, view: Array) -> Array:
            seen = along_rays(sight, searchers, searchers.pos[other], far)
            return jnp.minimum(view, jnp.where((other >= 0)[:, None], seen, jnp.inf))

        none = jnp.full((self.num_agents, 3, sight.rays.size), jnp.inf)
        near = within(sight, searchers.pos, targets.pos, reach)
        views = for_each(near, see_target, none[:, 1:])
        others = ~np.eye(self.num_agents, dtype=bool)
        near = within(sight, searchers.pos, searchers.pos, far) & others
        view = for_each(near, see_searcher, none[:, 0])
        views = jnp.concatenate([view[:, None], views], axis=1)
        return jnp.where(jnp.isinf(views), -1.0, views)

    def _observation(self, state: Any) -> Observation:
        num_agents = self.num_agents
        views = self._views(state.searchers, state.targets).reshape(num_agents, -1)
        left = 1.0 - jnp.sum(state.targets.found) / self.num_targets
        shares = jnp.stack([left, state.step / TIME_LIMIT])
        # append remaining targets and time to the rays
        local = jnp.concatenate([views, jnp.broadcast_to(shares, (num_agents, 2))], axis=1)
        return Observation(
            local=local,
            legal=jnp.ones((num_agents, 0), bool),
            active=jnp.ones(num_agents, bool),
            state=local.reshape(-1),  # [A F]
        )
