"""SMAX: battles between two teams of units, one of them scripted."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ratiosym.envs.adapters.jaxmarl.battle import (
    NUM_MOVES,
    Units,
    batch_of_units,
    fight,
    give_orders,
    make_units,
    observe,
    split,
)
from ratiosym.envs.adapters.jaxmarl.enemies import choose_actions
from ratiosym.envs.adapters.jaxmarl.library import build, load
from ratiosym.envs.adapters.jaxmarl.pictures import Picture, draw_battle
from ratiosym.envs.arrays import batch_last, strongly_typed, typed_key
from ratiosym.envs.protocol import Action
from ratiosym.types import Discrete, EnvSpec, Key, Keys, Observation, State, Step


@cache
def smax(scenario: str) -> "Smax":
    """Make SMAX against the library's heuristic enemy, with the library's default settings."""
    name = f"smax-{scenario}"
    battle = load(name, "smax.heuristic_enemy_smax_env", "HeuristicEnemySMAX")
    units = load(name, "smax.smax_env", "map_name_to_scenario")(scenario)
    return Smax(name, build(battle, scenario=units))


class SmaxState(NamedTuple):
    """The library's state, and the memory of the scripted enemies."""

    world: Any
    memory: Any


@dataclass(frozen=True)
class Smax:
    """``A`` allies fight ``B`` enemies that follow the library's heuristic, on a 32 x 32 plain.

    - Observation ``[A, 13 (A - 1) + 13 B + 10]``: 13 numbers per other unit, allies first (health,
      relative position, last move, last attack, weapon cooldown, type), 0 if it is dead or out of
      sight; then 10 numbers for the agent itself (health, position, cooldown, type). All 0 for the
      dead.
    - State ``[12 (A + B)]``: the library's world state, with 10 numbers per unit (unscaled
      positions), teams and types.
    - Action: north, east, south, west, stop, or attack enemy ``i`` (``5 + i``), which is legal
      within range. The dead can only stop.
    - Reward, shared: the fraction of the enemies' total health removed in the step, and 1 for a
      win: at most 2 per episode.
    - End: a team is dead (terminated), or step 101 (truncated). Agents are active while alive.
    - Metrics: ``won`` (all enemies dead, some ally alive); ``enemies_killed`` and
      ``allies_alive``, as fractions.
    """

    name: str
    # HeuristicEnemySMAX; compares by identity, so the factory builds one per scenario
    library: Any

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        library = self.library
        return EnvSpec(
            name=self.name,
            num_agents=library.num_allies,
            observation_size=library.obs_size,
            state_size=library.state_size,
            action=Discrete(library.num_ally_actions),
            time_limit=library.max_steps + 1,  # the library checks its counter before incrementing
            metrics=("won", "enemies_killed", "allies_alive"),
            usual_length=library.max_steps // 2,  # 54 steps on 2s3z with random actions
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode with the teams facing each other, or (smacv2) at random places."""
        with jax.numpy_rank_promotion("allow"):
            _, state = self.library.reset(key)
        state = SmaxState(strongly_typed(state.state), strongly_typed(state.enemy_policy_state))
        units = make_units(self.library._env, state.world.unit_types)
        return state, self._observation(state.world, units)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Let the enemies choose their actions, then take eight steps of the library's physics."""
        physics, before = self.library._env, state.world
        world, memory = self._play(typed_key(key), before, state.memory, action)
        units = make_units(physics, before.unit_types)
        allies, enemies = self._alive(world)
        is_over = ~allies.any() | ~enemies.any()
        is_late = before.step >= physics.max_steps
        world = world.replace(done=is_over | is_late, step=before.step + 1)
        is_won = allies.any() & ~enemies.any()
        lost_health = (world.unit_health - before.unit_health) / units.full_health
        lost_health = jnp.abs(lost_health[physics.num_allies :].sum()) / physics.num_enemies
        reward = lost_health + jnp.where(is_won, physics.won_battle_bonus, 0.0)
        step = Step(
            observation=self._observation(world, units),
            reward=jnp.full(physics.num_allies, reward),
            terminated=is_over,
            truncated=is_late & ~is_over,
            metrics={
                "won": is_won.astype(jnp.float32),
                "enemies_killed": jnp.mean(~enemies, dtype=jnp.float32),
                "allies_alive": jnp.mean(allies, dtype=jnp.float32),
            },
        )
        return SmaxState(world, memory), step

    def draw(self, state: State) -> Picture:
        """Draw a state."""
        return draw_battle(self.library._env, state.world)

    @cached_property
    def directions(self) -> Float[np.ndarray, "5 2"]:
        """The library's directions of the moves."""
        with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
            moves, _ = self.library._env._decode_discrete_actions(jnp.arange(NUM_MOVES))
            return np.asarray(moves)

    @cached_property
    def _play(self) -> Callable[..., tuple[Any, Any]]:
        """The function from key, world, memory and allies' actions to the next world and memory."""
        physics = self.library._env

        def play(key: Keys, world: Any, memory: Any, action: Array) -> tuple[Any, Any]:
            key, enemy_key = split(key, 2)  # as in the library's step_env
            units = batch_of_units(physics, world.unit_types)
            enemy_action, memory = choose_actions(physics, enemy_key, memory, world, units)
            orders = give_orders(physics, self.directions, jnp.concatenate([action, enemy_action]))
            return fight(physics, key, world, units, orders), memory

        return batch_last(play)

    def _observation(self, world: Any, units: Units) -> Observation:
        local, legal, state = observe(self.library._env, world, units)
        return Observation(local=local, legal=legal, active=self._alive(world)[0], state=state)

    def _alive(self, world: Any) -> tuple[Bool[Array, "A"], Bool[Array, "B"]]:
        return world.unit_alive[: self.library.num_allies], world.unit_alive[
            self.library.num_allies :
        ]
