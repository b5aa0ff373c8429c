"""SMAX: battles of two teams of units, the other team scripted."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ratiosym.envs.jaxmarl.library import build, load, stack, strong, unstack
from ratiosym.envs.protocol import Action
from ratiosym.types import Discrete, EnvSpec, Key, Observation, State, Step


@cache
def smax(scenario: str) -> "Smax":
    """SMAX against the library's heuristic enemy, with the library's default settings."""
    name = f"smax-{scenario}"
    battle = load(name, "smax.heuristic_enemy_smax_env", "HeuristicEnemySMAX")
    units = load(name, "smax.smax_env", "map_name_to_scenario")(scenario)
    return Smax(name, build(battle, scenario=units))


@dataclass(frozen=True)
class Smax:
    """``A`` allies fight ``B`` enemies on a plain of 32 by 32; the enemies follow the library's heuristic.

    Observation ``[A, 13 (A - 1) + 13 B + 10]``: each other unit within sight, allies first, 13 numbers (health,
    relative position, last move, last attack, weapon cooldown, type), 0 where it is dead or out of sight; then
    oneself, 10 numbers (health, position, cooldown, type). All 0 for the dead.
    State ``[12 (A + B)]``: the library's world state, 10 numbers a unit (positions unscaled), teams and types.
    Action: north, east, south, west, stop, or attack enemy ``i`` (``5 + i``), legal within range; the dead stop.
    Reward, shared: the share of all enemies' health lost in the step, and 1 for a win: at most 2 in an episode.
    End: a team is dead (terminated), or the clock (truncated, at step 101). Agents are active while alive.
    Metrics: ``won`` (all enemies dead, some ally alive); ``enemies_killed`` and ``allies_alive``, shares.
    """

    name: str
    library: Any  # HeuristicEnemySMAX: equal to itself alone, so the factory builds one for each scenario

    @property
    def spec(self) -> EnvSpec:
        """The sizes of everything."""
        library = self.library
        return EnvSpec(
            name=self.name,
            num_agents=library.num_allies,
            observation_size=library.obs_size,
            state_size=library.state_size,
            action=Discrete(library.num_ally_actions),
            time_limit=library.max_steps + 1,  # the library compares its counter before raising it
            metrics=("won", "enemies_killed", "allies_alive"),
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode: the teams face each other, or (smacv2) units and places are drawn."""
        with jax.numpy_rank_promotion("allow"):
            observations, state = self.library.reset(key)
        return strong(state), self._observation(observations, state)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step: eight steps of the library's physics."""
        with jax.numpy_rank_promotion("allow"):
            observations, state, rewards, dones, _ = self.library.step_env(key, state, unstack(self.library, action))
        allies, enemies = self._alive(state)
        is_over = ~allies.any() | ~enemies.any()
        step = Step(
            observation=self._observation(observations, state),
            reward=stack(self.library, rewards),
            terminated=is_over,
            truncated=dones["__all__"] & ~is_over,
            metrics={
                "won": (allies.any() & ~enemies.any()).astype(jnp.float32),
                "enemies_killed": jnp.mean(~enemies, dtype=jnp.float32),
                "allies_alive": jnp.mean(allies, dtype=jnp.float32),
            },
        )
        return state, step

    def _alive(self, state: State) -> tuple[Bool[Array, "A"], Bool[Array, "B"]]:
        alive = state.state.unit_alive
        return alive[: self.library.num_allies], alive[self.library.num_allies :]

    def _observation(self, observations: dict[str, Array], state: State) -> Observation:
        with jax.numpy_rank_promotion("allow"):
            legal = self.library.get_avail_actions(state)
        return Observation(
            local=stack(self.library, observations),
            legal=stack(self.library, legal).astype(bool),
            active=self._alive(state)[0],
            state=observations["world_state"],
        )
