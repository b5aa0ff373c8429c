"""AeroJAX: air combat between a learned team and a heuristic one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt8

from ratiosym.envs.aerojax import observe, render
from ratiosym.envs.aerojax.combat import (
    ALIVE,
    COLLIDED,
    CRASHED,
    LEFT,
    SHOT,
    Locks,
    collides,
    damage,
    leaves,
    update_locks,
)
from ratiosym.envs.aerojax.config import PRESETS, TYPES, Config
from ratiosym.envs.aerojax.dynamics import Axes, Controls, Flight, axes, fleet, fly, trim
from ratiosym.envs.aerojax.opponents import LEVELS, decide
from ratiosym.envs.aerojax.sensing import Bearing, bearings, in_cone
from ratiosym.envs.aerojax.state import AeroState
from ratiosym.envs.aerojax.vectors import Vec
from ratiosym.envs.protocol import Action
from ratiosym.envs.teams import Memory, Team
from ratiosym.errors import InputError
from ratiosym.types import Continuous, EnvSpec, Key, Observation, State, Step

METRICS = (
    *("won", "lost", "kills", "deaths_shot", "deaths_ground", "deaths_bounds", "deaths_collision"),
    *("opponents_self_inflicted", "length"),
)


class Geometry(NamedTuple):
    """Pairwise geometry, computed once per step."""

    body: Axes  # [N]
    across: Bearing  # [2, n, n]: from each team's members to the other team's
    among: Bearing  # [n, n]: between members of our team


@dataclass(frozen=True)
class AeroJax:
    """``size`` learned aircraft against as many heuristic ones in three dimensions. N = 2 size.

    - Observation ``[A, 15 + 12 (N - 1)]``: about itself, the world's up in body axes (3), angle of
      attack / 28 deg, sine and cosine of the flight-path angle, speed / 300 m/s, height / ceiling,
      the airspace's axis ahead and right / radius, health, type (0, 0.5, 1), lock progress (0 to
      1), alive, last throttle (0 to 1). Then a row per known aircraft, nearest first, padded with
      zeros: 1, team (1 ally, -1 opponent), direction to it in body axes (3), log of its distance in
      km, unit velocity in body axes (3), speed / 300, health, type. The dead observe zeros.
    - State ``[19 N + 3]``: per aircraft alive, team, position / (radius, radius, ceiling) (3),
      velocity / 300 (3), nose (3), up (3), angle of attack / 28 deg, health, lock progress,
      fraction of the other team that has locked it, type (zeros after the team for the dead); then
      time / limit, and the fraction alive of each team.
    - Action ``[A, 3]`` in [-1, 1], clipped: aileron (roll rate), elevator (rate of the angle of
      attack), throttle.
    - Reward, shared: 1/n per opponent shot down, -0.5/n per own loss of any cause, and +1 at the
      end for having more aircraft alive than the opponents.
    - End: one team is dead, or 500 decisions of 0.2 s have passed. Both are terminations, as the
      win is decided there.
    - Metrics: ``won`` and ``lost`` (more or fewer alive than the opponents, at the end), ``kills``
      by weapons, own losses by cause, the opponents' losses other than by weapons, ``length`` in
      decisions.
    """

    size: int
    config: Config = PRESETS["default"]
    allies: tuple[str, ...] = ()  # types; empty for fighters only
    opponents: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        for what, types in (("allies", self.allies), ("opponents", self.opponents)):
            unknown = [kind for kind in types if kind not in TYPES]
            if unknown or len(types) not in (0, self.size):
                raise InputError(
                    f"{what} is {types!r}, expected {self.size} of: {', '.join(TYPES)}."
                )
        if self.size < 1:
            raise InputError(f"size is {self.size}, expected at least 1.")

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        num_aircraft = 2 * self.size
        return EnvSpec(
            name=self.name or f"aerojax-{self.size}v{self.size}",
            num_agents=self.size,
            observation_size=observe.NUM_EGO + observe.NUM_ROW * (num_aircraft - 1),
            state_size=observe.NUM_GLOBAL * num_aircraft + 3,
            action=Continuous(3),
            time_limit=self.config.time_limit,
            metrics=METRICS,
            usual_length=max(
                1, self.config.time_limit // 3
            ),  # 240 of 500 in 2v2 with random actions, 340 in 8v8; some end at once
        )

    def against(self, level: str) -> "AeroJax":
        """Return the same task against opponents of one level: straight, L1, L2, L3 or L4."""
        if level not in LEVELS:
            raise InputError(f"Unknown level {level!r}. Choose from: {', '.join(LEVELS)}.")
        skill = LEVELS[level]
        return replace(self, config=replace(self.config, skill=(skill, skill)))

    @property
    def teams(self) -> dict[str, Team]:
        """The opponents' script at its five levels, playing our side."""

        def start(key: Key, state: State) -> Memory:
            return ()

        def act(
            skill: float, key: Key, state: State, observation: Observation, memory: Memory
        ) -> tuple[Action, Memory]:
            noise = jax.random.uniform(key, (self.size, 3), minval=-1.0)
            return self.script(state, noise, jnp.full(self.size, skill), is_ally=True), memory

        return {
            level: Team(f"the opponents' script with skill {skill:g}", start, partial(act, skill))
            for level, skill in LEVELS.items()
        }

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode."""
        draws = jax.random.uniform(key, (self._num_draws + self._num_start_draws,))
        sight, start = draws[: self._num_draws], draws[self._num_draws :]
        flight, skill = self._start(start)
        n = self.size
        locks = Locks(jnp.full((2, n), -1, jnp.int32), jnp.zeros((2, n)))
        fate = jnp.full(2 * n, ALIVE, jnp.int32)
        state = AeroState(flight, jnp.ones(2 * n), fate, locks, skill, jnp.zeros((), jnp.int32))
        return state, self._observation(state, self._geometry(state), sight)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one decision."""
        draws = jax.random.uniform(key, (self._num_draws,))
        noise = 2 * draws[-3 * self.size :].reshape(self.size, 3) - 1
        theirs = self.script(state, noise, state.skill, is_ally=False)
        moved = self._move(state, jnp.concatenate([jnp.clip(action, -1.0, 1.0), theirs]))
        geometry = self._geometry(moved)
        moved = self._shoot(moved, geometry)
        moved = moved._replace(time=state.time + 1)

        num_alive = moved.is_alive.reshape(2, -1).sum(axis=1)
        is_end = (num_alive == 0).any() | (moved.time >= self.config.time_limit)
        step = Step(
            observation=self._observation(moved, geometry, draws),
            reward=self._reward(state, moved, is_end & (num_alive[0] > num_alive[1])),
            terminated=is_end,
            truncated=jnp.zeros((), bool),
            metrics=self._metrics(moved, num_alive, is_end),
        )
        return moved, step

    def draw(
        self, state: State, history: Sequence[State] = ()
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the views from above and from the south, with trails from the previous states."""
        return render.draw(self, state, history)

    def acmi(self, states: Sequence[State]) -> str:
        """Export an episode for Tacview."""
        return render.acmi(self, states)

    @property
    def types(self) -> tuple[str, ...]:
        """Type of every aircraft, ours first."""
        fighters = ("fighter",) * self.size
        return (self.allies or fighters) + (self.opponents or fighters)

    @property
    def _num_draws(self) -> int:
        return (
            2 * self.size * self.size + 3 * self.size
        )  # every ally's detection of everyone; the script's noise

    @property
    def _num_start_draws(self) -> int:
        return 3 + 11 * self.size

    def _frame(self, *which: slice) -> Any:
        """Return the airframes of all aircraft, or of some of them."""
        types = self.types[which[0]] if which else self.types
        return fleet([self.config.airframes[TYPES.index(kind)] for kind in types])

    def script(
        self, state: AeroState, noise: Array, skill: Array, is_ally: bool
    ) -> Float[Array, "n 3"]:
        """Return the actions of one team's heuristic pilots; ``noise`` is uniform in (-1, 1)."""
        ours, theirs = slice(0, self.size), slice(self.size, 2 * self.size)
        own, foes = (ours, theirs) if is_ally else (theirs, ours)
        mine = jax.tree.map(lambda leaf: leaf[own], state.flight)
        yours = jax.tree.map(lambda leaf: leaf[foes], state.flight)
        alive = state.is_alive[own], state.is_alive[foes]
        return decide(self.config, self._frame(own), mine, yours, alive, skill, noise)

    def _move(self, state: AeroState, action: Float[Array, "N 3"]) -> AeroState:
        """Fly the living aircraft, and apply losses to ground, boundaries and collisions."""
        alive = state.is_alive
        controls = Controls(action[:, 0], action[:, 1], 0.5 * (action[:, 2] + 1))
        flown = fly(self.config, self._frame(), state.flight, controls)
        flight = jax.tree.map(lambda new, old: _select(alive, new, old), flown, state.flight)
        before, after = Vec.of(state.flight.position), Vec.of(flight.position)
        crashed, left = leaves(self.config, after)
        fate = jnp.where(alive & left, LEFT, state.fate)
        fate = jnp.where(alive & crashed, CRASHED, fate)
        fate = jnp.where(collides(self.config, before, after, fate == ALIVE), COLLIDED, fate)
        return state._replace(flight=flight, fate=fate)

    def _geometry(self, state: AeroState) -> Geometry:
        n = self.size
        body, place = axes(state.flight), Vec.of(state.flight.position)
        teams = _by_team(place)
        across = bearings(Axes(*(_by_team(axis) for axis in body)), teams, teams[::-1])
        among = bearings(Axes(*(axis[:n] for axis in body)), place[:n], place[:n])
        return Geometry(body, across, among)

    def _shoot(self, state: AeroState, geometry: Geometry) -> AeroState:
        """Update locks, damage and losses of both teams simultaneously."""
        alive = state.is_alive.reshape(2, -1)
        across = geometry.across
        in_range = in_cone(self.config.weapon, across) & alive[:, :, None] & alive[::-1][:, None, :]
        locks = update_locks(self.config, state.locks, in_range, across.distance)
        loss = damage(self.config, locks, across.distance)
        health = jnp.maximum(state.health - loss.reshape(-1), 0.0)
        fate = jnp.where(state.is_alive & (health <= 0), SHOT, state.fate)
        return state._replace(health=health, fate=fate, locks=locks)

    def _reward(
        self, before: AeroState, after: AeroState, wins: Bool[Array, ""]
    ) -> Float[Array, "n"]:
        n, config = self.size, self.config
        dies = before.is_alive & ~after.is_alive
        num_kills = jnp.sum(dies[n:] & (after.fate[n:] == SHOT))
        num_deaths = jnp.sum(dies[:n])
        reward = (
            config.kill_reward * num_kills + config.death_reward * num_deaths
        ) / n + config.win_reward * wins
        return jnp.full(n, reward)

    def _metrics(self, state: AeroState, num_alive: Array, is_end: Array) -> dict[str, Array]:
        n = self.size
        ours, theirs = state.fate[:n], state.fate[n:]
        facts = {
            "won": is_end & (num_alive[0] > num_alive[1]),
            "lost": is_end & (num_alive[0] < num_alive[1]),
            "kills": jnp.sum(theirs == SHOT),
            "deaths_shot": jnp.sum(ours == SHOT),
            "deaths_ground": jnp.sum(ours == CRASHED),
            "deaths_bounds": jnp.sum(ours == LEFT),
            "deaths_collision": jnp.sum(ours == COLLIDED),
            "opponents_self_inflicted": jnp.sum(theirs > SHOT),
            "length": state.time,
        }
        return {name: fact.astype(jnp.float32) for name, fact in facts.items()}

    def _observation(self, state: AeroState, geometry: Geometry, draws: Array) -> Observation:
        n, config = self.size, self.config
        kinds = observe.kind_numbers(self.types)
        active = state.is_alive[:n]
        bearing = Bearing(
            *(
                jnp.concatenate([own, pair[0]], axis=1)
                for own, pair in zip(geometry.among, geometry.across, strict=True)
            )
        )
        visible = observe.see(config, state, bearing, draws[: 2 * n * n].reshape(n, 2 * n))
        own = observe.ego(config, state, geometry.body, kinds)
        rows = observe.others(state, geometry.body, bearing, visible, kinds)
        return Observation(
            local=jnp.where(active[:, None], jnp.concatenate([own, rows], axis=1), 0.0),
            legal=jnp.ones((n, 0), bool),
            active=active,
            state=observe.critic(config, state, geometry.body, kinds),
        )

    def _start(self, draws: Float[Array, "draws"]) -> tuple[Flight, Float[Array, "n"]]:
        """Place the teams head-on or one behind the other.

        Both are lines abreast facing east or west, rotated by a random angle.
        """
        n, config = self.size, self.config
        kind, yaw, side = draws[:3]
        each = draws[3:].reshape(11, n)
        is_neutral = kind < config.start_neutral
        sign = jnp.where(side < 0.5, 1.0, -1.0)  # which team starts in the west
        behind = _between(config.start_behind, each[0])
        gap = jnp.where(is_neutral, config.start_gap, behind)
        west = jnp.stack([-0.5 * gap, 0.5 * gap])
        x = sign * west
        # In a chase both teams fly east, so the western one is behind.
        course = jnp.where(is_neutral, sign * jnp.array([[1.0], [-1.0]]), 1.0)
        y = jnp.broadcast_to(config.start_spacing * (jnp.arange(n) - 0.5 * (n - 1)), (2, n))
        height = jnp.broadcast_to(_between(config.start_height, each[1]), (2, n))
        jitter = config.start_jitter * (2 * each[2:8].reshape(3, 2, n) - 1)
        x, y, height = (
            x + jitter[0],
            y + jitter[1],
            jnp.clip(height + jitter[2], *config.start_height),
        )
        speed = _between(config.start_speed, each[8:10])
        cosine, sine = jnp.cos(2 * jnp.pi * yaw), jnp.sin(2 * jnp.pi * yaw)

        def turned(x: Array, y: Array, z: Array) -> Float[Array, "N 3"]:
            return jnp.stack([cosine * x - sine * y, sine * x + cosine * y, z], axis=-1).reshape(
                2 * n, 3
            )

        zero = jnp.zeros((2, n))
        alpha, throttle = trim(config, self._frame(), height.reshape(-1), speed.reshape(-1))
        flight = Flight(
            turned(x, y, height),
            turned(course * speed, zero, zero),
            turned(zero, zero, zero + 1),
            alpha,
            throttle,
        )
        return flight, _between(config.skill, each[10])


def _between(limits: tuple[float, float], draw: Array) -> Array:
    return limits[0] + (limits[1] - limits[0]) * draw


def _by_team(vec: Vec) -> Vec:
    return Vec(*(part.reshape(2, -1) for part in (vec.x, vec.y, vec.z)))


def _select(alive: Bool[Array, "N"], new: Array, old: Array) -> Array:
    return jnp.where(alive.reshape(alive.shape + (1,) * (new.ndim - 1)), new, old)


def dogfight(size: int, level: str | None = None) -> AeroJax:
    """Make the paper's Dogfight with fighters only, optionally against opponents of one level.

    The airspace grows with the size of the teams.
    """
    radius = {2: 8000.0, 4: 9000.0, 8: 10e3}[size]
    env = AeroJax(size, replace(PRESETS["default"], radius=radius))
    return replace(env.against(level), name=f"{env.spec.name}-{level.lower()}") if level else env
