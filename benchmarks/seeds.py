"""Seeds side by side: K seeds on K cores against one seed on one core, in turns.

Each measurement has a process of its own, since a process cannot change its number of devices.
"""

import json
import os
import subprocess
import sys

from benchmarks.timing import best_seconds

TASK = "connector-5x5x3a"
NUM_TURNS = 2
NUM_UPDATES = 12
NUM_ENVS = 64
GOAL = 1.1


def seconds_per_update(num_seeds: int) -> float:
    """Measure an update of several seeds on as many cores, in this process."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:num_seeds])
    import jax
    import numpy as np

    from ratiosym.envs.registry import make
    from ratiosym.learning.config import RunConfig, RunShape
    from ratiosym.learning.devices import start_jax
    from ratiosym.learning.learner import init_state, train_step
    from ratiosym.learning.train import make_learner

    start_jax()
    config = RunConfig(TASK, shape=RunShape(num_envs=NUM_ENVS))
    learner = make_learner(make(TASK), config, num_seeds)
    settings = jax.tree.map(np.float32, (config.hyperparameters, config.bounds))
    state = init_state(learner, range(num_seeds))

    def step() -> object:
        nonlocal state
        state, metrics = train_step(learner, state, *settings)
        return metrics

    return best_seconds(step, NUM_UPDATES)


def measure(num_seeds: int) -> float:
    command = [sys.executable, "-m", "benchmarks.seeds", str(num_seeds)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    num_cores = len(os.sched_getaffinity(0))
    turns = [(measure(1), measure(num_cores)) for _ in range(NUM_TURNS)]
    one, many = (min(turn[i] for turn in turns) for i in (0, 1))
    print(
        f"{TASK}, seconds per update: one seed on one core {one:.2f}, {num_cores} seeds on "
        f"{num_cores} cores {many:.2f}: {many / one:.2f} x (goal {GOAL})"
    )


if __name__ == "__main__":
    print(json.dumps(seconds_per_update(int(sys.argv[1]))))
