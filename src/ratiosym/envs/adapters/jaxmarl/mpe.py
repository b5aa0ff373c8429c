"""MPE simple spread."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ratiosym.envs.adapters.jaxmarl.library import build, load, stack, unstack
from ratiosym.envs.adapters.jaxmarl.pictures import Picture, draw_spread
from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Action
from ratiosym.types import Continuous, EnvSpec, Key, Observation, State, Step


@cache
def mpe_spread(num_agents: int) -> "MpeSpread":
    """MPE simple spread (v3) with continuous actions, as many landmarks as agents."""
    name = f"mpe-spread-{num_agents}ag"
    spread = load(name, "mpe.simple_spread", "SimpleSpreadMPE")
    settings = {"num_agents": num_agents, "num_landmarks": num_agents, "local_ratio": 0.5}
    return MpeSpread(name, build(spread, **settings, action_type="Continuous"))


class SpreadState(NamedTuple):
    """The library's state and what the metrics remember of the episode."""

    world: Any
    num_collisions: Float[Array, ""]


@dataclass(frozen=True)
class MpeSpread:
    """Agents in the plane cover as many landmarks as they are, without bumping into one another.

    Observation ``[A, 6 A]``: own velocity (2), own position (2), landmarks (2 A) and other agents
    (2 (A - 1)) relative to oneself, and the others' messages (2 (A - 1)), always 0. State ``[6 A
    A]``: all of them. Action ``[A, 5]``: nothing, left, right, down, up; the force is 5 (right -
    left) and 5 (up - down). Reward, per agent: half the negative sum over landmarks of the distance
    to the nearest agent, and minus a half for every agent one collides with. End: always the clock.
    Metrics: ``covered``, the share of landmarks with an agent within 0.1; ``collisions``, colliding
    pairs summed over the episode's steps so far.
    """

    name: str
    library: Any  # SimpleSpreadMPE: equal to itself alone, so the factory builds one for each size

    @property
    def spec(self) -> EnvSpec:
        """The sizes of everything."""
        num_agents = self.library.num_agents
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=6 * num_agents,
            state_size=6 * num_agents * num_agents,
            action=Continuous(5),
            time_limit=self.library.max_steps
            + 1,  # the library compares its counter before raising it
            metrics=("covered", "collisions"),
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode: agents and landmarks uniform in [-1, 1]^2, at rest."""
        with jax.numpy_rank_promotion("allow"):
            observations, world = self.library.reset(key)
        return SpreadState(strongly_typed(world), jnp.zeros(())), self._observation(observations)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        # The library draws noise and scales it by 0 (its u_noise and c_noise), so no key changes
        # the step. With a constant one the noise is drawn once for a whole batch of environments: a
        # fifth faster.
        del key
        # Decision 5: tanh values as they are, though the library's box is [0, 1] (it does not
        # clip).
        actions = unstack(self.library, action)
        with jax.numpy_rank_promotion("allow"):
            observations, world, rewards, dones, _ = self.library.step_env(
                jax.random.key(0), state.world, actions
            )
        num_collisions = state.num_collisions + _num_collisions(self.library, world)
        step = Step(
            observation=self._observation(observations),
            reward=stack(self.library, rewards),
            terminated=jnp.zeros((), bool),
            truncated=dones["__all__"],
            metrics={"covered": _covered(self.library, world), "collisions": num_collisions},
        )
        return SpreadState(world, num_collisions), step

    def draw(self, state: State) -> Picture:
        """A picture of a state."""
        return draw_spread(self.library, state.world)

    def _observation(self, observations: dict[str, Array]) -> Observation:
        local = stack(self.library, observations)
        num_agents = local.shape[0]
        return Observation(
            local=local,
            legal=jnp.ones((num_agents, 0), bool),
            active=jnp.ones(num_agents, bool),
            state=local.reshape(-1),  # [A F]
        )


def _covered(library: Any, world: Any) -> Float[Array, ""]:
    agents, landmarks = jnp.split(world.p_pos, [library.num_agents])
    return jnp.mean(jnp.any(_distances(agents, landmarks) < 0.1, axis=0), dtype=jnp.float32)


def _num_collisions(library: Any, world: Any) -> Float[Array, ""]:
    agents, radius = world.p_pos[: library.num_agents], library.rad[0]
    touching = (
        _distances(agents, agents) < 2 * radius
    )  # [A, A], each pair twice and each agent with itself
    return (jnp.sum(touching, dtype=jnp.float32) - library.num_agents) / 2


def _distances(one: Float[Array, "N 2"], other: Float[Array, "M 2"]) -> Float[Array, "N M"]:
    return jnp.linalg.norm(one[:, None] - other[None], axis=-1)
