"""A long run costs as much per update as a short one: memory, time, checkpoints.

Measured on two busy cores, 20,000 updates with a checkpoint per 1,000: 2.2 ms of CPU time per
update from the second thousand to the last; 23 to 28 kB and about 80 ms per checkpoint throughout;
resident memory grew by 6.6 MB, of that 0.2 MB in the last 2,000 updates.
"""

import json

import pytest

from tests.example_runs import run_python

MEMORY = """
def memory():  # in bytes
    return 4096 * int(open("/proc/self/statm").read().split()[1])
"""

SAVES = """
import json, sys
from pathlib import Path
import numpy as np
from ratiosym.runs import checkpoint

arrays = {f"params/{i}": np.ones((32, 32), np.float32) for i in range(40)}
found = []
for update in range(601):
    checkpoint.save(Path(sys.argv[1]), arrays, checkpoint.Meta(update))
    if update % 300 == 0:
        found.append(memory())
print(json.dumps(found))
"""

UPDATES = """
import json, sys, time
from ratiosym.experiments.presets import configure
from ratiosym.learning.devices import start_jax
from ratiosym.runs import loop
from tests.torture.scenarios import LIGHT, SIZES, TASK

start_jax()
sizes = {**SIZES, **LIGHT, "num_envs": 1, "rollout_length": 1, "num_eval_episodes": 1}
found = []


def note(progress):
    if progress.rows and progress.update % 1000 == 0:
        found.append((memory(), time.process_time()))


config = configure(TASK, "smoke", steps=4000, num_evaluations=2, **sizes)
loop.start(config, sys.argv[1], on_progress=note)
print(json.dumps(found))
"""


def measure(code, directory):
    done = run_python("-c", MEMORY + code, directory)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_memory_does_not_grow_with_checkpoints(tmp_path):
    _, middle, end = measure(SAVES, tmp_path / "checkpoint")
    assert end - middle < 300 * 30_000  # a checkpoint has 160,000 bytes; freed memory is scattered


@pytest.mark.slow
def test_memory_and_time_do_not_grow_with_updates(tmp_path):
    (_, _), (first, started), (_, middle), (last, ended) = measure(UPDATES, tmp_path / "run")
    assert last - first < 2000 * 1500  # bytes
    assert ended - middle < 2 * (middle - started) + 1
