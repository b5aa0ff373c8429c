"""PaxMen, 256 environments, random actions, episode starts included: steps per second on one and on two devices.

Beside it the NumPy model of the tests, one environment in a loop.
"""

from functools import partial
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from benchmarks.timing import best_seconds
from ratiosym.envs.protocol import Env
from ratiosym.envs.starts import begin_where, make_starts, pool_size
from ratiosym.envs.tasks import make
from ratiosym.types import Key
from tests.envs.paxmen.reference import Reference

NUM_ENVS = 256
NUM_STEPS = 256
BARS = {"paxmen-4a": 500_000, "paxmen-5a": 250_000, "paxmen-6a": 250_000}  # steps per second on two cores


def play(env: Env, num_envs: int, key: Key) -> jax.Array:
    """``NUM_STEPS`` steps of ``num_envs`` environments; a number that depends on everything they gave."""
    spec = env.spec
    reset_key, starts_key, steps_key = jax.random.split(key, 3)
    state, observation = jax.vmap(env.reset)(jax.random.split(reset_key, num_envs))
    starts = make_starts(env, starts_key, pool_size(spec, num_envs, NUM_STEPS))

    def step(before, key):
        state, observation, starts = before
        action_key, env_key = jax.random.split(key)
        action = jax.random.randint(action_key, (num_envs, spec.num_agents), 0, spec.num_actions, jnp.int32)
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


def slow_steps_per_second(num_agents: int, num_episodes: int = 2) -> float:
    """The NumPy model: reset, random actions, steps and everything agents and critic see."""
    rng = np.random.default_rng(0)
    model = Reference(num_agents, 0)
    began = perf_counter()
    for _ in range(num_episodes):
        model.start_anywhere(rng)
        spare = model.draw(rng)  # for a round finished, which random play does not do
        for _ in range(model.time_limit):
            model.step(rng.integers(5, size=num_agents), spare)
            for agent in range(num_agents):
                model.view(agent)
            model.whole()
    return num_episodes * model.time_limit / (perf_counter() - began)


def main() -> None:
    num_devices = min(2, len(jax.devices()))
    print(f"{NUM_ENVS} environments, random actions, episode starts included; steps/s")
    print(f"{'task':10} {'NumPy':>8} {'1 device':>11} {num_devices:9} devices {'bar':>9} {'of bar':>7} {'of NumPy':>9}")
    for task, bar in BARS.items():
        env = make(task, agent_ids=False)
        slow = max(slow_steps_per_second(env.spec.num_agents) for _ in range(3))
        one, several = steps_per_second(env, 1), steps_per_second(env, num_devices)
        speeds = f"{slow:8,.0f} {one:11,.0f} {several:17,.0f} {bar:9,}"
        print(f"{task:10} {speeds} {several / bar:6.2f}x {several / slow:8.0f}x", flush=True)
