"""Step many environments in one program, with episode starts from a pool, using all outputs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from benchmarks.timing import best_seconds
from ratiosym.envs.protocol import Env
from ratiosym.envs.starts import begin_where, make_starts, pool_size
from ratiosym.types import Key, Observation

Act = Callable[[Key, Observation], jax.Array]  # actions of all environments


def play(env: Env, act: Act, num_envs: int, num_steps: int, key: Key) -> jax.Array:
    """Step the environments and return a number that depends on all their outputs."""

    def step(before, key):
        state, observation, starts = before
        action_key, env_key = jax.random.split(key)
        action = act(action_key, observation)
        state, outcome = jax.vmap(env.step)(jax.random.split(env_key, num_envs), state, action)
        is_end = outcome.terminated | outcome.truncated
        starts, state, observation = begin_where(is_end, starts, state, outcome.observation)
        return (state, observation, starts), total(outcome)

    reset_key, starts_key, steps_key = jax.random.split(key, 3)
    state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
    starts = make_starts(env, starts_key, pool_size(env.spec, num_envs, num_steps))
    return jax.lax.scan(step, (state, observation, starts), jax.random.split(steps_key, num_steps))[
        1
    ].sum()


def steps_per_second(env: Env, act: Act, num_envs: int, num_steps: int, num_devices: int) -> float:
    """Measure the speed with the environments distributed over the devices."""
    mesh = Mesh(np.array(jax.devices()[:num_devices]), ("device",))
    one = partial(play, env, act, num_envs // num_devices, num_steps)
    row = P("device")
    shared = jax.shard_map(
        lambda keys: one(keys[0])[None], mesh=mesh, in_specs=row, out_specs=row, check_vma=False
    )
    run = jax.jit(shared)
    keys = jax.random.split(jax.random.key(0), num_devices)
    return num_envs * num_steps / best_seconds(lambda: run(keys), 8)


def total(values: Any) -> jax.Array:
    """Sum all numbers in a tree."""
    return sum(jnp.sum(x, dtype=jnp.float32) for x in jax.tree.leaves(values))
