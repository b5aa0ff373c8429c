"""Where runs are computed: processes bound to cores that end when they should, and a Ray cluster
that loses a node.
"""

import json
import os
import re
import signal
import sys
import time
from contextlib import closing
from functools import partial

import pytest

from ratiosym.errors import InputError, MissingLibraryError
from ratiosym.experiments.executors import LocalProcesses, RayTasks, check_resources, share_cores
from ratiosym.experiments.study import examine, look, run_study
from ratiosym.experiments.worker import decode_run, encode_job, is_claimed
from ratiosym.runs.files import read_json
from tests.example_runs import STEPS, run_command
from tests.experiments.test_study import expect_whole_curves, make_plan, wait_until

LONG = {"steps": 400 * STEPS, "num_evaluations": 40}


# ------------------------------------------------------------------------------------- this machine


def test_cores_are_shared_out(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 7})
    assert share_cores(4) == [[2], [3], [5], [7]]
    assert share_cores(2) == [[2, 5], [3, 7]]
    assert share_cores(1) == [[2, 3, 5, 7]]
    assert share_cores(6) == [[2], [3], [5], [7], [2], [3]]


def test_a_job_survives_being_sent(tmp_path):
    [run] = make_plan(options={**LONG, "b_lower": 0.3}).runs()
    job = json.loads(encode_job(tmp_path, run, [1]))
    assert decode_run(job["run"]) == run
    assert (job["directory"], job["cores"]) == (str(tmp_path), [1])


def test_a_process_does_a_run_on_its_core(tmp_path):
    [run] = make_plan(options={"steps": STEPS, "num_evaluations": 1}).runs()
    with closing(LocalProcesses(tmp_path, num_workers=2)) as workers:
        workers.start(run)
        assert workers.has_room()
        ended = []
        wait_until(lambda: ended.extend(workers.ended()) or ended)
    assert ended == [(run, "")]
    assert look(tmp_path, run).state == "done"
    assert len(read_json(tmp_path / run.path / "config.json")["devices"]) == 1
    assert (tmp_path / "work" / run.task / "mars" / "seed-0.log").read_text() == ""  # no chatter


def start_one(tmp_path):
    [run] = make_plan(options=LONG).runs()
    workers = LocalProcesses(tmp_path, num_workers=1)
    workers.start(run)
    assert not workers.has_room()
    wait_until(lambda: is_claimed(tmp_path, run))
    return run, workers, workers.busy[0][2]


def test_a_killed_process_is_told(tmp_path):
    run, workers, process = start_one(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert workers.ended() == [(run, "The worker process was killed by SIGKILL.")]
    assert workers.ended() == []
    assert workers.has_room()
    assert not is_claimed(tmp_path, run)


def test_closing_ends_the_processes(tmp_path):
    run, workers, process = start_one(tmp_path)
    workers.close()
    assert process.returncode is not None
    assert not is_claimed(tmp_path, run)
    assert look(tmp_path, run).state in ("interrupted", "missing")


def test_a_process_ends_with_the_one_that_started_it(tmp_path):
    """Of which it only sees that its input closes."""
    run, _, process = start_one(tmp_path)
    process.stdin.close()
    process.wait(60)
    assert not is_claimed(tmp_path, run)


def test_the_last_words_of_a_process_are_kept(tmp_path):
    [run] = make_plan().runs()
    log = tmp_path / "work" / run.task / "mars" / "seed-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {i}\n" for i in range(100)))
    words = LocalProcesses(tmp_path, num_workers=1).describe_end(run, 1).splitlines()
    assert words == [
        "The worker process ended with code 1.",
        *(f"line {i}" for i in range(80, 100)),
    ]


def test_a_number_of_workers_that_cannot_be(tmp_path):
    with pytest.raises(InputError, match=r"--workers is 0; it must be at least 1\."):
        LocalProcesses(tmp_path, num_workers=0)


# ---------------------------------------------------------------------------------------- a cluster


def test_without_ray(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingLibraryError, match=re.escape("pip install 'ratiosym[cluster]'")):
        RayTasks(tmp_path)


@pytest.mark.parametrize(("cpus", "gpus"), [(0, 0), (-1, 1), (1, -1)])
def test_a_run_needs_something(tmp_path, cpus, gpus):
    with pytest.raises(InputError, match=r"a run needs some of one of them"):
        RayTasks(tmp_path, cpus, gpus)


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
    with pytest.raises(InputError, match=r"has 5 CPUs for a run"):
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

    def kill_one(standing):
        running = standing.of("running")
        most[0] = max(most[0], len(running))
        if not killed and len(running) == 2 and all(state.steps > 0 for state in running):
            finished_before.update(
                {s.run.path: stamp(tmp_path / "study", s.run) for s in standing.of("done")}
            )
            cluster.remove_node(other, allow_graceful=False)
            killed.append(time.monotonic())

    try:
        standing = run_study(plan, tmp_path / "study", RayTasks, on_progress=kill_one)
    finally:
        cluster.shutdown()
    assert killed
    assert most == [2]
    assert len(standing.of("done")) == 4
    assert examine(tmp_path / "study") == standing
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
    assert "No machine of the cluster has 1 CPUs and 1 GPUs for a run" in missing.stderr
    nobody = run_command(*words, env={"RAY_ADDRESS": "127.0.0.1:1"})
    assert nobody.returncode == 2
    assert "There is no Ray cluster at RAY_ADDRESS=127.0.0.1:1" in nobody.stderr


@pytest.mark.slow
def test_fewer_workers_get_more_cores(tmp_path):
    plan = make_plan(options={"steps": STEPS, "num_evaluations": 1})
    run_study(plan, tmp_path / "study", partial(LocalProcesses, num_workers=1))
    devices = read_json(tmp_path / "study" / plan.runs()[0].path / "config.json")["devices"]
    assert len(devices) == len(os.sched_getaffinity(0))
