"""Processes of this machine: bound to cores, ended when they should be, their last words kept."""

import os
import pickle
import re
import signal
from contextlib import closing
from functools import partial

import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.jobs import LocalProcesses, RayTasks, choose_executor, is_claimed
from ratiosym.experiments.jobs import executors as module
from ratiosym.experiments.jobs.executors import describe_end, share_cores
from tests.experiments.jobs.example_jobs import FileJob
from tests.waiting import wait_until


def test_cores_are_shared_out(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 7})
    assert share_cores(4) == [[2], [3], [5], [7]]
    assert share_cores(2) == [[2, 5], [3, 7]]
    assert share_cores(1) == [[2, 3, 5, 7]]
    assert share_cores(6) == [[2], [3], [5], [7], [2], [3]]


def test_processes_do_jobs_on_their_cores(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    ended, jobs = [], [FileJob(tmp_path, "one"), FileJob(tmp_path, "two")]
    with closing(LocalProcesses(2)) as workers:
        assert workers.capacity() == 2
        workers.start(jobs[0])
        assert workers.has_room()
        workers.start(jobs[1])
        assert not workers.has_room()
        wait_until(lambda: ended.extend(workers.ended()) or len(ended) == 2)
        assert workers.has_room()
        assert workers.ended() == []
    assert sorted(ended, key=lambda entry: entry[0].name) == [(job, "") for job in jobs]
    used = [job.result.read_text() for job in jobs]
    assert used == [str(share) for share in share_cores(2)]
    assert len(cores) < 2 or used[0] != used[1]
    assert (tmp_path / "work" / "one.log").read_text() == ""  # nothing was printed


def start_one(tmp_path, how="slowly"):
    job = FileJob(tmp_path, how=how)
    workers = LocalProcesses(1)
    workers.start(job)
    wait_until((tmp_path / "work" / "job.started").exists)
    assert is_claimed(job)
    return job, workers, workers._busy[0][2]


def test_a_killed_process_is_reported(tmp_path):
    job, workers, process = start_one(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert workers.ended() == [(job, "The worker process was killed by SIGKILL.")]
    assert workers.ended() == []
    assert workers.has_room()
    assert not is_claimed(job)


@pytest.mark.parametrize("how", ["slowly", "stubbornly"])
def test_closing_ends_the_processes(how, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GRACE_SECONDS", 60 if how == "slowly" else 0.2)
    job, workers, process = start_one(tmp_path, how)
    workers.close()
    assert (process.returncode == -signal.SIGKILL) == (how == "stubbornly")
    assert not is_claimed(job)
    assert not job.is_over()


def test_a_process_ends_with_the_one_that_started_it(tmp_path):
    """Of which it only sees that its input closes."""
    job, _, process = start_one(tmp_path)
    process.stdin.close()
    process.wait(60)
    assert not is_claimed(job)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("refused", "The worker process ended with code 1.\nThis cannot be done."),
        ("broken", "RuntimeError: Something is broken."),
    ],
)
def test_errors_are_reported(how, words, tmp_path):
    ended = []
    with closing(LocalProcesses(1)) as workers:
        workers.start(FileJob(tmp_path, how=how))
        wait_until(lambda: ended.extend(workers.ended()) or ended)
    [(_, death)] = ended
    assert death.endswith(words)
    assert ("Traceback" in death) == (how == "broken")


def test_the_last_words_of_a_process_are_kept(tmp_path):
    job = FileJob(tmp_path)
    log = tmp_path / "work" / "job.log"
    log.parent.mkdir()
    log.write_text("".join(f"line {i}\n" for i in range(100)))
    words = describe_end(job, 1).splitlines()
    assert words == [
        "The worker process ended with code 1.",
        *(f"line {i}" for i in range(80, 100)),
    ]
    assert describe_end(job, 0) == ""


def test_a_number_of_workers_that_cannot_be():
    for make in (LocalProcesses, partial(choose_executor, "local")):
        with pytest.raises(InputError, match=r"`num_workers` is 0; it must be at least 1\."):
            make(0)


def test_the_executor_that_options_describe():
    made = choose_executor("local", 3)()
    assert isinstance(made, LocalProcesses)
    assert made.capacity() == 3
    assert choose_executor("ray", num_cpus=2, num_gpus=0.5).func is RayTasks
    assert choose_executor("ray", num_cpus=2, num_gpus=0.5).args == (2, 0.5)
    with pytest.raises(
        InputError, match=re.escape("`num_cpus` and `num_gpus` are for `executor` ray.")
    ):
        choose_executor("local", num_cpus=2)
    with pytest.raises(InputError, match=re.escape("`num_workers` is for `executor` local.")):
        choose_executor("ray", num_workers=2)


def test_a_job_survives_being_sent(tmp_path):
    job = FileJob(tmp_path)
    assert pickle.loads(pickle.dumps(job)) == job
