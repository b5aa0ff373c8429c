"""The whole learner with reference sizes: GRU 128, MLP 128, rollout 128, 4 epochs, 4 minibatches.

Prints environment steps per second on one core and with one device per core, and the share of the
matrix-multiplication peak that this is: of one core's peak and of all cores' peak, each measured in
the same process as the learner. Both processes take turns.
"""

import json
import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from benchmarks.timing import best_seconds, peak_gflops
from ratiosym.envs.registry import make
from ratiosym.learning.batch import make_batch
from ratiosym.learning.config import RunConfig, RunShape
from ratiosym.learning.devices import enable_compilation_cache, num_cores, start_jax
from ratiosym.learning.learner import init_state, train_step
from ratiosym.learning.mesh import spread
from ratiosym.learning.rollout import rollout
from ratiosym.learning.train import make_learner
from ratiosym.types import EnvSpec

# Environment steps per second of recurrent MAPPO with 64 environments on two cores of an AMD EPYC
# whose matrix multiplication reaches 175 GFLOP/s (docs/performance.md). The share of the peak is
# comparable between machines.
PEERS = {
    "rware-tiny-2ag": ("Mava", 1875.0),
    "connector-5x5x3a": ("Mava", 1427.0),
    "smax-2s3z": ("JaxMARL", 1450.0),
    "mpe-spread-3ag": ("JaxMARL", 2503.0),
}
PEER_PEAK = 175.0
GOALS = {"one core": 0.55, "all cores": 0.5, "ratio": 1.8}
NUM_ENVS = 64
NUM_TURNS = 2
NUM_UPDATES = 12  # in a turn: devices that wait for each other feel any other load


def flops_per_step(spec: EnvSpec, shape: RunShape) -> float:
    """Return the FLOPs per environment step: one pass in the rollout, three in each epoch."""

    def row(num_inputs: int, h: int, num_outputs: int) -> float:
        return 2.0 * (num_inputs * h + 6 * h * h + h * h + h * num_outputs)

    num_outputs = spec.num_actions or spec.action.size
    actor = row(spec.observation_size, shape.actor_hidden_size, num_outputs)
    critic = row(spec.state_size, shape.critic_hidden_size, 1)
    return (spec.num_agents * actor + critic) * (1 + 3 * shape.num_epochs)


def steps_per_second(task: str, shape: RunShape, devices: list[jax.Device]) -> float:
    env = make(task)
    config = RunConfig(task, shape=shape)
    learner = make_learner(env, config, 1, devices)
    settings = jax.tree.map(np.float32, (config.hyperparameters, config.bounds))
    state = init_state(learner, [0])

    def step() -> object:
        nonlocal state
        state, metrics = train_step(learner, state, *settings)
        return metrics

    return shape.steps_per_update / best_seconds(step, NUM_UPDATES)


def phases(task: str, shape: RunShape) -> dict[str, float]:
    """Return the seconds from the start of an update to the end of each phase."""
    env, config = make(task), RunConfig(task, shape=shape)
    learner = make_learner(env, config, 1)
    settings = jax.tree.map(np.float32, config.hyperparameters)
    state = init_state(learner, [0])

    def collect(params, groups):
        act = partial(rollout, env, shape, learner.model, params.actor)
        return jax.vmap(act, out_axes=(0, 1, 0))(groups)

    def estimate(params, groups):
        after, transition, _ = collect(params, groups)
        return make_batch(shape, learner.model, params.critic, groups, after, transition, settings)

    def total(part):
        def summed(params, groups):  # use all outputs, so that nothing is optimised away
            leaves = [
                x
                for x in jax.tree.leaves(part(params, groups))
                if jnp.issubdtype(x.dtype, jnp.floating)
            ]
            return jax.lax.psum(sum(x.sum() for x in leaves), "group")

        specs = (P("seed"), P("seed", "group"))
        program = jax.jit(spread(learner.mesh, summed, specs, P("seed")))
        return best_seconds(lambda: program(state.params, state.groups))

    result = {"rollout": total(collect), "values and advantages": total(estimate)}
    return result | {
        "gradient steps": shape.steps_per_update / steps_per_second(task, shape, jax.devices())
    }


def measure(num_used_cores: int) -> dict[str, float]:
    """Measure peak and learner in a process of its own on this many cores."""
    command = [sys.executable, "-m", "benchmarks.learner", str(num_used_cores)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def measure_here(num_used_cores: int) -> dict[str, float]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:num_used_cores])
    start_jax()
    enable_compilation_cache()  # the second turn compiles nothing
    shape = RunShape(num_envs=NUM_ENVS)
    result = {"peak": peak_gflops()}
    result |= {task: steps_per_second(task, shape, jax.devices()) for task in PEERS}
    return result | {"peak": max(result["peak"], peak_gflops())}


def main() -> None:
    turns = [(measure(1), measure(num_cores())) for _ in range(NUM_TURNS)]
    one, many = ({k: max(t[i][k] for t in turns) for k in turns[0][i]} for i in (0, 1))
    print(
        f"matrix multiplication: {one['peak']:.0f} GFLOP/s on one core, {many['peak']:.0f} on "
        f"{num_cores()}; {NUM_ENVS} environments, steps/s (share of the peak; goal)"
    )
    print(f"{'task':18} {'one core':>20} {'all cores':>20} {'ratio':>12}   share of a peer")
    shape = RunShape(num_envs=NUM_ENVS)
    for task, (name, peer) in PEERS.items():
        work = flops_per_step(make(task).spec, shape) / 1e9
        shares = [speeds[task] * work / speeds["peak"] for speeds in (one, many)]
        cells = [
            f"{speeds[task]:7,.0f} ({share:4.0%}; {goal:.0%})"
            for speeds, share, goal in zip((one, many), shares, list(GOALS.values()), strict=False)
        ]
        peer_share = peer * work / PEER_PEAK
        ratio = f"{many[task] / one[task]:.2f} ({GOALS['ratio']})"
        print(
            f"{task:18} {cells[0]:>20} {cells[1]:>20} {ratio:>12}   "
            f"{shares[1] / peer_share:.1f} x {name}'s",
            flush=True,
        )
    show_phases("mpe-spread-3ag", shape)


def show_phases(task: str, shape: RunShape) -> None:
    before, seconds = 0.0, phases(task, shape)
    whole = seconds["gradient steps"]
    print(f"an update of {task}, {shape.num_envs} environments:")
    for name, until in seconds.items():
        print(f"  {name:22} {1e3 * (until - before):7.0f} ms {(until - before) / whole:5.0%}")
        before = until


if __name__ == "__main__":
    print(json.dumps(measure_here(int(sys.argv[1]))))
