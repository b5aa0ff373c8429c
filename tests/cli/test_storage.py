"""A disk that fails in the middle of a run, as a user meets it: one sentence, exit code 2, the last
good checkpoint kept, and an exact resume.
"""

import shutil
import subprocess

import pytest

from ratiosym.runs import checkpoint
from tests.example_runs import COMMAND, environment
from tests.torture.__main__ import SITE
from tests.torture.scenarios import TRAIN, differences, facts, num_evaluations
from tests.waiting import wait_until

WORDS = (*TRAIN, f"--steps={120 * 32}")
pytestmark = pytest.mark.slow


def start(words, place, limit=()):
    variables = environment()
    paths = f"{SITE}:{variables.get('PYTHONPATH', '')}".rstrip(":")  # a checkpoint per evaluation
    return subprocess.Popen(
        [*limit, COMMAND, *words],
        cwd=place,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**variables, "PYTHONPATH": paths},
    )


def finish(words, place):
    errors = start(words, place).communicate(timeout=900)[1]
    assert errors == ""
    return facts(place / "out")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return finish(WORDS, tmp_path_factory.mktemp("expected"))


def expect_one_sentence(process, reason):
    errors = process.communicate(timeout=900)[1]
    assert process.returncode == 2
    assert errors.startswith(f"ratiosym: 'out' cannot be written ({reason}). The run has stopped;")
    assert "ratiosym train --resume 'out'" in errors
    assert errors.count("\n") == 1


def is_under_way(place):
    return lambda: num_evaluations(place / "out") > 4


def test_a_file_that_may_not_grow(tmp_path, expected):
    """The limit is larger than every file but the table of all updates."""
    process = start(WORDS, tmp_path, ("prlimit", "--fsize=20000"))
    expect_one_sentence(process, "File too large")
    last = checkpoint.load(tmp_path / "out" / "checkpoint").meta.update
    assert 0 < last < 120
    assert finish(("train", "--resume=out"), tmp_path) == expected


def test_a_directory_that_is_renamed(tmp_path, expected):
    process = start(WORDS, tmp_path)
    wait_until(is_under_way(tmp_path), 900)
    (tmp_path / "out").rename(tmp_path / "moved")
    expect_one_sentence(process, "No such file or directory")
    assert not (tmp_path / "out").exists()
    (tmp_path / "moved").rename(tmp_path / "out")
    assert finish(("train", "--resume=out"), tmp_path) == expected


def test_a_directory_that_is_removed(tmp_path, expected):
    process = start(WORDS, tmp_path)
    wait_until(is_under_way(tmp_path), 900)
    (tmp_path / "out").rename(tmp_path / "gone")  # at once, whatever is being written there
    shutil.rmtree(tmp_path / "gone", ignore_errors=True)
    expect_one_sentence(process, "No such file or directory")
    assert not (tmp_path / "out").exists()
    assert differences(finish(WORDS, tmp_path), expected) == []


def test_a_directory_that_is_immutable(tmp_path, expected):
    process, place = start(WORDS, tmp_path), tmp_path / "out" / "checkpoint"
    wait_until(is_under_way(tmp_path), 900)
    if subprocess.run(["chattr", "+i", place], capture_output=True).returncode:
        process.kill()
        pytest.skip("this file system or user cannot make directories immutable")
    try:
        expect_one_sentence(process, "Operation not permitted")
        assert checkpoint.load(place).meta.update > 0
    finally:
        subprocess.run(["chattr", "-i", place], check=True)
    assert finish(("train", "--resume=out"), tmp_path) == expected
