"""The benchmarks measure what they name."""

import json
import os
import subprocess
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import (
    aerojax,
    environments,
    gradient,
    learner,
    memory,
    paxmen,
    preset,
    result,
    scaling,
    seeds,
)
from ratiosym.envs.registry import make
from ratiosym.experiments import presets
from ratiosym.learning.config import RunShape
from ratiosym.learning.networks import Size, init_network
from ratiosym.learning.update import to_vector
from tests.example_runs import run_python
from tests.learning.helpers import assert_close

TASK = "mpe-spread-3ag"  # the one that is compiled fastest
SHAPE = RunShape(num_envs=4, rollout_length=4, num_epochs=1, num_minibatches=1)


@pytest.fixture
def set_small(monkeypatch):
    """Replace constants of a benchmark."""

    def replace(module, **constants):
        if hasattr(module, "peak_gflops"):
            constants = {"peak_gflops": lambda: 10.0, **constants}
        for name, value in constants.items():
            monkeypatch.setattr(module, name, value)

    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)  # of the tests' own process
    return replace


def rows(capsys):
    """The lines printed, as words."""
    return [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:scatter inputs")  # of the library
@pytest.mark.parametrize("task", environments.GOALS)
def test_environments_play_in_the_library_and_in_ours(task, monkeypatch):
    monkeypatch.setattr(environments, "NUM_STEPS", 3)
    with jax.numpy_rank_promotion("allow"):
        plays = (
            environments.as_it_ships(task, 2),
            environments.ours(make(task, agent_ids=False), 2),
        )
        assert all(np.isfinite(play(jax.random.key(0))) for play in plays)


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "word"), [(0.0, "met"), (1e9, "MISSED")])
def test_environments_are_measured(goal, word, set_small, capsys):
    set_small(environments, GOALS={TASK: goal}, NUM_STEPS=2, NUM_ROUNDS=1)
    environments.main()
    _, few, many = rows(capsys)
    assert few[:2] == [TASK, "64"]
    assert few[-1] == word
    assert many[:2] == [TASK, "256"]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "task"), [(aerojax, "aerojax-2v2"), (paxmen, "paxmen-4a")])
def test_our_environments_are_measured_on_one_device_and_on_two(module, task, set_small, capsys):
    set_small(module, GOALS={task: 1000}, NUM_ENVS=4, NUM_STEPS=2)
    module.main()
    row = rows(capsys)[-1]
    assert row[0] == task
    speed, share = (row[row.index("1,000") + step] for step in (-1, 1))
    assert float(share.strip("x")) == pytest.approx(int(speed.replace(",", "")) / 1000, abs=0.01)


@pytest.mark.slow
def test_all_forms_of_the_gradient_are_the_same():
    """Up to a factor: whole takes the mean over all rows, blocked the sum of the blocks' means."""
    network = init_network(jax.random.key(0), 3, 2, Size(4), True, 1.0)
    inputs = jax.random.normal(jax.random.key(1), (5, 32, 3))
    is_start = jax.random.bernoulli(jax.random.key(2), 0.3, (5, 32))
    block = (inputs, is_start, jnp.zeros((32, 4)))
    expected, *others = (
        np.asarray(to_vector(gradient.on_devices(partial(form, memory), num)(network, block)))
        for form in (gradient.whole, gradient.blocked)
        for memory in (gradient.plain_gru, gradient.gru)
        for num in (1, 2)
    )
    for other in others:
        factor = np.linalg.norm(other) / np.linalg.norm(expected)
        assert_close(other, factor * expected, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_gradients_are_measured(set_small, capsys):
    set_small(gradient, LENGTH=2, HIDDEN=4, ROWS=(32,))
    gradient.main()
    _, _, one, two = rows(capsys)
    assert (one[:2], two[:2]) == (["32", "1"], ["32", "2"])


@pytest.mark.slow
def test_phases_of_the_learner_are_measured(set_small, capsys):
    set_small(learner, NUM_UPDATES=1)
    learner.show_phases(TASK, SHAPE)
    _, *phases = rows(capsys)
    assert [row[0] for row in phases] == ["rollout", "values", "gradient"]


@pytest.mark.slow
def test_the_learner_is_measured(set_small):
    set_small(learner, NUM_UPDATES=1, PEERS={TASK: ("a peer", 1.0)}, RunShape=lambda **_: SHAPE)
    found = learner.measure_here(1)
    assert set(found) == {"peak", TASK}
    assert found[TASK] > 0


def test_shares_of_the_learner(set_small, capsys):
    """A peer with the same share of its peak as ours."""
    work = learner.flops_per_step(make(TASK).spec, RunShape(num_envs=64)) / 1e9
    assert work == pytest.approx(12.4e-3, rel=0.01)  # docs/performance.md
    set_small(
        learner,
        measure=lambda cores: {"peak": 100.0 * cores, TASK: 0.5 * cores * 100.0 / work},
        num_cores=lambda: 2,
        PEERS={TASK: ("Mava", 0.25 * learner.PEER_PEAK / work)},
        show_phases=lambda *_: None,
    )
    learner.main()
    text = capsys.readouterr().out
    assert "100 GFLOP/s on one core, 200 on 2" in text
    assert text.count("( 50%;") == 2
    assert "2.00 (1.8)" in text
    assert "2.0 x Mava's" in text


@pytest.mark.slow
def test_memory_is_measured(set_small, capsys):
    set_small(memory, EARLY=2, LATE=4)
    memory.main()
    assert "after 2 updates" in capsys.readouterr().out


def test_growth_is_measured(set_small, capsys, tmp_path):
    set_small(
        scaling,
        AGENTS={3: TASK},
        TASK=TASK,
        steps_per_second=lambda task, shape, devices: 1e6 / shape.actor_hidden_size,
        FIGURE=tmp_path / "scaling.png",
    )
    scaling.main()
    _, *table, _ = rows(capsys)
    assert table[1][:2] == ["3", "23,438"]  # agent steps per second with width 128
    assert [row[0] for row in table[3:7]] == ["16", "64", "256", "1024"]
    assert [row[:2] for row in table[8:]][-1] == ["512", "5,859"]
    assert scaling.FIGURE.stat().st_size > 1000


@pytest.mark.slow
def test_seeds_side_by_side_are_measured(set_small, capsys, monkeypatch):
    set_small(seeds, TASK=TASK, NUM_UPDATES=1, NUM_ENVS=8)
    assert seeds.seconds_per_update(2) > 0
    monkeypatch.setattr(seeds, "measure", lambda num_seeds: 1.0 if num_seeds == 1 else 1.5)
    seeds.main()
    assert "1.50 x (goal 1.1)" in capsys.readouterr().out


@pytest.mark.slow
def test_time_to_a_result_is_measured(set_small, capsys, monkeypatch):
    def configure(task, **_):
        return presets.change(presets.preset("smoke", task), objective="mars")

    found = {}

    def finish(command, env, **_):
        """Run in this process, and be asked for the same again with a filled cache."""
        monkeypatch.setattr(presets, "configure", configure)
        found.update(found or result.run(command[-2], float(command[-1])))
        return SimpleNamespace(stdout=b"printed by a library\n" + json.dumps(found).encode())

    set_small(result, GOALS={TASK: 1e9})
    monkeypatch.setattr(subprocess, "run", finish)
    result.main()
    _, cold, warm = rows(capsys)
    assert (cold[2], warm[2]) == ("cold", "warm")
    assert "REACHED:" in cold
    assert found["steps"] == 4 * 8 * 16
    assert found["first update"] >= found["import"] > 0


@pytest.mark.slow
def test_sizes_of_preset_cpu_are_compared(set_small, capsys, monkeypatch, tmp_path):
    def train(command, **_):
        return SimpleNamespace(stdout=json.dumps(preset.run(*command[-3:])).encode() + b"\n")

    set_small(
        preset,
        FILE=tmp_path / "preset" / "runs.jsonl",
        TASKS=(TASK,),
        CANDIDATES={"4, 8, 1, 1": (4, 8, 1, 1)},
        CORE_SECONDS=1e-3,
        STEPS_PER_EVALUATION=1024,
        MAX_STEPS=1024 * 20,
    )
    monkeypatch.setattr(subprocess, "run", train)
    preset.main()
    assert [(found["objective"], found["steps_per_update"]) for found in preset.read()] == [
        (objective, 1024) for objective in preset.OBJECTIVES
    ]
    assert "nan" not in capsys.readouterr().out
    monkeypatch.setattr(subprocess, "run", None)
    preset.main()  # nothing is repeated


def test_an_unknown_benchmark_is_refused():
    done = run_python("-m", "benchmarks", "learner", "speed")
    assert done.returncode == 1
    assert "Unknown benchmark speed. Choose from: gradient, learner" in done.stderr
