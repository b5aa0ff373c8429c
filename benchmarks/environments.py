"""Environment steps per second: the library as it ships, with its own auto-reset, beside ours with a pool of starts."""

import jax
import jax.numpy as jnp

from benchmarks.timing import best_seconds
from ratiosym.envs.protocol import Env
from ratiosym.envs.starts import begin_where, make_starts, pool_size
from ratiosym.envs.tasks import make

NUM_STEPS = 128


def ours(env: Env, num_envs: int) -> float:
    spec = env.spec

    @jax.jit
    def run(key: jax.Array) -> jax.Array:
        reset_key, starts_key, steps_key = jax.random.split(key, 3)
        state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
        starts = make_starts(env, starts_key, pool_size(num_envs, NUM_STEPS, spec.time_limit))

        def step(before, key):
            state, observation, starts = before
            action_key, env_key = jax.random.split(key)
            action = jax.random.uniform(action_key, (num_envs, spec.num_agents, spec.action.size), minval=-1.0)
            state, outcome = jax.vmap(env.step)(jax.random.split(env_key, num_envs), state, action)
            is_end = outcome.terminated | outcome.truncated
            starts, state, observation = begin_where(is_end, starts, state, outcome.observation)
            return (state, observation, starts), outcome.reward.sum()

        (_, observation, _), rewards = jax.lax.scan(
            step, (state, observation, starts), jax.random.split(steps_key, NUM_STEPS)
        )
        return rewards.sum() + observation.local.sum()

    return num_envs * NUM_STEPS / best_seconds(lambda: run(jax.random.key(0)))


def jaxmarl_as_it_ships(env: Env, num_envs: int) -> float:
    library, num_actions = env.library, env.spec.action.size

    @jax.jit
    def run(key: jax.Array) -> jax.Array:
        reset_key, steps_key = jax.random.split(key)
        observation, state = jax.vmap(library.reset)(jax.random.split(reset_key, num_envs))

        def step(before, key):
            state, _ = before
            action_key, env_key = jax.random.split(key)
            action = jax.random.uniform(action_key, (len(library.agents), num_envs, num_actions), minval=-1.0)
            actions = dict(zip(library.agents, action, strict=True))
            observation, state, reward, _, _ = jax.vmap(library.step)(
                jax.random.split(env_key, num_envs), state, actions
            )
            return (state, observation), sum(r.sum() for r in reward.values())

        (_, observation), rewards = jax.lax.scan(step, (state, observation), jax.random.split(steps_key, NUM_STEPS))
        return rewards.sum() + sum(jnp.sum(o) for o in observation.values())

    return num_envs * NUM_STEPS / best_seconds(lambda: run(jax.random.key(0)))


def main() -> None:
    print(f"{'task':16} {'envs':>5} {'library':>12} {'ours':>12}  steps/s, random actions, episode starts included")
    for task in ("mpe-spread-3ag",):
        env = make(task, agent_ids=False)
        for num_envs in (64, 256):
            theirs, own = jaxmarl_as_it_ships(env, num_envs), ours(env, num_envs)
            print(f"{task:16} {num_envs:5} {theirs:12,.0f} {own:12,.0f}  {own / theirs:.2f} x", flush=True)
