"""AeroJAX's speed with 256 environments and random actions, on one device and on several.

This includes heuristic opponents, observations, rewards, metrics, and episode starts from a pool.
"""

import jax

from benchmarks.stepping import steps_per_second
from ratiosym.envs.registry import make
from ratiosym.types import Key, Observation

NUM_ENVS = 256
NUM_STEPS = 128
GOALS = {
    "aerojax-2v2": 60_000,
    "aerojax-4v4": 30_000,
    "aerojax-8v8": 12_000,
}  # steps per second on two cores


def random_sticks(key: Key, observation: Observation) -> jax.Array:
    return jax.random.uniform(key, (*observation.local.shape[:2], 3), minval=-1.0)


def main() -> None:
    num_devices = min(2, len(jax.devices()))
    print(
        f"{NUM_ENVS} environments, heuristic opponents, observations and episode starts included; "
        f"steps/s"
    )
    print(f"{'task':12} {'1 device':>10} {num_devices:9} devices {'goal':>8} {'of goal':>7}")
    for task, goal in GOALS.items():
        env = make(task, agent_ids=False)
        one, several = (
            steps_per_second(env, random_sticks, NUM_ENVS, NUM_STEPS, n) for n in (1, num_devices)
        )
        print(
            f"{task:12} {one:10,.0f} {several:17,.0f} {goal:8,} {several / goal:6.2f}x", flush=True
        )
