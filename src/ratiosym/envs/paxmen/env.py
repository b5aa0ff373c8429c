"""PaxMen, following the published rules. The state holds no grid; constants come from tables."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from ratiosym.envs.paxmen.layouts import (
    DOT_SETS,
    DOTS_PER_ROOM,
    EAT,
    HELD_OUT,
    LAYOUTS,
    MOVES,
    ROOM_CELLS,
    VIEW,
    Layout,
    tables,
)
from ratiosym.envs.paxmen.policies import REFERENCE_RETURNS, scripted_teams
from ratiosym.envs.paxmen.render import draw
from ratiosym.envs.protocol import Action
from ratiosym.envs.teams import Team
from ratiosym.errors import InputError
from ratiosym.types import Discrete, EnvSpec, Key, Observation, Step

NUM_ACTIONS = len(MOVES)
PENALTIES_PER_DOT = 40  # an agent that does not eat costs 1/40 = 0.025 dots
WALL, EMPTY, DOT, AGENT = np.array(
    [-1.0, 0.0, 1.0, 0.1], np.float32
)  # values in observations; with a dtype, so never weakly typed
NOWHERE = -1  # cell of an absent thing
TIME_LIMITS = {4: 100, 5: 115, 6: 130}
METRICS = (
    "normalised_score",
    "rooms_visited",
    "rooms_cleared",
    "rounds_cleared",
    "dots_eaten",
    "alone_in_corridor",
    "corridor_sharing",
    "time_to_first_clear",
)


class Tally(NamedTuple):
    """What the metrics accumulate over the episode, as exact integer counts."""

    num_dots: Int[Array, ""]  # eaten
    num_eaters: Int[Array, ""]  # summed over steps: agents that ate
    num_rounds: Int[Array, ""]  # times that the last dot was eaten
    first_clear: Int[Array, ""]  # first step that ate a last dot; until then the time limit
    num_alone: Int[Array, ""]  # summed over steps: agents with an arm to themselves
    num_sharing: Int[Array, ""]  # summed over steps: agents in an arm with others
    is_visited: Bool[Array, "N"]  # whether the room has been visited
    is_cleared: Bool[Array, "N"]  # whether all dots of the room have been eaten in some round


class PaxMenState(NamedTuple):
    """State of an episode. Cells are indices of the map's free cells, in the critic's order."""

    layout: Int[Array, ""]
    agents: Int[Array, "N"]  # cells of the agents
    dots: Int[Array, "N 3"]  # cells of the dots, by room
    is_left: Bool[Array, "N 3"]  # whether the dot has not been eaten yet
    time: Int[Array, ""]  # steps taken
    tally: Tally


def paxmen(
    num_agents: int,
    held_out: bool = False,
    mask_walls: bool = False,
    additive_penalty: bool = False,
) -> "PaxMen":
    """Make the task with 4, 5 or 6 agents, on the training maps or the held-out ones."""
    if num_agents not in LAYOUTS:
        raise InputError(
            f"PaxMen has no task with {num_agents} agents; choose from "
            f"{', '.join(map(str, LAYOUTS))}."
        )
    name = f"paxmen-{num_agents}a" + ("-heldout" if held_out else "")
    layouts = (HELD_OUT if held_out else LAYOUTS)[num_agents]
    measured = REFERENCE_RETURNS[num_agents]
    score_range = (measured["random"], measured["oracle"])
    return PaxMen(name, layouts, TIME_LIMITS[num_agents], score_range, mask_walls, additive_penalty)


@dataclass(frozen=True)
class PaxMen:
    """N agents leave a hub through N corridors to eat the three dots in the room at each end.

    Once all dots are eaten, they are laid out again, so a team that sends one agent to every room
    earns far more than one that leaves out a single room. There are N arms and C free cells.

    - Observation ``[N, 25]`` in [-1, 1]: the 5x5 cells around the agent, row by row: wall -1, empty
      0, dot 1, another agent 0.1 (hides a dot). The agent itself is not shown.
    - State ``[C]`` in [0, 1]: all free cells: the hub's, then for each arm the corridor's and the
      room's, each row by row. Dots and agents as above.
    - Action ``[N]`` in 0..4: up, down, right, left, eat. A move into a wall has no effect. An agent
      that eats stays and eats the dot in its cell, if there is one. All agents move, then all eat,
      simultaneously. All actions are legal, unless ``mask_walls`` is set.
    - Reward, shared: the number of dots eaten, minus 0.025 for every agent that did not eat; with
      ``additive_penalty``, minus 0.025 for every agent, whether it ate or not.
    - Start: a random map, distinct random cells of the hub, three random cells of each room.
    - End: only at the time limit.
    - Metrics: see ``docs/environments/paxmen.md``.
    """

    name: str
    layouts: tuple[Layout, ...]  # each episode draws one; check your own with ``layouts.validate``
    time_limit: int
    score_range: tuple[float, float]  # returns with normalised scores of 0 and 1
    mask_walls: bool = False  # whether moves into walls are illegal
    additive_penalty: bool = False  # whether agents that eat pay the step penalty, too

    @property
    def num_agents(self) -> int:
        """Number of agents, which equals the number of arms."""
        return len(self.layouts[0].arms)

    @property
    def num_cells(self) -> int:
        """Number of free cells of each map."""
        return tables(self.layouts).positions.shape[1]

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        return EnvSpec(
            name=self.name,
            num_agents=self.num_agents,
            observation_size=VIEW * VIEW,
            state_size=self.num_cells,
            action=Discrete(NUM_ACTIONS),
            time_limit=self.time_limit,
            metrics=METRICS,
        )

    @property
    def teams(self) -> dict[str, Team]:
        """Scripted teams, from weakest to strongest."""
        return scripted_teams(self.layouts)

    @property
    def references(self) -> dict[str, float]:
        """Measured mean returns of the teams; empty for other maps or another reward."""
        is_measured = self == paxmen(self.num_agents) if self.num_agents in LAYOUTS else False
        return REFERENCE_RETURNS[self.num_agents] if is_measured else {}

    def reset(self, key: Key) -> tuple[PaxMenState, Observation]:
        """Start an episode."""
        layout_key, agents_key, dots_key = jax.random.split(key, 3)
        layout = jax.random.randint(layout_key, (), 0, len(self.layouts), jnp.int32)
        # The hub's cells come first. The indices of the largest of i.i.d. numbers are distinct and
        # uniform.
        order = jax.random.uniform(agents_key, (self.layouts[0].hub ** 2,))
        state = PaxMenState(
            layout=layout,
            agents=jax.lax.top_k(order, self.num_agents)[1].astype(jnp.int32),
            dots=self._draw_dots(dots_key, layout),
            is_left=jnp.ones((self.num_agents, DOTS_PER_ROOM), bool),
            time=jnp.zeros((), jnp.int32),
            tally=_empty_tally(self.num_agents, self.time_limit),
        )
        return state, self._observe(state)

    def step(self, key: Key, state: PaxMenState, action: Action) -> tuple[PaxMenState, Step]:
        """Take one step."""
        agents = self._lookup("moves")[state.layout, state.agents, action]
        is_on = (agents[:, None, None] == state.dots[None]) & state.is_left[None]  # [A, N, 3]
        eats = is_on & (action == EAT)[:, None, None]
        is_left = state.is_left & ~eats.any(0)
        is_over = ~is_left.any()  # the round: all dots come back in the same step
        num_dots = eats.any(0).sum(dtype=jnp.int32)
        num_eaters = eats.any((1, 2)).sum(dtype=jnp.int32)
        after = PaxMenState(
            layout=state.layout,
            agents=agents,
            # Under vmap, new dots are drawn at every step, so drawing must be cheap.
            dots=jnp.where(is_over, self._draw_dots(key, state.layout), state.dots),
            is_left=is_left | is_over,
            time=state.time + 1,
            tally=self._count(state, agents, is_left, num_dots, num_eaters),
        )
        # With the additive penalty, agents that ate pay, too: r = D - 0.025 N.
        num_paying = self.num_agents - (0 if self.additive_penalty else num_eaters)
        step = Step(
            observation=self._observe(after),
            reward=jnp.full(self.num_agents, _exact_reward(num_dots, num_paying)),
            terminated=jnp.zeros((), bool),
            truncated=after.time >= self.time_limit,
            metrics=self._metrics(after),
        )
        return after, step

    def draw(self, state: PaxMenState) -> UInt8[np.ndarray, "H W 3"]:
        """Draw a state."""
        return draw(self.layouts, state)

    def _lookup(self, name: str) -> Array:
        return jnp.asarray(getattr(tables(self.layouts), name), jnp.int32)

    def _draw_dots(self, key: Key, layout: Int[Array, ""]) -> Int[Array, "N 3"]:
        """Draw one of the 455 sets of three cells per room, uniformly up to 1 part in 9 million."""
        bits = jax.random.bits(key, (self.num_agents,), jnp.uint32)
        sets = jnp.asarray(DOT_SETS, jnp.int32)[bits % len(DOT_SETS)]
        return self._lookup("room_starts")[layout][:, None] + sets

    def _observe(self, state: PaxMenState) -> Observation:
        dots = jnp.where(state.is_left, state.dots, NOWHERE).reshape(-1)
        # [A, A]: the agents as seen by each of them, without itself
        others = jnp.where(jnp.eye(self.num_agents, dtype=bool), NOWHERE, state.agents[None])
        window = self._lookup("windows")[state.layout, state.agents]  # [A, 25]
        cells = jnp.arange(self.num_cells, dtype=jnp.int32)
        seen = jnp.where(
            window == self.num_cells, WALL, jnp.where(_is_among(window, dots[None]), DOT, EMPTY)
        )
        whole = jnp.where(_is_among(cells, dots), DOT, EMPTY)
        return Observation(
            local=jnp.where(_is_among(window, others), AGENT, seen),
            legal=self._legal(state),
            active=jnp.ones(self.num_agents, bool),
            state=jnp.where(_is_among(cells, state.agents), AGENT, whole),
        )

    def _legal(self, state: PaxMenState) -> Bool[Array, "N 5"]:
        if not self.mask_walls:
            return jnp.ones((self.num_agents, NUM_ACTIONS), bool)
        to = self._lookup("moves")[state.layout, state.agents]
        return (to != state.agents[:, None]) | (jnp.arange(NUM_ACTIONS) == EAT)[None]

    def _count(
        self,
        before: PaxMenState,
        agents: Int[Array, "N"],
        is_left: Bool[Array, "N 3"],
        num_dots: Int[Array, ""],
        num_eaters: Int[Array, ""],
    ) -> Tally:
        """Update the tally after a step; ``is_left`` is from before new dots appear."""
        # An arm is a corridor and its room. An agent in the hub is neither alone nor sharing, so
        # that a team that never leaves scores 0 in both. A room counts as cleared only once.
        tally, is_over = before.tally, ~is_left.any()
        rooms = self._lookup("room_starts")[before.layout][None]  # [1, N]
        corridors = self._lookup("corridor_starts")[before.layout][None]
        in_room = (agents[:, None] >= rooms) & (agents[:, None] < rooms + ROOM_CELLS)  # [A, N]
        in_arm = (agents[:, None] >= corridors) & (agents[:, None] < rooms + ROOM_CELLS)
        in_each = in_arm.sum(0, dtype=jnp.int32)
        is_first = is_over & (tally.num_rounds == 0)
        return Tally(
            num_dots=tally.num_dots + num_dots,
            num_eaters=tally.num_eaters + num_eaters,
            num_rounds=tally.num_rounds + is_over,
            first_clear=jnp.where(is_first, before.time + 1, tally.first_clear),
            num_alone=tally.num_alone + (in_each == 1).sum(dtype=jnp.int32),
            num_sharing=tally.num_sharing + jnp.where(in_each > 1, in_each, 0).sum(dtype=jnp.int32),
            is_visited=tally.is_visited | in_room.any(0),
            is_cleared=tally.is_cleared | ~is_left.any(1),
        )

    def _metrics(self, state: PaxMenState) -> dict[str, Float[Array, ""]]:
        """Compute the metrics of the episode so far.

        The normalised score always uses the paper's reward, so that it stays comparable whatever
        reward is learned from.
        """
        tally = state.tally
        num_turns = self.num_agents * state.time
        low, high = self.score_range
        values = (
            (_exact_reward(tally.num_dots, num_turns - tally.num_eaters) - low) / (high - low),
            tally.is_visited.sum(),
            tally.is_cleared.sum(),
            tally.num_rounds,
            tally.num_dots,
            tally.num_alone / num_turns,
            tally.num_sharing / num_turns,
            tally.first_clear,
        )
        return {
            name: value.astype(jnp.float32) for name, value in zip(METRICS, values, strict=True)
        }


def _is_among(cells: Int[Array, "*b C"], things: Int[Array, "*#b M"]) -> Bool[Array, "*b C"]:
    """Compare all pairs, which is faster than scattering to a grid and gathering from it."""
    return (cells[..., :, None] == things[..., None, :]).any(-1)


def _exact_reward(num_dots: Int[Array, ""], num_paying: Int[Array, ""] | int) -> Float[Array, ""]:
    """Compute D - 0.025 P from integers, rounding once."""
    return (PENALTIES_PER_DOT * num_dots - num_paying).astype(jnp.float32) / PENALTIES_PER_DOT


def _empty_tally(num_arms: int, time_limit: int) -> Tally:
    zero, no = jnp.zeros((), jnp.int32), jnp.zeros(num_arms, bool)
    return Tally(zero, zero, zero, jnp.full((), time_limit, jnp.int32), zero, zero, no, no)
