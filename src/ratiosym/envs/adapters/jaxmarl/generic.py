"""Any cooperative environment of jaxmarl as a task: ``jaxmarl:NAME``.

The suites of the paper have dedicated adapters in this package, with metrics, pictures and a faster
step.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

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
from ratiosym.envs.adapters.jaxmarl.library import build, load
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.errors import InputError
from ratiosym.plain import unknown_name
from ratiosym.types import Continuous, Discrete, EnvSpec, Key, Observation, State, Step

# Module and class in jaxmarl 0.2.0, whose own ``make`` imports all of them and prints.
ENVIRONMENTS = {
    "MPE_simple_v3": ("mpe.simple", "SimpleMPE"),
    "MPE_simple_spread_v3": ("mpe.simple_spread", "SimpleSpreadMPE"),
    "MPE_simple_speaker_listener_v4": ("mpe.simple_speaker_listener", "SimpleSpeakerListenerMPE"),
    "MPE_simple_reference_v3": ("mpe.simple_reference", "SimpleReferenceMPE"),
    "MPE_simple_facmac_v1": ("mpe.simple_facmac", "SimpleFacmacMPE"),
    "MPE_simple_facmac_3a_v1": ("mpe.simple_facmac", "SimpleFacmacMPE3a"),
    "MPE_simple_facmac_6a_v1": ("mpe.simple_facmac", "SimpleFacmacMPE6a"),
    "MPE_simple_facmac_9a_v1": ("mpe.simple_facmac", "SimpleFacmacMPE9a"),
    "switch_riddle": ("switch_riddle.switch_riddle", "SwitchRiddle"),
    "HeuristicEnemySMAX": ("smax.heuristic_enemy_smax_env", "HeuristicEnemySMAX"),
    "LearnedPolicyEnemySMAX": ("smax.heuristic_enemy_smax_env", "LearnedPolicyEnemySMAX"),
    "ant_4x2": ("mabrax.mabrax_env", "Ant"),
    "halfcheetah_6x1": ("mabrax.mabrax_env", "HalfCheetah"),
    "hopper_3x1": ("mabrax.mabrax_env", "Hopper"),
    "humanoid_9|8": ("mabrax.mabrax_env", "Humanoid"),
    "walker2d_2x3": ("mabrax.mabrax_env", "Walker2d"),
    "hanabi": ("hanabi.hanabi", "HanabiEnv"),
    "overcooked": ("overcooked.overcooked", "Overcooked"),
    "overcooked_v2": ("overcooked_v2.overcooked", "OvercookedV2"),
    "coin_game": ("coin_game.coin_game", "CoinGame"),
    "jaxnav": ("jaxnav.jaxnav_env", "JaxNav"),
}
OPPONENTS = "its agents compete, and only teams with a common return are supported"
COMPETITIVE = {
    "MPE_simple_tag_v3": OPPONENTS,
    "MPE_simple_world_comm_v3": OPPONENTS,
    "MPE_simple_crypto_v3": OPPONENTS,
    "MPE_simple_push_v3": OPPONENTS,
    "MPE_simple_adversary_v3": OPPONENTS,
    "SMAX": f"{OPPONENTS}. The built-in tasks smax-... play against the library's scripted enemy",
    "storm": OPPONENTS,
    "storm_2p": OPPONENTS,
    "storm_np": OPPONENTS,
}


@cache
def jaxmarl_env(name: str) -> "JaxMarlTask":
    """Make an environment by its jaxmarl name and options: ``coin_game?shared_rewards=True``."""
    task = f"jaxmarl:{name}"
    name, options = split_options(name)
    limit = options.pop("time_limit", None)
    library = _make(task, name, options)
    if name == "coin_game" and not options.get("shared_rewards"):
        raise InputError(
            f"Task '{task}' cannot be trained: {OPPONENTS}. It can be with shared rewards: "
            f"'{task}{'&' if options else '?'}shared_rewards=True'."
        )
    given = {} if limit is None else {"time_limit": limit}
    env = JaxMarlTask(task, library, read_time_limit(task, given, _limit(library)))
    _check_spaces(env)
    return env


@dataclass(frozen=True)
class JaxMarlTask:
    """A jaxmarl environment whose agents have equal spaces.

    - Observation ``[A, F]``: the library's, flattened.
    - State: the library's ``world_state``, or all observations concatenated.
    - Action: the library's; continuous actions in (-1, 1) are rescaled to its bounds.
    - Reward: the library's, per agent.
    - End: the library does not say why an episode ended. At the time limit it counts as truncated,
      before as terminated. Agents that are done before the others are inactive.
    """

    name: str
    library: Any  # compares by identity, so the factory builds one per name
    time_limit: int

    @cached_property
    def agents(self) -> list[str]:
        """Names of the learning agents.

        Only FACMAC's environments have ``adversaries`` here; their other agents are prey moved by
        the library.
        """
        agents = getattr(self.library, "adversaries", self.library.agents)
        return [agent for agent in agents if agent in self._shapes]

    @cached_property
    def _shapes(self) -> Any:
        with jax.ensure_compile_time_eval(), calling():
            return jax.eval_shape(self.library.reset, jax.random.key(0))[0]

    @cached_property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        space = self.library.action_space(self.agents[0])
        view = sum(int(np.prod(x.shape)) for x in jax.tree.leaves(self._shapes[self.agents[0]]))
        world = self._shapes.get("world_state")
        num_agents = len(self.agents)
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=view,
            state_size=num_agents * view if world is None else int(np.prod(world.shape)),
            action=Discrete(int(space.n)) if hasattr(space, "n") else Continuous(*space.shape),
            time_limit=self.time_limit,
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode."""
        with calling():
            observations, world = self.library.reset(key)
            state = TimedState(strongly_typed(world), jnp.zeros((), jnp.int32))
            return state, self._observation(observations, world, jnp.ones(len(self.agents), bool))

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        with calling():
            observations, world, rewards, dones, _ = self.library.step_env(
                key, state.world, self._actions(action)
            )
            time = state.time + 1
            is_done = jnp.asarray(dones["__all__"]).reshape(())
            is_late = time >= min(self.time_limit, _clock(self.library) or self.time_limit)
            active = ~jnp.stack([jnp.asarray(dones[a]).reshape(()) for a in self.agents])
            step = Step(
                observation=self._observation(observations, world, active | is_done),
                reward=jnp.stack(
                    [jnp.asarray(rewards[a], jnp.float32).reshape(()) for a in self.agents]
                ),
                terminated=is_done & ~is_late,
                truncated=(is_done & is_late) | (time >= self.time_limit),
                metrics={},
            )
        return TimedState(like(world, state.world), time), step

    def _actions(self, action: Action) -> dict[str, Array]:
        space = self.library.action_space(self.agents[0])
        if isinstance(self.spec.action, Continuous):
            action = stretch(action, space.low, space.high)
        actions = {agent: action[index] for index, agent in enumerate(self.agents)}
        silent = jnp.zeros_like(action[0])  # for scripted agents, whose actions are ignored
        return actions | {a: silent for a in self.library.agents if a not in actions}

    def _observation(
        self, observations: dict[str, Any], world: Any, active: Bool[Array, "A"]
    ) -> Observation:
        num_agents = len(self.agents)
        views = jax.tree.map(lambda *x: jnp.stack(x), *(observations[a] for a in self.agents))
        local = rows(views, num_agents)
        return Observation(
            local=local,
            legal=self._legal(world),
            active=active,
            state=row(observations.get("world_state", local)),
        )

    def _legal(self, world: Any) -> Bool[Array, "A actions"]:
        num_agents = len(self.agents)
        if isinstance(self.spec.action, Continuous):
            return jnp.ones((num_agents, 0), bool)
        for method in ("get_avail_actions", "get_legal_moves"):  # the latter in Hanabi
            try:
                masks = getattr(self.library, method)(world)
            except (AttributeError, NotImplementedError):
                continue
            return at_least_one(jnp.stack([masks[a] for a in self.agents]) > 0)
        return jnp.ones((num_agents, self.spec.num_actions), bool)


def _make(task: str, name: str, options: dict[str, Any]) -> Any:
    """Build the library's environment."""
    if name in COMPETITIVE:
        raise InputError(f"Task '{task}' cannot be trained: {COMPETITIVE[name]}.")
    if name not in ENVIRONMENTS:
        error = unknown_name("environment of jaxmarl", name, [*ENVIRONMENTS, *COMPETITIVE], "")
        raise InputError(f"Task '{task}': {error}")
    try:
        with calling():
            return build(load(task, *ENVIRONMENTS[name]), **options)
    except (TypeError, ValueError, AssertionError, ImportError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Task '{task}': jaxmarl cannot build it: {error}. {FACTORY}") from error


def _clock(library: Any) -> int | None:
    """Return the library's own time limit: from this step on, an end counts as truncation."""
    if hasattr(library, "num_outer_steps"):
        return int(library.num_inner_steps * library.num_outer_steps)
    for name in ("max_steps", "episode_length"):
        if hasattr(library, name):
            return int(getattr(library, name))
    return None


def _limit(library: Any) -> int | None:
    """Return the maximum episode length.

    Some environments check their counter before incrementing it, and so take one more step.
    """
    clock = _clock(library)
    return None if clock is None else clock + 1


def _check_spaces(env: JaxMarlTask) -> None:
    library, shapes = env.library, env._shapes
    if not isinstance(shapes, dict) or not env.agents:
        raise InputError(
            f"Task '{env.name}' cannot be used: its observations are not given per agent. {FACTORY}"
        )
    views = {a: [x.shape for x in jax.tree.leaves(shapes[a])] for a in env.agents}
    actions = {a: _describe(library.action_space(a)) for a in env.agents}
    for what, spaces in (("observations", views), ("actions", actions)):
        first, *others = env.agents
        for other in others:
            if spaces[other] != spaces[first]:
                raise InputError(
                    f"Task '{env.name}' cannot be used: agents must have equal spaces, but the "
                    f"{what} of '{first}' are {spaces[first]} and those of '{other}' are "
                    f"{spaces[other]}. {FACTORY}"
                )
    if not actions[env.agents[0]].startswith(("one of", "numbers")):
        raise InputError(
            f"Task '{env.name}' cannot be used: its actions are {actions[env.agents[0]]}; they "
            f"must be discrete, or a bounded vector. {FACTORY}"
        )


def _describe(space: Any) -> str:
    if hasattr(space, "n"):
        return f"one of {int(space.n)}"
    bounds = [getattr(space, name, jnp.inf) for name in ("low", "high")]
    if len(getattr(space, "shape", ())) == 1 and all(np.isfinite(b).all() for b in bounds):
        return f"numbers {tuple(space.shape)} in [{bounds[0]}, {bounds[1]}]"
    return f"of type {type(space).__name__}"
