"""SMAX: battles between two teams of units, one of them scripted."""

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
    """Make SMAX against the library's heuristic enemy, with the library's default settings."""
    name = f"smax-{scenario}"
    battle = load(name, "smax.heuristic_enemy_smax_env", "HeuristicEnemySMAX")
    units = load(name, "smax.smax_env", "map_name_to_scenario")(scenario)
    return Smax(name, build(battle, scenario=units))


class SmaxState(NamedTuple):
    """The library's state, and the memory and observations of the scripted enemies.

    After a step, the library computes every unit's observation, discards the enemies' and
    recomputes them before the next step. Here they are carried in the state instead.
    """

    world: Any
    memory: Any
    enemy_view: Float[Array, "B F"]


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
            observations, state = self.library.reset(key)
            views = observations | self.library.get_all_unit_obs(state)
            return self._moment(
                strongly_typed(state.state), strongly_typed(state.enemy_policy_state), views
            )

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Let the enemies choose their actions, then take eight steps of the library's physics."""
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
        """Draw a state."""
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
