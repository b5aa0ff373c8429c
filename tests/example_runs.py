"""Small runs shared by tests. They are read-only: copy one to change it."""

import csv
import os
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tensorboardX.proto import event_pb2

from ratiosym.experiments.presets import configure
from ratiosym.runs import checkpoint, loop

TASK = "mpe-spread-3ag"
STEPS = 128  # per update with the smoke preset
SETTINGS = {
    "preset_name": "smoke",
    "steps": 12 * STEPS,
    "num_evaluations": 6,
}  # checkpoints at 0, 2, 4 ... 12

TRACK = ("tensorboard",)

ROOT = Path(__file__).parents[1]
_OWN = ("TF_CPP_MIN_LOG_LEVEL", "XLA_FLAGS")  # set when JAX starts
_GIVEN = {name: os.environ[name] for name in _OWN if name in os.environ}  # before that
COMMAND = Path(sys.executable).with_name("ratiosym")
# For a process that must compute the same bits as this one, whatever the number of cores.
SAME_DEVICES = {"JAX_NUM_CPU_DEVICES": "2"}


@cache
def whole_run(base):
    """Train one seed without interruption."""
    return _uninterrupted(base / "whole", num_seeds=1)


@cache
def whole_runs(base):
    """Train seeds 0 and 1 in parallel without interruption."""
    return _uninterrupted(base / "whole-seeds", num_seeds=2)


def _uninterrupted(directory, num_seeds):
    with pytest.MonkeyPatch.context() as patch:
        # The first and the last, however slow the machine is.
        patch.setattr(loop, "CHECKPOINT_SECONDS", float("inf"))
        loop.start(configure(TASK, **SETTINGS), directory, num_seeds, track=TRACK)
    return directory


def run_command(*words, **options):
    """Run a command as a user would, with its output as text."""
    return _run([COMMAND, *words], **options)


def run_python(*words, cwd=ROOT, **options):
    """Python, in the repository's root unless told otherwise."""
    return _run([sys.executable, *words], cwd=cwd, **options)


def _run(words, env=None, **options):
    words = [str(word) for word in words]
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=900,  # long enough for a busy machine
        env=environment(**(env or {})),
        **options,
    )


def environment(**changes):
    """Return the environment variables of a new process, with changes.

    Excludes what this process has set for itself. Shapes are as strict as here, so that programs
    compiled here can be used.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _OWN}
    return {**variables, **_GIVEN, "JAX_NUMPY_RANK_PROMOTION": "raise", **changes}


def read_events(directory):
    """Return what TensorBoard shows of a run: {tag: {step: value}}.

    A later start hides everything at or after its step.
    """
    curves = {}
    # Sorted by the time in their names, as in TensorBoard.
    for path in sorted(directory.glob("tensorboard/events*")):
        for event in _events(path.read_bytes()):
            if event.session_log.status == event.session_log.START:
                kept = {
                    tag: {s: v for s, v in curve.items() if s < event.step}
                    for tag, curve in curves.items()
                }
                curves = {tag: curve for tag, curve in kept.items() if curve}
            for value in event.summary.value:
                curves.setdefault(value.tag, {})[event.step] = value.simple_value
    return curves


def _events(records):
    """Read TFRecords: length, its checksum, record, its checksum; the last may be incomplete."""
    while len(records) >= 12:
        (length,) = struct.unpack("<Q", records[:8])
        if len(records) < length + 16:
            return
        yield event_pb2.Event.FromString(records[12 : 12 + length])
        records = records[length + 16 :]


def contents(directory):
    """Return every file below a directory with its bytes."""
    return {
        str(p.relative_to(directory)): p.read_bytes()
        for p in sorted(directory.rglob("*"))
        if p.is_file()
    }


def training_table(directory):
    """Return ``training.csv`` as written, without the column that measures time."""
    with open(directory / "training.csv", newline="") as file:
        header, *rows = csv.reader(file)
    kept = [i for i, name in enumerate(header) if name != "steps_per_second"]
    assert len(kept) == len(header) - 1
    return [[row[i] for i in kept] for row in (header, *rows)]


def expect_same_numbers(one, other):
    """Assert that two runs have the same curves and final state, bit for bit."""
    assert (one / "evaluations.csv").read_bytes() == (other / "evaluations.csv").read_bytes()
    assert training_table(one) == training_table(other)
    episodes = [(run / "absolute_metric.csv").read_bytes() for run in (one, other)]
    assert episodes[0] == episodes[1]
    assert len(training_table(one)) == 1 + SETTINGS["steps"] // STEPS
    ends = [checkpoint.load(run / "checkpoint") for run in (one, other)]
    assert ends[0].meta.update == ends[1].meta.update == SETTINGS["steps"] // STEPS
    assert ends[0].arrays.keys() == ends[1].arrays.keys()
    assert any(name.startswith("params/actor") for name in ends[0].arrays)
    for name, values in ends[0].arrays.items():
        assert values.dtype == ends[1].arrays[name].dtype
        assert values.tobytes() == ends[1].arrays[name].tobytes(), name
