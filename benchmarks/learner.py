"""The whole learner with reference sizes: GRU 128, MLP 128, rollout 128, 4 epochs, 4 minibatches.

Prints environment steps per second, the achieved GFLOP/s compared to the machine's own matrix
multiplication, and the same program on one device and on several.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from benchmarks.timing import best_seconds, peak_gflops
from ratiosym.envs.registry import make
from ratiosym.learning.batch import make_batch
from ratiosym.learning.config import RunConfig, RunShape
from ratiosym.learning.learner import init_state, train_step
from ratiosym.learning.mesh import spread
from ratiosym.learning.rollout import rollout
from ratiosym.learning.train import make_learner
from ratiosym.types import EnvSpec

# Environment steps per second of recurrent MAPPO on two cores of an AMD EPYC machine whose matrix
# multiplication reaches 170 GFLOP/s, at 64 environments (docs/performance.md). The fraction of that
# peak is comparable between machines.
PEERS = {
    "mpe-spread-3ag": ("JaxMARL mappo_rnn", 3390.0),
    "rware-tiny-2ag": ("Mava rec_mappo", 2050.0),
}
PEER_PEAK = 170.0


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

    return shape.steps_per_update / best_seconds(step)


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


def main() -> None:
    peak = peak_gflops()
    print(f"matrix multiplication: {peak:.0f} GFLOP/s on {len(jax.devices())} devices")
    print(
        f"{'task':16} {'envs':>5} {'devices':>7} {'steps/s':>9} {'GFLOP/s':>8} {'of peak':>8}  "
        f"against a peer's share"
    )
    for task in PEERS:
        for num_envs in (64, 256):
            for num_devices in (1, len(jax.devices())):
                shape = RunShape(num_envs=num_envs)
                speed = steps_per_second(task, shape, jax.devices()[:num_devices])
                work = flops_per_step(make(task).spec, shape)
                share = speed * work / 1e9 / peak
                name, peer = PEERS[task]
                peer_share = peer * work / 1e9 / PEER_PEAK
                print(
                    f"{task:16} {num_envs:5} {num_devices:7} {speed:9,.0f} "
                    f"{speed * work / 1e9:8.0f} {share:8.0%}  "
                    f"{share / peer_share:.2f} x {name} ({peer:,.0f} steps/s at 64), "
                    f"{speed / peer:.2f} x in steps/s",
                    flush=True,
                )
    before = 0.0
    seconds = phases("mpe-spread-3ag", RunShape(num_envs=64))
    whole = seconds["gradient steps"]
    print("an update of mpe-spread-3ag, 64 environments:")
    for name, until in seconds.items():
        print(f"  {name:22} {1e3 * (until - before):7.0f} ms {(until - before) / whole:5.0%}")
        before = until
    peak_after = peak_gflops()
    print(
        f"matrix multiplication again: {peak_after:.0f} GFLOP/s ({peak_after / peak:.2f} x: 1 on a "
        f"quiet machine)"
    )
