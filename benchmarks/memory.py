"""Check that memory does not grow during a run: resident size and live arrays over time."""

import resource
from pathlib import Path

import jax

from ratiosym.envs.registry import make
from ratiosym.learning.config import RunConfig, RunShape
from ratiosym.learning.train import Updated, make_learner, train

EARLY, LATE = 200, 1999  # updates after which memory is measured


def resident_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    shape = RunShape(
        num_envs=16,
        rollout_length=32,
        num_epochs=1,
        num_minibatches=2,
        actor_hidden_size=32,
        critic_hidden_size=32,
    )
    config = RunConfig(
        "mpe-spread-3ag", steps=(LATE + 1) * shape.steps_per_update, num_evaluations=2, shape=shape
    )
    learner = make_learner(make(config.task), config, 1)
    seen = {}
    for event in train(learner, config, [0]):
        if isinstance(event, Updated) and event.update in (EARLY, LATE):
            seen[event.update] = (resident_mb(), len(jax.live_arrays()))
    (early, arrays_early), (late, arrays_late) = seen[EARLY], seen[LATE]
    print(
        f"resident: {early:.0f} MB after {EARLY:,} updates, {late:.0f} MB after {LATE:,} "
        f"({late / early:.2f} x)"
    )
    print(f"live arrays: {arrays_early} and {arrays_late}")
