"""Time to a result: train MARS with the shipped settings until an evaluation reaches a return.

Each task runs twice in processes of their own: with an empty cache of compiled programs, and again
with the cache that the first one has filled. The time is split into imports, compilation (up to the
end of the first update, less the time of a later one, and of the evaluation before training, which
follows it) and training.
"""

import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from time import perf_counter, time

GOALS = {"connector-5x5x3a": 2.2, "mpe-spread-3ag": -16.0}
FIRST_UPDATE_GOALS = {"cold": 15.0, "warm": 4.0}  # seconds on two cores


def run(task: str, began: float) -> dict[str, float]:
    """Train in this process, which was started at ``began``."""
    from ratiosym.envs.registry import make
    from ratiosym.experiments.presets import configure
    from ratiosym.learning.devices import start_jax
    from ratiosym.learning.train import Evaluated, Updated, make_learner, train

    start_jax()
    imported, clock = time() - began, perf_counter()
    config = configure(task, tuned=True, num_evaluations=60)
    updates: list[float] = []
    steps, best, compilation = 0, float("-inf"), 0.0
    for event in train(make_learner(make(task), config, 1), config, [0]):
        if isinstance(event, Updated):
            updates.append(perf_counter() - clock)
            steps = event.update * config.shape.steps_per_update
        if isinstance(event, Evaluated):
            best = max(best, float(event.episodes[0].returns.mean()))
            if event.update == 0:
                compilation = perf_counter() - clock - updates[0]
            if best >= GOALS[task]:
                break
    gaps = [after - before for before, after in pairwise(updates)]
    compilation += updates[0] - sorted(gaps)[len(gaps) // 2]
    return {
        "import": imported,
        "compilation": compilation,
        "training": perf_counter() - clock - compilation,
        "first update": imported + updates[0],
        "steps": steps,
        "best": best,
    }


def main() -> None:
    print(
        f"{'task':18} {'return':>7} {'cache':>5} {'import':>7} {'compile':>8} {'train':>7} "
        f"{'total':>7}  seconds; to the first update (goal)"
    )
    for task, goal in GOALS.items():
        with tempfile.TemporaryDirectory() as cache:
            for kind in ("cold", "warm"):
                command = [sys.executable, "-m", "benchmarks.result", task, str(time())]
                environment = {**os.environ, "RATIOSYM_CACHE": cache}
                out = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
                found = json.loads(out.stdout.splitlines()[-1])  # libraries print, too
                parts = [found[name] for name in ("import", "compilation", "training")]
                reached = (
                    "" if found["best"] >= goal else f"  NOT REACHED: best {found['best']:.2f}"
                )
                first = f"{found['first update']:.1f} ({FIRST_UPDATE_GOALS[kind]:g})"
                print(
                    f"{task:18} {goal:7} {kind:>5} {parts[0]:7.1f} {parts[1]:8.1f} {parts[2]:7.1f} "
                    f"{sum(parts):7.1f}  {first}; "
                    f"{found['steps']:,} steps{reached}",
                    flush=True,
                )


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], float(sys.argv[2]))))
