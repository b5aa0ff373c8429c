"""A job is worked on by one process at a time."""

from ratiosym.experiments.jobs import claim, is_claimed, job_file, perform
from tests.experiments.jobs.example_jobs import FileJob


def test_a_job_has_one_worker(tmp_path):
    job = FileJob(tmp_path)
    assert not is_claimed(job)
    with claim(job, 0.0) as is_ours:
        assert is_ours
        assert is_claimed(job)
        with claim(job, 0.1) as is_others:
            assert not is_others
        assert not perform(job, patience=0.0)
        assert not job.is_over()
    assert not is_claimed(job)
    assert perform(job)
    assert job.is_over()


def test_what_is_over_is_not_done_again(tmp_path):
    job = FileJob(tmp_path)
    job.result.write_text("before")
    assert perform(job)
    assert job.result.read_text() == "before"


def test_testing_the_lock_does_not_take_it(tmp_path):
    job = FileJob(tmp_path)
    assert not is_claimed(job)
    assert not job_file(job, ".lock").exists()
    with claim(job, 0.0):
        pass
    assert not is_claimed(job)


def test_files_of_names_with_dots(tmp_path):
    assert job_file(FileJob(tmp_path, "host.name-0"), ".log").name == "host.name-0.log"
