"""Any cooperative multi-agent environment of jumanji as a task: ``jumanji:ID``.

The suites of the paper have dedicated adapters in this package, with metrics and a faster step.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ratiosym.envs.adapters.generic import (
    FACTORY,
    TimedState,
    at_least_one,
    calling,
    like,
    read_time_limit,
    row,
    rows,
    split_options,
    stretch,
)
from ratiosym.envs.adapters.jumanji.library import check_library, draw, making, on_host
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action, Picture
from ratiosym.errors import InputError
from ratiosym.plain import unknown_name
from ratiosym.types import Continuous, Discrete, EnvSpec, Key, Observation, State, Step


@cache
def jumanji_env(name: str) -> "JumanjiTask":
    """Make an environment by its jumanji id and options: ``Cleaner-v0?time_limit=50``."""
    task = f"jumanji:{name}"
    check_library(task)
    name, options = split_options(name)
    library = _make(task, name, options)
    limit = read_time_limit(task, {}, getattr(library, "time_limit", None))
    kind = DrawableJumanjiTask if hasattr(library, "_viewer") else JumanjiTask
    return kind(task, library, _count_agents(task, library), limit)


@dataclass(frozen=True)
class JumanjiTask:
    """A multi-agent environment of jumanji.

    - Observation ``[A, F]``: each agent's row of every field that has one row per agent, and all
      scalars (the step count is divided by the time limit). Fields that describe the whole scene
      instead of single agents are appended.
    - State: the library's whole observation.
    - Action: the library's; continuous actions in (-1, 1) are rescaled to its bounds.
    - Reward: the library's, per agent or the same for all.
    - End: truncated at the time limit, otherwise according to the library's discount.
    - Metrics: the scalars in the library's ``extras``.
    """

    name: str
    library: Any  # compares by identity, so the factory builds one per name
    num_agents: int
    time_limit: int

    @cached_property
    def _shapes(self) -> tuple[Any, Any]:
        """Shapes of an observation and of the extras, found by tracing."""

        def play(key: Key) -> Any:
            state, first = self.library.reset(key)
            action = self.library.action_spec.generate_value()
            return first.observation, self.library.step(state, action)[1].extras or {}

        with making():
            return jax.eval_shape(play, jax.random.key(0))

    @cached_property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        local, state = jax.eval_shape(self._views, self._shapes[0])
        action = self.library.action_spec
        return EnvSpec(
            name=self.name,
            num_agents=self.num_agents,
            observation_size=local.shape[1],
            state_size=state.shape[0],
            action=Continuous(action.shape[1])
            if len(action.shape) == 2
            else Discrete(int(_choices(self.library)[0])),
            time_limit=self.time_limit,
            metrics=tuple(
                sorted(name for name, fact in self._shapes[1].items() if fact.shape == ())
            ),
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode."""
        with calling():
            world, timestep = self.library.reset(key)
            state = TimedState(strongly_typed(world), jnp.zeros((), jnp.int32))
            return state, self._observation(timestep.observation)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        if isinstance(self.spec.action, Continuous):
            bounds = self.library.action_spec
            action = stretch(action, bounds.minimum, bounds.maximum)
        with calling():
            # The library keeps a key in its state; by contract all randomness comes from ours.
            world, timestep = self.library.step(_replace(state.world, key=key), action)
            time = state.time + 1
            is_late = time >= self.time_limit
            is_stopped = timestep.last() & jnp.all(timestep.discount == 0)
            step = Step(
                observation=self._observation(timestep.observation),
                reward=jnp.broadcast_to(timestep.reward, self.num_agents).astype(jnp.float32),
                terminated=is_stopped & ~is_late,
                truncated=(timestep.last() & ~is_stopped) | is_late,
                metrics={
                    name: jnp.asarray(timestep.extras[name], jnp.float32)
                    for name in self.spec.metrics
                },
            )
        return TimedState(like(world, state.world), time), step

    def _observation(self, observation: Any) -> Observation:
        local, state = self._views(observation)
        mask = getattr(observation, "action_mask", None)
        if isinstance(self.spec.action, Continuous):
            legal = jnp.ones((self.num_agents, 0), bool)
        elif mask is None:
            legal = jnp.ones((self.num_agents, self.spec.num_actions), bool)
        else:
            legal = at_least_one(mask.astype(bool))
        return Observation(local, legal, jnp.ones(self.num_agents, bool), state)

    def _views(self, observation: Any) -> tuple[Float[Array, "A F"], Float[Array, "S"]]:
        """Return the agents' observations and the critic's."""
        fields = [
            (jax.tree_util.keystr(path), jnp.asarray(leaf))
            for path, leaf in jax.tree_util.tree_leaves_with_path(observation)
        ]
        fields = [(name, leaf) for name, leaf in fields if not name.endswith("action_mask")]
        numbers = [
            leaf / self.time_limit if name.endswith("step_count") else leaf
            for name, leaf in fields
            if leaf.ndim == 0
        ]
        arrays = [leaf for _, leaf in fields if leaf.ndim > 0]
        own = [leaf for leaf in arrays if leaf.shape[0] == self.num_agents]
        scene = row([*arrays, *numbers])
        shared = numbers if len(own) == len(arrays) else [scene]
        tiled = [jnp.broadcast_to(jnp.ravel(x), (self.num_agents, x.size)) for x in shared]
        return rows([*own, *tiled], self.num_agents), scene


@dataclass(frozen=True)
class DrawableJumanjiTask(JumanjiTask):
    """A multi-agent environment that jumanji can draw."""

    def draw(self, state: State) -> Picture:
        """Draw a state with the library's viewer."""
        with calling():
            return draw(self.library._viewer, on_host(state.world))


def _make(task: str, name: str, options: dict[str, Any]) -> Any:
    with making():
        import jumanji

        known = list(jumanji.registered_environments())
        if name not in known:
            error = unknown_name("environment of jumanji", name, known, "")
            raise InputError(f"Task '{task}': {error}")
        try:
            return jumanji.make(name, **options)
        except (TypeError, ValueError, AssertionError) as error:
            raise InputError(
                f"Task '{task}': jumanji cannot build it: {error}. {FACTORY}"
            ) from error


def _count_agents(task: str, library: Any) -> int:
    """Return the number of agents, or raise an error that says why the task cannot be used."""
    action = library.action_spec
    shape = tuple(action.shape)
    mask = getattr(library.observation_spec, "action_mask", None)
    num_agents = shape[0] if len(shape) in (1, 2) else None
    has_rows = mask is not None and len(mask.shape) == 2 and mask.shape[0] == num_agents
    if num_agents is None or not (has_rows or getattr(library, "num_agents", 0) == num_agents):
        raise InputError(
            f"Task '{task}' cannot be used: it has a single agent (its action is a "
            f"{type(action).__name__} of shape {shape}), and a team of agents is needed. "
            f"{FACTORY}"
        )
    choices = np.unique(_choices(library)) if len(shape) == 1 else np.ones(1)
    if len(choices) > 1:
        raise InputError(
            f"Task '{task}' cannot be used: agents must have equal spaces, but they have "
            f"{', '.join(map(str, choices))} actions. {FACTORY}"
        )
    return int(num_agents)


def _choices(library: Any) -> np.ndarray:
    """Return each agent's number of actions, from the mask if possible.

    MultiCVRP's bound is one too high.
    """
    action = library.action_spec
    if hasattr(action, "num_values"):
        return np.asarray(action.num_values)
    mask = getattr(library.observation_spec, "action_mask", None)
    num_choices = np.asarray(action.maximum) + 1 if mask is None else mask.shape[-1]
    return np.broadcast_to(num_choices, action.shape)


def _replace(world: Any, **changes: Any) -> Any:
    if "key" not in getattr(world, "__dataclass_fields__", getattr(world, "_fields", ())):
        return world
    replace = getattr(world, "_replace", None) or world.replace
    return replace(**changes)
