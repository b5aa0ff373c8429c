"""A Ray cluster: what it must have, and that losing a node of it loses nothing."""

import re
import sys
import time

import pytest

from ratiosym.errors import InputError, MissingLibraryError
from ratiosym.experiments.jobs import RayTasks
from ratiosym.experiments.jobs.cluster import check_resources
from ratiosym.experiments.study import run_study, study_status
from ratiosym.runs.files import read_json
from tests.example_runs import STEPS, run_command
from tests.experiments.test_study import expect_whole_curves, make_plan

LONG = {"steps": 400 * STEPS, "num_evaluations": 40}


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingLibraryError, match=re.escape("pip install 'ratiosym[cluster]'")):
        RayTasks()


@pytest.mark.parametrize(("cpus", "gpus"), [(0, 0), (-1, 1), (1, -1)])
def test_a_worker_needs_something(cpus, gpus):
    with pytest.raises(InputError, match=r"at least one must be positive"):
        RayTasks(cpus, gpus)


def test_what_no_machine_has():
    nodes = [
        {"Alive": True, "Resources": {"CPU": 4.0}},
        {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}},
    ]
    check_resources(nodes, {"CPU": 4, "GPU": 0})
    with pytest.raises(
        InputError, match=r"No machine of the cluster has 1 CPUs and 1 GPUs .*\(4 CPUs, 0 GPUs\)"
    ):
        check_resources(nodes, {"CPU": 1, "GPU": 1})
    with pytest.raises(InputError, match=r"has 5 CPUs for a worker"):
        check_resources(nodes, {"CPU": 5, "GPU": 0})


@pytest.fixture
def quiet_ray(monkeypatch):
    """No statistics, no warning of what will change, and no politeness to other processes: the test
    waits for it.
    """
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_that_loses_a_node(tmp_path, monkeypatch, quiet_ray):
    """Two nodes of one core each; one is killed in the middle: every run finishes, none is done
    twice.
    """
    from ray.cluster_utils import Cluster

    plan = make_plan(seeds=range(4), options=LONG)
    runs = plan.runs()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    other = cluster.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    most, killed, finished_before = [0], [], {}

    def kill_one(status):
        running = status.of("running")
        most[0] = max(most[0], len(running))
        if not killed and len(running) == 2 and all(state.steps > 0 for state in running):
            finished_before.update(
                {s.run.path: stamp(tmp_path / "study", s.run) for s in status.of("done")}
            )
            cluster.remove_node(other, allow_graceful=False)
            killed.append(time.monotonic())

    try:
        status = run_study(plan, tmp_path / "study", RayTasks, on_progress=kill_one)
    finally:
        cluster.shutdown()
    assert killed
    assert most == [2]
    assert len(status.of("done")) == 4
    assert study_status(tmp_path / "study") == status
    expect_whole_curves(tmp_path / "study", runs)
    for path, before in finished_before.items():
        assert stamp(tmp_path / "study", next(run for run in runs if run.path == path)) == before
    tries = sorted(
        len(list((tmp_path / "study" / run.path).glob("tensorboard/events*"))) for run in runs
    )
    assert tries == [
        1,
        1,
        1,
        2,
    ]  # the lost one went on from its checkpoint, no other was begun twice
    assert all(
        len(read_json(tmp_path / "study" / run.path / "config.json")["devices"]) == 1
        for run in runs
    )


def stamp(directory, run):
    return (directory / run.path / "summary.json").stat().st_mtime_ns


@pytest.mark.slow
def test_a_cluster_of_this_machine_alone(tmp_path):
    """As a user meets it: no chatter, no cluster left behind."""
    (tmp_path / "plan.toml").write_text(
        'name = "ray"\nalgorithms = ["mars"]\ntasks = ["mpe-spread-3ag"]\n'
        'seeds = [0, 1]\npreset = "smoke"\n'
    )
    words = (
        "study",
        "run",
        tmp_path / "plan.toml",
        "--out",
        tmp_path / "study",
        "--executor",
        "ray",
    )
    done = run_command(*words, env={"RAY_ADDRESS": ""})
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("2 done of 2 runs; nothing left to do.")
    missing = run_command(*words, "--gpus", 1, env={"RAY_ADDRESS": ""})
    assert missing.returncode == 2
    assert "No machine of the cluster has 1 CPUs and 1 GPUs for a worker" in missing.stderr
    nobody = run_command(*words, env={"RAY_ADDRESS": "127.0.0.1:1"})
    assert nobody.returncode == 2
    assert "There is no Ray cluster at RAY_ADDRESS=127.0.0.1:1" in nobody.stderr
