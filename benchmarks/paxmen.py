"""PaxMen's speed with 256 environments and random actions, on one device and on several.

Episode starts are included. For comparison, the NumPy model of the tests runs one environment in a
loop.
"""

from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.stepping import steps_per_second
from ratiosym.envs.registry import make
from ratiosym.types import Key, Observation
from tests.envs.paxmen.reference import Reference

NUM_ENVS = 256
NUM_STEPS = 256
GOALS = {
    "paxmen-4a": 500_000,
    "paxmen-5a": 250_000,
    "paxmen-6a": 250_000,
}  # steps per second on two cores


def random_moves(key: Key, observation: Observation) -> jax.Array:
    return jax.random.randint(
        key, observation.local.shape[:2], 0, observation.legal.shape[-1], jnp.int32
    )


def slow_steps_per_second(num_agents: int, num_episodes: int = 2) -> float:
    """Time the NumPy model: resets, random actions, steps and all observations."""
    rng = np.random.default_rng(0)
    model = Reference(num_agents, 0)
    began = perf_counter()
    for _ in range(num_episodes):
        model.start_anywhere(rng)
        spare = model.draw(rng)  # for a finished round, which random play never reaches
        for _ in range(model.time_limit):
            model.step(rng.integers(5, size=num_agents), spare)
            for agent in range(num_agents):
                model.view(agent)
            model.whole()
    return num_episodes * model.time_limit / (perf_counter() - began)


def main() -> None:
    num_devices = min(2, len(jax.devices()))
    print(f"{NUM_ENVS} environments, random actions, episode starts included; steps/s")
    print(
        f"{'task':10} {'NumPy':>8} {'1 device':>11} {num_devices:9} devices {'goal':>9} "
        f"{'of goal':>7} {'of NumPy':>9}"
    )
    for task, goal in GOALS.items():
        env = make(task, agent_ids=False)
        slow = max(slow_steps_per_second(env.spec.num_agents) for _ in range(3))
        one, several = (
            steps_per_second(env, random_moves, NUM_ENVS, NUM_STEPS, n) for n in (1, num_devices)
        )
        speeds = f"{slow:8,.0f} {one:11,.0f} {several:17,.0f} {goal:9,}"
        print(f"{task:10} {speeds} {several / goal:6.2f}x {several / slow:8.0f}x", flush=True)
