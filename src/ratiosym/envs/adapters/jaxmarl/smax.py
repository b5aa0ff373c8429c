"""SMAX: battles of two teams of units, the other team scripted."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.envs.adapters.jaxmarl.library import build, load, stack
from ratiosym.envs.adapters.jaxmarl.pictures import Picture, draw_battle
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.types import Discrete, EnvSpec, Key, Observation, State, Step


@cache
def smax(scenario: str) -> "Smax":
    """SMAX against the library's heuristic enemy, with the library's default settings."""
    name = f"smax-{scenario}"
    battle = load(name, "smax.heuristic_enemy_smax_env", "HeuristicEnemySMAX")
    units = load(name, "smax.smax_env", "map_name_to_scenario")(scenario)
    return Smax(name, build(battle, scenario=units))


class SmaxState(NamedTuple):
    """The library's state, what the scripted enemies remember, and what they see.

    The library computes every unit's observation after a step and drops the enemies', to compute
    them all anew before the next step. They are carried in the state instead (Decision 37).
    """

    world: Any
    memory: Any
    enemy_view: Float[Array, "B F"]


@dataclass(frozen=True)
class Smax:
    """``A`` allies fight ``B`` enemies on a plain of 32 by 32; the enemies follow the library's
    heuristic.

    Observation ``[A, 13 (A - 1) + 13 B + 10]``: each other unit within sight, allies first, 13
    numbers (health, relative position, last move, last attack, weapon cooldown, type), 0 where it
    is dead or out of sight; then oneself, 10 numbers (health, position, cooldown, type). All 0 for
    the dead. State ``[12 (A + B)]``: the library's world state, 10 numbers per unit (positions
    unscaled), teams and types. Action: north, east, south, west, stop, or attack enemy ``i`` (``5 +
    i``), legal within range; the dead stop. Reward, shared: the share of all enemies' health lost
    in the step, and 1 for a win: at most 2 in an episode. End: a team is dead (terminated), or the
    clock (truncated, at step 101). Agents are active while alive. Metrics: ``won`` (all enemies
    dead, some ally alive); ``enemies_killed`` and ``allies_alive``, shares.
    """

    name: str
    # HeuristicEnemySMAX: equal to itself alone, so the factory builds one for each scenario
    library: Any

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
            usual_length=library.max_steps // 2,  # at random 54 steps on 2s3z
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode: the teams face each other, or (smacv2) units and places are drawn."""
        with jax.numpy_rank_promotion("allow"):
            observations, state = self.library.reset(key)
            views = observations | self.library.get_all_unit_obs(state)
            return self._moment(
                strongly_typed(state.state), strongly_typed(state.enemy_policy_state), views
            )

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step: the enemies choose, then eight steps of the library's physics."""
        physics = self.library._env
        key, enemy_key = jax.random.split(key)  # as in the library's step_env
        with jax.numpy_rank_promotion("allow"):
            enemy_actions, memory = self.library.get_enemy_actions(
                enemy_key, state.memory, state.enemy_view
            )
            enemy_action = jnp.stack([enemy_actions[enemy] for enemy in self.library.enemy_agents])
            orders = physics._decode_discrete_actions(jnp.concatenate([action, enemy_action]))
            views, world, rewards, dones, _ = physics.step_env_no_decode(key, state.world, orders)
            state, observation = self._moment(world, memory, views)
        allies, enemies = self._alive(world)
        is_over = ~allies.any() | ~enemies.any()
        step = Step(
            observation=observation,
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

    def draw(self, state: State) -> Picture:
        """A picture of a state."""
        return draw_battle(self.library._env, state.world)

    def _moment(
        self, world: Any, memory: Any, views: dict[str, Array]
    ) -> tuple[SmaxState, Observation]:
        legal = self.library._env.get_avail_actions(world)
        observation = Observation(
            local=stack(self.library, views),
            legal=stack(self.library, legal).astype(bool),
            active=self._alive(world)[0],
            state=views["world_state"],
        )
        enemy_view = jnp.stack([views[enemy] for enemy in self.library.enemy_agents])
        return SmaxState(world, memory, enemy_view), observation

    def _alive(self, world: Any) -> tuple[Bool[Array, "A"], Bool[Array, "B"]]:
        return world.unit_alive[: self.library.num_allies], world.unit_alive[
            self.library.num_allies :
        ]
