"""Tiny environments with known solutions."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ratiosym.types import Continuous, Discrete, EnvSpec, Key, Observation, Step


@dataclass(frozen=True)
class ConstantReward:
    """Episodes of one step with reward 1, whatever is done. Known answer: value and return are
    1.
    """

    num_agents: int = 1

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("constant-reward", self.num_agents, 1, 1, Discrete(2), time_limit=1)

    def reset(self, key: Key) -> tuple[Int[Array, ""], Observation]:
        return jnp.int32(0), self._observation()

    def step(
        self, key: Key, state: Int[Array, ""], action: Int[Array, "A"]
    ) -> tuple[Int[Array, ""], Step]:
        return state + 1, _step(
            self._observation(), jnp.ones(self.num_agents), terminated=jnp.array(True)
        )

    def _observation(self) -> Observation:
        return _observation(jnp.ones((self.num_agents, 1)), jnp.ones(1), num_actions=2)


class RecallState(NamedTuple):
    time: Int[Array, ""]
    bit: Int[Array, "A"]  # 0 or 1


@dataclass(frozen=True)
class Recall:
    """Memory: each agent sees a bit of its own (-1 or +1), then ``num_blank`` zeros; the last
    answer counts.

    The reward is 1 for an agent whose action in the last step is its bit (0 for -1, 1 for +1), else
    0, and 0 in all steps before. The critic sees the bits and the time. Known answer: with memory
    the mean return goes to 1. Without it the last observation is 0 whatever the bit was, and no
    policy does better than 0.5.
    """

    num_blank: int = 2
    num_agents: int = 2

    @property
    def spec(self) -> EnvSpec:
        length = self.num_blank + 1
        return EnvSpec(
            "recall", self.num_agents, 1, self.num_agents + 1, Discrete(2), time_limit=length
        )

    def reset(self, key: Key) -> tuple[RecallState, Observation]:
        bit = jax.random.bernoulli(key, shape=(self.num_agents,)).astype(jnp.int32)
        state = RecallState(jnp.int32(0), bit)
        return state, self._observation(state)

    def step(
        self, key: Key, state: RecallState, action: Int[Array, "A"]
    ) -> tuple[RecallState, Step]:
        is_last = state.time == self.num_blank
        reward = jnp.where(is_last & (action == state.bit), 1.0, 0.0)
        state = state._replace(time=state.time + 1)
        return state, _step(self._observation(state), reward, terminated=is_last)

    def _observation(self, state: RecallState) -> Observation:
        sign = 2.0 * state.bit - 1.0
        seen = jnp.where(state.time == 0, sign, 0.0)
        elapsed = state.time[None] / (self.num_blank + 1)
        return _observation(seen[:, None], jnp.concatenate([sign, elapsed]), num_actions=2)


@dataclass(frozen=True)
class Matching:
    """Two agents see one cue (-1 or +1) and must both choose its action: 1 for -1, 2 for +1. One
    step.

    Both get 1 if both are right, else 0; action 0 is never legal, and both get -1 if any agent
    takes it. Known answer: the return goes to 1. Uniform over the legal actions it is 0.25, over
    all actions -4/9.
    """

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("matching", 2, 1, 1, Discrete(3), time_limit=1)

    def reset(self, key: Key) -> tuple[Int[Array, ""], Observation]:
        state = jax.random.bernoulli(key).astype(jnp.int32)
        return state, self._observation(state)

    def step(
        self, key: Key, state: Int[Array, ""], action: Int[Array, "A"]
    ) -> tuple[Int[Array, ""], Step]:
        is_right, is_illegal = jnp.all(action == state + 1), jnp.any(action == 0)
        reward = jnp.where(is_illegal, -1.0, jnp.where(is_right, 1.0, 0.0))
        return state, _step(
            self._observation(state), jnp.full(2, reward), terminated=jnp.array(True)
        )

    def _observation(self, state: Int[Array, ""]) -> Observation:
        cue = 2.0 * state - 1.0
        observation = _observation(jnp.full((2, 1), cue), cue[None], num_actions=3)
        return observation._replace(legal=observation.legal.at[:, 0].set(False))


@dataclass(frozen=True)
class Target:
    """Continuous: each agent sees a target in [-0.8, 0.8], reward -(action - target)^2. One step.

    Known answer: the return goes to 0 (to minus the policy's variance). Always answering 0 gives
    -0.64 / 3 = -0.213, the best there is without looking.
    """

    num_agents: int = 2

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("target", self.num_agents, 1, self.num_agents, Continuous(1), time_limit=1)

    def reset(self, key: Key) -> tuple[Float[Array, "A"], Observation]:
        target = jax.random.uniform(key, (self.num_agents,), minval=-0.8, maxval=0.8)
        return target, self._observation(target)

    def step(
        self, key: Key, state: Float[Array, "A"], action: Float[Array, "A 1"]
    ) -> tuple[Float[Array, "A"], Step]:
        reward = -jnp.square(action[:, 0] - state)
        return state, _step(self._observation(state), reward, terminated=jnp.array(True))

    def _observation(self, target: Float[Array, "A"]) -> Observation:
        return _observation(target[:, None], target, num_actions=0)


@dataclass(frozen=True)
class Stakes:
    """Each agent sees a cue of its own, -1 or +1, and gets twice the cue, whatever it does, and 1
    more for the action that fits it: 0 for -1, 1 for +1. One step; the critic's state is empty.

    Known answer: the agents' mean return goes to the mean of 2 cue + 1, which is 1 over many
    episodes. A critic of the agents' own observations gives each agent 2 cue + 1, so -1 or 3. A
    critic for the team cannot tell agents apart: here it gives 1 whatever the cues are.
    """

    num_agents: int = 2

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("stakes", self.num_agents, 1, 1, Discrete(2), time_limit=1)

    def reset(self, key: Key) -> tuple[Int[Array, "A"], Observation]:
        cue = 2 * jax.random.bernoulli(key, shape=(self.num_agents,)).astype(jnp.int32) - 1
        return cue, self._observation(cue)

    def step(
        self, key: Key, state: Int[Array, "A"], action: Int[Array, "A"]
    ) -> tuple[Int[Array, "A"], Step]:
        reward = 2.0 * state + (2 * action - 1 == state)
        return state, _step(self._observation(state), reward, terminated=jnp.array(True))

    def _observation(self, cue: Int[Array, "A"]) -> Observation:
        return _observation(cue[:, None].astype(jnp.float32), jnp.ones(1), num_actions=2)


class CounterState(NamedTuple):
    time: Int[Array, ""]
    episode: Int[Array, ""]


@dataclass(frozen=True)
class Counter:
    """Counts its steps; nothing that is done matters. For tests of rollouts, starts and ends.

    The key of ``reset`` draws an episode id in 0..999, and the id gives the length, ``lengths[id %
    len(lengths)]``. Each agent sees (time, id, its index), the critic (time, id), where time is 0
    at the start. The reward for the step that raises time to t is t. The last step truncates if
    ``truncates``, else terminates. Known answer: an episode of length L gives L observations with
    time 0..L-1 before its actions, then a last one with time L, and the return L (L + 1) / 2.
    Metrics: ``time`` and ``episode`` as in the observation.
    """

    lengths: tuple[int, ...] = (3, 5)
    truncates: bool = False
    num_agents: int = 2

    @property
    def spec(self) -> EnvSpec:
        limit, metrics = max(self.lengths), ("time", "episode")
        return EnvSpec(
            "counter", self.num_agents, 3, 2, Discrete(2), time_limit=limit, metrics=metrics
        )

    def reset(self, key: Key) -> tuple[CounterState, Observation]:
        state = CounterState(jnp.int32(0), jax.random.randint(key, (), 0, 1000))
        return state, self._observation(state)

    def step(
        self, key: Key, state: CounterState, action: Int[Array, "A"]
    ) -> tuple[CounterState, Step]:
        state = state._replace(time=state.time + 1)
        is_last = state.time >= jnp.array(self.lengths)[state.episode % len(self.lengths)]
        observation = self._observation(state)
        time, episode = observation.state
        step = _step(
            observation,
            jnp.full(self.num_agents, time),
            terminated=is_last & (not self.truncates),
            truncated=is_last & self.truncates,
            metrics={"time": time, "episode": episode},
        )
        return state, step

    def _observation(self, state: CounterState) -> Observation:
        seen = jnp.stack([state.time, state.episode]).astype(jnp.float32)
        index = jnp.arange(self.num_agents, dtype=jnp.float32)
        local = jnp.column_stack([jnp.tile(seen[None], (self.num_agents, 1)), index])
        return _observation(local, seen, num_actions=2)


@dataclass(frozen=True)
class Broken:
    """Breaks: the reward is 1 for ``num_good`` steps and NaN ever after. Its episodes do not end in
    practice.

    Known answer: a learner must notice in the first update whose rollout reaches step ``num_good +
    1``.
    """

    num_good: int
    num_agents: int = 2

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("broken", self.num_agents, 1, 1, Discrete(2), time_limit=1_000_000)

    def reset(self, key: Key) -> tuple[Int[Array, ""], Observation]:
        return jnp.int32(0), self._observation()

    def step(
        self, key: Key, state: Int[Array, ""], action: Int[Array, "A"]
    ) -> tuple[Int[Array, ""], Step]:
        reward = jnp.where(state < self.num_good, 1.0, jnp.nan)
        state = state + 1
        truncated = state >= self.spec.time_limit
        return state, _step(
            self._observation(), jnp.full(self.num_agents, reward), truncated=truncated
        )

    def _observation(self) -> Observation:
        return _observation(jnp.ones((self.num_agents, 1)), jnp.ones(1), num_actions=2)


def _observation(
    local: Float[Array, "A F"], state: Float[Array, "S"], num_actions: int
) -> Observation:
    num_agents = local.shape[0]
    legal = jnp.ones((num_agents, num_actions), bool)
    return Observation(local, legal, active=jnp.ones(num_agents, bool), state=state)


def _step(
    observation: Observation,
    reward: Float[Array, "A"],
    terminated: Bool[Array, ""] | None = None,
    truncated: Bool[Array, ""] | None = None,
    metrics: dict[str, Array] | None = None,
) -> Step:
    no = jnp.array(False)
    return Step(
        observation=observation,
        reward=reward,
        terminated=no if terminated is None else terminated,
        truncated=no if truncated is None else truncated,
        metrics=metrics or {},
    )
