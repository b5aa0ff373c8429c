"""AeroJAX, 256 environments, random actions: steps per second on one and on two devices.

Included: the heuristic opponents, observations, rewards, metrics, and episode starts from a pool.
"""

from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from benchmarks.timing import best_seconds
from ratiosym.envs.protocol import Env
from ratiosym.envs.starts import begin_where, make_starts, pool_size
from ratiosym.envs.tasks import make
from ratiosym.types import Key

NUM_ENVS = 256
NUM_STEPS = 128
BARS = {"aerojax-2v2": 60_000, "aerojax-4v4": 30_000, "aerojax-8v8": 12_000}  # steps per second on two cores


def play(env: Env, num_envs: int, key: Key) -> jax.Array:
    """``NUM_STEPS`` steps of ``num_envs`` environments; a number that depends on everything they gave."""
    spec = env.spec
    reset_key, starts_key, steps_key = jax.random.split(key, 3)
    state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
    starts = make_starts(env, starts_key, pool_size(spec, num_envs, NUM_STEPS))

    def step(before, key):
        state, observation, starts = before
        action_key, env_key = jax.random.split(key)
        action = jax.random.uniform(action_key, (num_envs, spec.num_agents, 3), minval=-1.0)
        state, outcome = jax.vmap(env.step)(jax.random.split(env_key, num_envs), state, action)
        is_end = outcome.terminated | outcome.truncated
        everything = (outcome.observation.local, outcome.observation.state, outcome.reward, outcome.metrics)
        starts, state, observation = begin_where(is_end, starts, state, outcome.observation)
        return (state, observation, starts), sum(x.sum() for x in jax.tree.leaves(everything))

    _, sums = jax.lax.scan(step, (state, observation, starts), jax.random.split(steps_key, NUM_STEPS))
    return sums.sum()


def steps_per_second(env: Env, num_devices: int) -> float:
    mesh = Mesh(np.array(jax.devices()[:num_devices]), ("device",))
    one = partial(play, env, NUM_ENVS // num_devices)
    row = P("device")
    shared = jax.shard_map(lambda keys: one(keys[0])[None], mesh=mesh, in_specs=row, out_specs=row, check_vma=False)
    run = jax.jit(shared)
    keys = jax.random.split(jax.random.key(0), num_devices)
    return NUM_ENVS * NUM_STEPS / best_seconds(lambda: run(keys), 8)


def main() -> None:
    num_devices = min(2, len(jax.devices()))
    print(f"{NUM_ENVS} environments, heuristic opponents, observations and episode starts included; steps/s")
    print(f"{'task':12} {'1 device':>10} {num_devices:9} devices {'bar':>8} {'of bar':>7}")
    for task, bar in BARS.items():
        env = make(task, agent_ids=False)
        one, several = steps_per_second(env, 1), steps_per_second(env, num_devices)
        print(f"{task:12} {one:10,.0f} {several:17,.0f} {bar:8,} {several / bar:6.2f}x", flush=True)
