"""Studies: nothing lost, nothing repeated, nothing done twice; failures kept; what is there is told
as it is.
"""

import dataclasses
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from threading import Event, Thread

import pytest

from ratiosym.errors import InputError
from ratiosym.experiments import run_job
from ratiosym.experiments.jobs import LocalProcesses, claim, perform
from ratiosym.experiments.jobs.runner import MAX_LOSSES
from ratiosym.experiments.plans import Plan, read_plan
from ratiosym.experiments.run_job import RunJob
from ratiosym.experiments.study import (
    RunStatus,
    StudyStatus,
    begin_study,
    read_study,
    run_status,
    run_study,
    study_status,
)
from ratiosym.experiments.tuning import Search, tune
from ratiosym.runs.files import read_json
from tests.example_runs import (
    COMMAND,
    ROOT,
    STEPS,
    TASK,
    TRACK,
    contents,
    environment,
    expect_same_numbers,
)
from tests.experiments.jobs.example_jobs import Deadly, Here
from tests.waiting import wait_until

WHOLE = {"steps": 12 * STEPS, "num_evaluations": 6}  # the run of the fixture ``whole``
TOO_FAST = {
    "label": "too-fast",
    "objective": "mars",
    "options": {"actor_learning_rate": 1e30},
}  # not finite at once


def make_plan(algorithms=("mars",), seeds=(0,), **changes):
    data = {
        "name": "test",
        "algorithms": list(algorithms),
        "tasks": [TASK],
        "seeds": list(seeds),
        "preset": "smoke",
        "track": list(TRACK),
    }
    return Plan.from_dict({**data, "options": WHOLE, **changes})


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("ratiosym.experiments.jobs.runner.POLL_SECONDS", 0.01)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study with a run that went well and one that failed; only read."""
    directory = tmp_path_factory.mktemp("study") / "finished"
    return directory, run_study(make_plan(["mars", TOO_FAST]), directory, Here)


def interrupt(directory):
    """A finished run as if it had been killed after its first evaluation."""
    (directory / "summary.json").unlink()
    shutil.rmtree(directory / "checkpoint" / "12")
    return directory


# -------------------------------------------------------------------------------- from start to end


def test_a_study_leaves_runs_as_training_does(finished, whole):
    directory, status = finished
    done, failed = status.runs
    assert (done.state, failed.state) == ("done", "failed")
    place = directory / "runs" / TASK / "mars" / "seed-0"
    assert sorted(p.name for p in place.iterdir()) == sorted(p.name for p in whole.iterdir())
    expect_same_numbers(place, whole)
    record = read_json(place / "config.json")
    assert record["command"] == f"ratiosym train --config {place / 'config.json'}"
    assert (record["preset"], record["tuned"]) == ("smoke", False)
    assert record["track"] == list(TRACK)
    assert sorted(p.name for p in directory.iterdir()) == ["plan.json", "runs", "work"]


def test_the_plan_is_kept_with_where_it_ran(finished):
    directory, _ = finished
    details = read_json(directory / "plan.json")
    assert set(details) == {
        "plan",
        "versions",
        "commit",
        "devices",
        "platform",
        "processor",
        "command",
        "started_by",
    }
    assert Plan.from_dict(details["plan"]) == read_study(directory) == make_plan(["mars", TOO_FAST])


def test_a_failed_run_keeps_its_error_and_the_others_go_on(finished):
    directory, status = finished
    [failed] = status.of("failed")
    place = directory / failed.run.path
    text = (place / "failure.txt").read_text()
    assert text.startswith("NonFiniteLoss: The loss of seed 0 is not a finite number after update")
    assert "Traceback (most recent call last)" in text
    assert failed.error == text.splitlines()[0]
    assert not (place / "summary.json").exists()
    assert status.seconds_left() == 0


def test_what_is_over_is_left_alone(finished):
    directory, status = finished
    before = contents(directory / "runs")
    here = Here()
    again = run_study(make_plan(["mars", TOO_FAST]), directory, lambda: here)
    assert here.order == []
    assert contents(directory / "runs") == before
    assert again == status
    assert study_status(directory) == status


def test_a_failed_run_is_tried_again_if_asked(finished, tmp_path):
    directory = shutil.copytree(finished[0], tmp_path / "copied")
    place = directory / "runs" / TASK / "too-fast" / "seed-0"
    (place / "failure.txt").write_text("an older error\n")
    done = contents(directory / "runs" / TASK / "mars")
    status = run_study(make_plan(["mars", TOO_FAST]), directory, Here, retry_failed=True)
    assert status.of("failed")[0].error.startswith("NonFiniteLoss")
    assert contents(directory / "runs" / TASK / "mars") == done


def test_progress_is_told_on_the_way(finished, tmp_path):
    seen = []
    directory = shutil.copytree(finished[0], tmp_path / "copied")
    interrupt(directory / "runs" / TASK / "mars" / "seed-0")
    run_study(make_plan(["mars", TOO_FAST]), directory, Here, on_progress=seen.append)
    assert all(isinstance(status, StudyStatus) for status in seen)
    assert len(seen[-1].of("done")) == 1
    notes = read_json(RunJob(directory, seen[-1].runs[0].run).notes)
    assert notes["steps"] == notes["timed_steps"] == 12 * STEPS  # from checkpoint 0 on
    assert notes["seconds"] > 0
    evaluations = (directory / seen[-1].runs[0].run.path / "evaluations.csv").read_text()
    assert str(notes["mean_return"]) in evaluations.splitlines()[-1]


# ------------------------------------------------------------------------------------ interruptions


def test_an_interrupted_run_goes_on_to_the_same_numbers(whole, tmp_path):
    [run] = make_plan().runs()
    interrupt(shutil.copytree(whole, tmp_path / run.path))
    begin_in(tmp_path, make_plan())
    assert run_status(RunJob(tmp_path, run)).state == "interrupted"
    assert len(run_study(make_plan(), tmp_path, Here).of("done")) == 1
    expect_same_numbers(tmp_path / run.path, whole)


def begin_in(directory, plan):
    """As ``begin_study``, where runs are already."""
    (directory / "plan.json").write_text(json.dumps({"plan": plan.to_dict()}))


def test_a_run_killed_while_it_wrote_its_first_file(whole, tmp_path):
    [run] = make_plan().runs()
    begin_in(tmp_path, make_plan())
    (tmp_path / run.path).mkdir(parents=True)
    (tmp_path / run.path / ".config.json.writing").write_text('{"conf')
    assert run_status(RunJob(tmp_path, run)).state == "missing"
    assert len(run_study(make_plan(), tmp_path, Here).of("done")) == 1
    assert sorted(p.name for p in (tmp_path / run.path).iterdir()) == sorted(
        p.name for p in whole.iterdir()
    )


def test_a_study_killed_while_it_wrote_its_plan(tmp_path):
    (tmp_path / ".plan.json.writing").write_text('{"pl')
    begin_study(make_plan(), tmp_path)
    assert read_study(tmp_path) == make_plan()


def test_a_damaged_checkpoint_fails_its_run_alone(whole, tmp_path):
    plan = make_plan(seeds=[0, 1])
    damaged, _ = plan.runs()
    interrupt(shutil.copytree(whole, tmp_path / damaged.path))
    (tmp_path / damaged.path / "checkpoint" / "0" / "files.json").write_text("{")
    begin_in(tmp_path, plan)
    status = run_study(plan, tmp_path, Here)
    assert [state.state for state in status.runs] == ["failed", "done"]
    assert "is damaged" in status.runs[0].error


# ------------------------------------------------------------------------------------------- locks


def test_a_run_that_is_claimed_is_running(tmp_path):
    [run] = make_plan().runs()
    job = RunJob(tmp_path, run)
    with claim(job, 0.0):
        assert run_status(job).state == "running"
        assert not perform(job, patience=0.0)
        assert not (tmp_path / run.path).exists()
    assert run_status(job).state == "missing"


def test_a_finished_run_is_not_done_again_by_a_late_worker(finished):
    directory, status = finished
    before = contents(directory / "runs")
    assert perform(RunJob(directory, status.runs[0].run))
    assert contents(directory / "runs") == before


def test_a_job_survives_being_sent(tmp_path):
    [run] = make_plan(options={**WHOLE, "b_lower": 0.3}).runs()
    job = RunJob(tmp_path, run)
    assert pickle.loads(pickle.dumps(job)) == job


def test_an_interrupt_is_no_failure_whatever_it_became_on_its_way(tmp_path, monkeypatch):
    """Libraries catch KeyboardInterrupt and raise errors of their own."""
    [run] = Plan.from_dict(
        {"name": "one", "algorithms": ["mars"], "tasks": [TASK], "seeds": [0]}
    ).runs()

    def interrupted(*_, **__):
        raise RuntimeError("cannot go on")

    job, ending = RunJob(tmp_path, run), Event()
    monkeypatch.setattr("ratiosym.runs.loop.start", interrupted)
    monkeypatch.setattr(run_job, "ending", ending)
    assert perform(job)
    assert run_status(job).error == "RuntimeError: cannot go on"
    job.forget_failure()
    ending.set()
    with pytest.raises(KeyboardInterrupt):
        perform(job)
    assert not (tmp_path / run.path / "failure.txt").exists()


def test_a_run_that_another_command_works_on_is_shown(whole, tmp_path):
    plan = make_plan(seeds=[0, 1])
    theirs, ours = plan.runs()
    begin_in(tmp_path, plan)
    seen, here = [], Here()
    with claim(RunJob(tmp_path, theirs), 0.0):
        study = Thread(target=run_study, args=(plan, tmp_path, lambda: here, False, seen.append))
        study.start()
        wait_until((tmp_path / ours.path / "summary.json").exists)
        wait_until(lambda: seen and [s.state for s in seen[-1].runs] == ["running", "done"])
        assert study.is_alive()
        shutil.copytree(whole, tmp_path / theirs.path)  # they finish it
    study.join(60)
    assert not study.is_alive()
    assert here.order == [str(ours.path)]
    assert [s.state for s in seen[-1].runs] == ["done", "done"]


# ------------------------------------------------------------------------------------- lost workers


def test_a_run_is_resumed_when_its_worker_dies(whole, tmp_path):
    [run] = make_plan().runs()
    interrupt(shutil.copytree(whole, tmp_path / run.path))
    begin_in(tmp_path, make_plan())
    deadly = Deadly(MAX_LOSSES - 1)
    assert len(run_study(make_plan(), tmp_path, lambda: deadly).of("done")) == 1
    assert len(deadly.order) == MAX_LOSSES
    expect_same_numbers(tmp_path / run.path, whole)


def test_a_run_that_kills_its_workers_has_failed(tmp_path):
    deadly = Deadly(99)
    status = run_study(make_plan(["mars", "mappo"]), tmp_path / "study", lambda: deadly)
    assert [s.state for s in status.runs] == ["failed", "failed"]
    assert len(deadly.order) == 2 * MAX_LOSSES
    text = (tmp_path / "study" / status.runs[0].run.path / "failure.txt").read_text()
    first = f"{MAX_LOSSES} workers in a row died without progress."
    assert text == f"{first} The worker process was killed by SIGKILL.\n\nits last words\n"


def test_checkpoints_are_progress(whole, tmp_path):
    [run] = make_plan().runs()
    job = RunJob(tmp_path, run)
    assert job.progress() == 0
    shutil.copytree(whole, tmp_path / run.path)
    assert job.progress() == 12 * STEPS


# ---------------------------------------------------------------------------------------- time left


def status_of(*states):
    plan = make_plan(seeds=range(len(states)))
    return StudyStatus(
        plan, tuple(RunStatus(run, **state) for run, state in zip(plan.runs(), states, strict=True))
    )


def test_the_time_left_comes_from_the_pace_so_far():
    total = 12 * STEPS
    done = {"state": "done", "steps": total, "timed_steps": total, "seconds": 10.0}
    half = {"state": "running", "steps": total // 2, "timed_steps": total // 2, "seconds": 5.0}
    missing, failed = {"state": "missing"}, {"state": "failed"}
    assert status_of(missing, missing).seconds_left() is None
    assert (
        status_of({"state": "running", "seconds": 3.0}, missing).seconds_left() is None
    )  # compiling
    assert status_of(done, failed).seconds_left() == 0
    assert status_of(done, half).seconds_left() == pytest.approx(5.0)
    assert status_of(half, missing, missing).seconds_left() == pytest.approx(25.0)  # one at a time
    assert status_of(half, half, missing).seconds_left() == pytest.approx(10.0)  # two


def test_every_task_has_its_own_pace():
    tasks = [TASK, "connector-5x5x3a", "paxmen-4a"]
    plan = make_plan(tasks=tasks, seeds=[0, 1])
    total = 12 * STEPS
    known = {TASK: 10.0, "connector-5x5x3a": 30.0}
    states = [
        RunStatus(run, "done", total, timed_steps=total, seconds=known[run.task])
        if run.seed == 0 and run.task in known
        else RunStatus(run, "running" if run.task == TASK else "missing")
        for run in plan.runs()
    ]
    expected = 10.0 + 30.0 + 2 * 20.0  # the third like the mean of the others
    assert StudyStatus(plan, tuple(states)).seconds_left() == pytest.approx(expected)


# -------------------------------------------------------------------------------- wrong directories


def test_directories_that_hold_no_study(tmp_path, whole):
    with pytest.raises(
        InputError, match=r"'.*nowhere' does not exist\. Start one with: ratiosym study run PLAN"
    ):
        study_status(tmp_path / "nowhere")
    with pytest.raises(
        InputError, match=r"holds no study: there is no plan\.json in it\. Start one with"
    ):
        study_status(tmp_path)
    with pytest.raises(
        InputError, match=r"is not empty, but contains no study.*nothing was changed"
    ):
        run_study(make_plan(), whole, Here)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file' is a file; `out` must be a directory"):
        run_study(make_plan(), tmp_path / "file", Here)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"plan\.json' cannot be read"),
        ("[]", r"plan\.json' does not contain a JSON object"),
        ("{}", r"plan\.json' contains no plan\. Restore the right one"),
        (
            '{"plan": {"name": "x"}}',
            r"does not match this version of ratiosym: The plan needs 'algorithms'",
        ),
    ],
)
def test_a_damaged_plan_is_told_and_left(tmp_path, text, message):
    (tmp_path / "plan.json").write_text(text)
    for action in (
        partial(study_status, tmp_path),
        partial(run_study, make_plan(), tmp_path, Here),
    ):
        with pytest.raises(InputError, match=message):
            action()
    assert contents(tmp_path) == {"plan.json": text.encode()}


def test_another_plan_for_the_same_directory(finished, tmp_path):
    directory = shutil.copytree(finished[0], tmp_path / "copied")
    before = contents(directory)
    expected = re.escape(
        "contains a different study: seeds 0 there, 0, 1 here. Resume that one: ratiosym study run"
    )
    with pytest.raises(InputError, match=expected):
        run_study(make_plan(["mars", TOO_FAST], seeds=[0, 1]), directory, Here)
    with pytest.raises(InputError, match=r"algorithms mars, too-fast there, mars, mappo here"):
        run_study(make_plan(["mars", "mappo"]), directory, Here)
    assert contents(directory) == before
    renamed = dataclasses.replace(
        make_plan(["mars", TOO_FAST]), name="renamed", about="the same runs"
    )
    assert len(run_study(renamed, directory, Here).of("done")) == 1


def test_a_run_of_other_settings_in_its_place(whole, tmp_path):
    plan = make_plan(options={**WHOLE, "discount": 0.9})
    shutil.copytree(whole, tmp_path / plan.runs()[0].path)
    begin_in(tmp_path, plan)
    before = contents(tmp_path)
    with pytest.raises(
        InputError,
        match=r"seed-0' holds a run with settings other than the plan.*nothing was changed",
    ):
        run_study(plan, tmp_path, Here)
    assert contents(tmp_path) == before


# ------------------------------------------------------------------ processes, killed at any moment


def start_command(directory, *words):
    words = [
        str(word) for word in (COMMAND, "study", "run", *words, "--out", directory, "--workers", 2)
    ]
    pipe = subprocess.PIPE
    # A shell lets its background jobs ignore Ctrl-C, and with them everything they start: these
    # tests, say.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            words, stdout=pipe, stderr=pipe, text=True, env=environment(), start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def write_plan(path, seeds):
    path.write_text(
        f'name = "killed"\nalgorithms = ["mars"]\ntasks = ["{TASK}"]\n'
        f'seeds = {list(seeds)}\npreset = "smoke"\ntrack = ["tensorboard"]\n'
        f"options = {{ steps = {400 * STEPS}, num_evaluations = 40 }}\n"
    )
    return path


def workers_of(parent):
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True
    )
    return [int(word) for word in found.stdout.split()]


def is_alive(process):
    """Whether a process is there and not just waiting to be buried."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["config.json", "evaluations.csv", "summary.json"])
def test_a_study_killed_at_any_moment_loses_nothing(moment, tmp_path):
    """The command is killed with SIGKILL: its workers end, a second start does the rest."""
    plan = write_plan(tmp_path / "plan.toml", range(3))
    study = start_command(tmp_path / "study", plan)
    runs = read_plan(plan).runs()
    wait_until(lambda: any((tmp_path / "study" / run.path / moment).exists() for run in runs))
    workers = workers_of(study.pid)
    study.kill()
    study.communicate()
    wait_until(lambda: not any(is_alive(worker) for worker in workers))
    wait_until(
        lambda: not study_status(tmp_path / "study").of("running"), seconds=10
    )  # its last thread holds the lock
    before = {
        s.run.path: contents(tmp_path / "study" / s.run.path)
        for s in study_status(tmp_path / "study").of("done")
    }
    study = start_command(tmp_path / "study")
    out, err = study.communicate()
    assert (study.returncode, err) == (0, "")
    assert "3 done of 3 runs; nothing left to do" in out
    for path, files in before.items():
        assert contents(tmp_path / "study" / path) == files
    expect_whole_curves(tmp_path / "study", runs)


def expect_whole_curves(directory, runs):
    for run in runs:
        rows = (directory / run.path / "training.csv").read_text().splitlines()
        assert len(rows) == 1 + 400
        assert read_json(directory / run.path / "summary.json")["updates"] == 400


@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path):
    plan = write_plan(tmp_path / "plan.toml", range(2))
    runs = read_plan(plan).runs()
    study = start_command(tmp_path / "study", plan)
    wait_until(
        lambda: all((tmp_path / "study" / run.path / "training.csv").exists() for run in runs)
    )
    victim = workers_of(study.pid)[0]
    os.kill(victim, signal.SIGKILL)
    out, err = study.communicate()
    assert (study.returncode, err) == (0, "")
    assert "2 done of 2 runs" in out
    expect_whole_curves(tmp_path / "study", runs)
    tries = sorted(
        len(list((tmp_path / "study" / run.path).glob("tensorboard/events*"))) for run in runs
    )
    assert tries == [1, 2]  # the other one was not disturbed


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_says_how_to_resume(tmp_path):
    plan = write_plan(tmp_path / "plan.toml", range(2))
    study = start_command(tmp_path / "study", plan)
    wait_until(lambda: len(running_in(tmp_path / "study")) == 2)
    workers = workers_of(study.pid)
    study.send_signal(signal.SIGINT)
    out, err = study.communicate()
    assert (study.returncode, err) == (130, "")
    assert f"Resume with: ratiosym study run --out {tmp_path / 'study'}" in out
    assert not any(is_alive(worker) for worker in workers)
    assert not list((tmp_path / "study").rglob("failure.txt"))


def running_in(directory):
    return study_status(directory).of("running") if (directory / "plan.json").exists() else []


@pytest.mark.slow
def test_two_commands_share_the_work(tmp_path):
    """Both end well, and every run was begun once."""
    plan = write_plan(tmp_path / "plan.toml", range(4))
    runs = read_plan(plan).runs()
    studies = [start_command(tmp_path / "study", plan) for _ in range(2)]
    for study in studies:
        out, err = study.communicate()
        assert (study.returncode, err) == (0, "")
        assert "4 done of 4 runs" in out
    expect_whole_curves(tmp_path / "study", runs)
    for run in runs:
        assert len(list((tmp_path / "study" / run.path).glob("tensorboard/events*"))) == 1


@pytest.mark.slow
def test_a_run_in_a_worker_gives_the_numbers_of_a_run_by_itself(tmp_path):
    """On one core, which is one device: as ``ratiosym train`` with the same."""
    [run] = make_plan().runs()
    run_study(make_plan(), tmp_path / "study", partial(LocalProcesses, num_workers=2))
    code = (
        "import json, sys; from ratiosym.runs import loop; from "
        "ratiosym.learning.config import RunConfig;"
        "from ratiosym.learning.devices import start_jax; start_jax();"
        "loop.start(RunConfig.from_dict(json.loads(sys.argv[1])), sys.argv[2])"
    )
    words = ["taskset", "-c", "0", sys.executable, "-c", code, json.dumps(run.config.to_dict())]
    subprocess.run([*words, str(tmp_path / "alone")], check=True, env=environment())
    expect_same_numbers(tmp_path / "study" / run.path, tmp_path / "alone")


@pytest.mark.slow
def test_fewer_workers_get_more_cores(tmp_path):
    plan = make_plan(options={"steps": STEPS, "num_evaluations": 1})
    run_study(plan, tmp_path / "study", partial(LocalProcesses, num_workers=1))
    devices = read_json(tmp_path / "study" / plan.runs()[0].path / "config.json")["devices"]
    assert len(devices) == len(os.sched_getaffinity(0))


@pytest.mark.slow
def test_workers_find_parts_of_your_own(tmp_path, monkeypatch):
    """A task, an objective, a network and a tracker by reference, in processes that only have the
    recorded names: runs of a study, and a search.
    """
    sizes = {"num_envs": 16, "rollout_length": 4, "hidden_size": 4, "num_eval_episodes": 2}
    network = "examples/custom_network_lstm.py:lstm"
    monkeypatch.chdir(ROOT)
    plan = Plan.from_dict(
        {
            "name": "mine",
            "algorithms": ["examples/custom_objective.py:LOG_QUADRATIC"],
            "tasks": ["examples/custom_environment.py:make_env"],
            "seeds": [0],
            "preset": "smoke",
            "options": {**sizes, "steps": 128, "num_evaluations": 1, "network": network},
            "track": ["examples/custom_tracker.py:JsonLines"],
        }
    )
    monkeypatch.chdir(tmp_path)
    [status] = run_study(plan, tmp_path / "study", partial(LocalProcesses, 1)).runs
    assert status.state == "done", status.error
    place = tmp_path / "study" / status.run.path
    assert place.parent.name == "log-quadratic"
    assert place.parents[1].name.startswith("custom_environment-make_env-")
    record = read_json(place / "config.json")["config"]
    assert record["objective"] == f"{ROOT}/examples/custom_objective.py:LOG_QUADRATIC"
    assert record["objective_parameters"] == {"width": 0.5}
    assert record["shape"]["network"] == f"{ROOT}/{network}"
    assert len((place / "evaluations.jsonl").read_text().splitlines()) == 2

    config = plan.tuning_config(plan.algorithms[0], plan.tasks[0])
    search = Search(config, 2, tmp_path / "search", (1000,), track=plan.track)
    outcome = tune(search, partial(LocalProcesses, 2))
    assert [row.state for row in outcome.rows] == ["complete"] * 2
    assert all("width" in row.params for row in outcome.rows)
    assert len(list(tmp_path.glob("search/trials/*/seed-1000/evaluations.jsonl"))) == 2
