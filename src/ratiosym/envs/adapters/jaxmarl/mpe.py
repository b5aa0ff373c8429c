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
    """Make MPE simple spread (v3) with continuous actions and as many landmarks as agents."""
    name = f"mpe-spread-{num_agents}ag"
    spread = load(name, "mpe.simple_spread", "SimpleSpreadMPE")
    settings = {"num_agents": num_agents, "num_landmarks": num_agents, "local_ratio": 0.5}
    return MpeSpread(name, build(spread, **settings, action_type="Continuous"))


class SpreadState(NamedTuple):
    """The library's state, and what the metrics accumulate over the episode."""

    world: Any
    num_collisions: Float[Array, ""]


@dataclass(frozen=True)
class MpeSpread:
    """``A`` agents in the plane cover ``A`` landmarks without colliding.

    - Observation ``[A, 6 A]``: own velocity (2), own position (2), relative positions of landmarks
      (2 A) and other agents (2 (A - 1)), and the others' messages (2 (A - 1)), always 0.
    - State ``[6 A A]``: all observations.
    - Action ``[A, 5]``: none, left, right, down, up; the force is 5 (right - left) and
      5 (up - down).
    - Reward, per agent: half the negative sum over landmarks of the distance to the nearest agent,
      and -0.5 for every agent it collides with.
    - End: only at the time limit.
    - Metrics: ``covered``, the fraction of landmarks with an agent within 0.1; ``collisions``,
      colliding pairs summed over the steps of the episode so far.
    """

    name: str
    library: Any  # SimpleSpreadMPE; compares by identity, so the factory builds one per size

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""
        num_agents = self.library.num_agents
        return EnvSpec(
            name=self.name,
            num_agents=num_agents,
            observation_size=6 * num_agents,
            state_size=6 * num_agents * num_agents,
            action=Continuous(5),
            # The library checks its counter before incrementing it.
            time_limit=self.library.max_steps + 1,
            metrics=("covered", "collisions"),
        )

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode: agents and landmarks uniform in [-1, 1]^2, at rest."""
        with jax.numpy_rank_promotion("allow"):
            observations, world = self.library.reset(key)
        return SpreadState(strongly_typed(world), jnp.zeros(())), self._observation(observations)

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step."""
        # The library draws noise and scales it by 0 (its u_noise and c_noise), so the key does not
        # matter. With a constant key, the noise is drawn once per batch of environments, which is
        # a fifth faster.
        del key
        # tanh values unchanged, as in Mava: the library's box is [0, 1], but it does
        # not clip, and the range of forces doubles.
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
        """Draw a state."""
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
    # [A, A], counting each pair twice and each agent with itself
    touching = _distances(agents, agents) < 2 * radius
    return (jnp.sum(touching, dtype=jnp.float32) - library.num_agents) / 2


def _distances(one: Float[Array, "N 2"], other: Float[Array, "M 2"]) -> Float[Array, "N M"]:
    return jnp.linalg.norm(one[:, None] - other[None], axis=-1)
