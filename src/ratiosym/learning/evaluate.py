"""Whole episodes of a fixed team: a policy that is not being trained, or a scripted one."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ratiosym.envs.protocol import Env
from ratiosym.envs.teams import Memory, Team
from ratiosym.types import Key, Keys, Observation, State


class Episodes(NamedTuple):
    """Results of n episodes."""

    returns: Float[Array, "n"]  # reward averaged over agents, summed over steps
    lengths: Int[Array, "n"]
    metrics: dict[str, Float[Array, "n"]]  # at each episode's last step


class Moment(NamedTuple):
    """Snapshot of an episode in progress."""

    time: Int[Array, ""]
    env_state: State
    observation: Observation
    memory: Memory
    is_over: Bool[Array, ""]
    so_far: Episodes  # []


def run_episodes(env: Env, team: Team, keys: Keys) -> Episodes:
    """Play one episode per key, all in parallel, until the last one has ended.

    All randomness of an episode comes from its own key, so episodes do not depend on each other.
    """

    def is_under_way(moments: Moment) -> Bool[Array, ""]:
        return ~moments.is_over.all() & (moments.time[0] <= env.spec.time_limit)

    def step(moments: Moment) -> Moment:
        return jax.vmap(lambda key, moment: _advance(env, team, key, moment))(keys, moments)

    start = jax.vmap(lambda key: _begin(env, team, key))(keys)
    return jax.lax.while_loop(is_under_way, step, start).so_far


def record_episode(env: Env, team: Team, key: Key) -> list[Moment]:
    """Return all snapshots of the episode that ``run_episodes`` plays with this key."""

    def step(moment: Moment, _: None) -> tuple[Moment, Moment]:
        moment = _advance(env, team, key, moment)
        return moment, moment

    @jax.jit
    def play() -> tuple[Moment, Moment]:
        start = _begin(env, team, key)
        return start, jax.lax.scan(step, start, length=env.spec.time_limit)[1]

    start, moments = jax.device_get(play())
    length = int(moments.so_far.lengths[-1])
    return [start, *(jax.tree.map(lambda x, t=t: x[t], moments) for t in range(length))]


def _begin(env: Env, team: Team, key: Key) -> Moment:
    env_state, observation = env.reset(jax.random.fold_in(key, 0))
    team_key = jax.random.fold_in(key, env.spec.time_limit + 2)  # no step has this number
    memory = team.start(team_key, env_state)
    nothing = Episodes(
        jnp.zeros(()), jnp.zeros((), jnp.int32), {name: jnp.zeros(()) for name in env.spec.metrics}
    )
    return Moment(
        jnp.zeros((), jnp.int32), env_state, observation, memory, jnp.zeros((), bool), nothing
    )


def _advance(env: Env, team: Team, key: Key, moment: Moment) -> Moment:
    """Take one step. After the end, the episode's results no longer change."""
    action_key, env_key = jax.random.split(jax.random.fold_in(key, moment.time + 1))
    action, memory = team.act(action_key, moment.env_state, moment.observation, moment.memory)
    env_state, outcome = env.step(env_key, moment.env_state, action)
    is_running, so_far = ~moment.is_over, moment.so_far
    so_far = Episodes(
        so_far.returns + jnp.where(is_running, outcome.reward.mean(), 0.0),
        so_far.lengths + is_running,
        jax.tree.map(
            lambda old, new: jnp.where(is_running, new, old), so_far.metrics, outcome.metrics
        ),
    )
    is_over = moment.is_over | outcome.terminated | outcome.truncated
    return Moment(moment.time + 1, env_state, outcome.observation, memory, is_over, so_far)
