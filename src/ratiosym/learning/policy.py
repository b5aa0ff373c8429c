"""A trained policy, ready to act."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ratiosym.envs.teams import Memory, Team
from ratiosym.learning.model import Carry, Model
from ratiosym.types import EnvSpec, Key, Observation, State


@dataclass(frozen=True, repr=False, eq=False)
class Policy:
    """Trained decentralised policies: each agent acts on its own observation and carry.

    >>> policy = ratiosym.load_policy("runs/my-run")
    >>> carry = policy.initial_carry()
    >>> action, carry = policy.act(observation, carry, key)  # what env.step takes, [A] or [A, n]
    """

    model: Model
    params: PyTree  # of the actor
    spec: EnvSpec

    def __repr__(self) -> str:
        num_weights = sum(leaf.size for leaf in jax.tree.leaves(self.params))
        return (
            f"Policy('{self.spec.name}', {self.spec.num_agents} agents, "
            f"{type(self.model).__name__} with {num_weights:,} weights)"
        )

    def initial_carry(self, batch_shape: tuple[int, ...] = ()) -> Carry:
        """Return the carry for the start of an episode, or for a batch of episodes."""
        return self.model.initial_carry(self.spec, batch_shape).actor

    def act(
        self, observation: Observation, carry: Carry, key: Key, greedy: bool = False
    ) -> tuple[Array, Carry]:
        """Return all agents' actions, sampled or ``greedy`` (most likely), and the next carry."""
        return _act(self.model, self.params, observation, carry, key, greedy)

    def team(self, greedy: bool = False) -> Team:
        """Wrap the policies as a team that plays whole episodes."""

        def act(
            key: Key, state: State, observation: Observation, memory: Memory
        ) -> tuple[Array, Memory]:
            return self.act(observation, memory, key, greedy)

        return Team("a trained policy", lambda key, state: self.initial_carry(), act)


@partial(jax.jit, static_argnums=(0, 5))
def _act(
    model: Model, params: PyTree, observation: Observation, carry: Carry, key: Key, greedy: bool
) -> tuple[Array, Carry]:
    sequence = jax.tree.map(lambda x: jnp.asarray(x)[None], observation)  # a sequence of length one
    is_start = jnp.zeros((1, *observation.state.shape[:-1]), bool)
    policy, carries = model.actor(params, sequence, is_start, carry)
    action = policy.mode() if greedy else policy.sample(key)
    return policy.environment_action(action)[0], jax.tree.map(lambda x: x[0], carries)
