"""Many jobs: nothing twice, nothing lost, and no end of retries."""

import time
from threading import Thread

import pytest

from ratiosym.experiments.jobs import claim, run_jobs
from ratiosym.experiments.jobs.runner import MAX_LOSSES
from tests.experiments.jobs.example_jobs import Deadly, FileJob, Here


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("ratiosym.experiments.jobs.runner.POLL_SECONDS", 0.01)


def jobs(directory, number=3):
    return [FileJob(directory, f"job-{i}") for i in range(number)]


def test_jobs_are_done_in_order_and_once(tmp_path):
    here = Here()
    (tmp_path / "job-1").write_text("done before")
    polls = []
    assert run_jobs(jobs(tmp_path), here, lambda: polls.append(1)) == {}
    assert here.order == ["job-0", "job-2"]
    assert all(job.is_over() for job in jobs(tmp_path))
    assert polls


def test_a_job_that_another_process_has_is_waited_for(tmp_path):
    theirs, ours, _ = jobs(tmp_path)
    here = Here()
    with claim(theirs, 0.0):
        running = Thread(target=run_jobs, args=([theirs, ours], here))
        running.start()
        while not ours.is_over():
            time.sleep(0.01)
        time.sleep(0.1)
        assert running.is_alive()
        theirs.result.write_text("theirs")
    running.join(10)
    assert not running.is_alive()
    assert here.order == [ours.name]
    assert theirs.result.read_text() == "theirs"


def test_a_job_that_another_process_leaves_is_taken_over(tmp_path):
    [job] = jobs(tmp_path, 1)
    here = Here()
    with claim(job, 0.0):
        running = Thread(target=run_jobs, args=([job], here))
        running.start()
        time.sleep(0.1)
        assert here.order == []
    running.join(10)
    assert here.order == [job.name]


def test_a_job_is_started_again_when_its_worker_dies(tmp_path):
    deadly = Deadly(MAX_LOSSES - 1)
    assert run_jobs(jobs(tmp_path, 1), deadly) == {}
    assert deadly.order == ["job-0"] * MAX_LOSSES


def test_a_job_that_kills_its_workers_is_given_up(tmp_path):
    deadly = Deadly(99)
    given_up = run_jobs(jobs(tmp_path, 2), deadly)
    assert list(given_up) == ["job-0", "job-1"]
    assert deadly.order == ["job-0"] * MAX_LOSSES + ["job-1"] * MAX_LOSSES
    text = (tmp_path / "job-0.failure").read_text()
    assert text == given_up["job-0"]
    first = f"{MAX_LOSSES} workers in a row died without progress."
    assert text == f"{first} The worker process was killed by SIGKILL.\nits last words"


def test_a_job_that_makes_progress_may_lose_more_workers(tmp_path):
    def advance(job):
        (tmp_path / f"{job.name}.part-{job.progress()}").touch()

    deadly = Deadly(3 * MAX_LOSSES, advance)
    assert run_jobs(jobs(tmp_path, 1), deadly) == {}
    assert len(deadly.order) == 3 * MAX_LOSSES + 1
