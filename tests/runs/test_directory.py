"""The directory of a run: claiming, locking and validation of records."""

import dataclasses
import json
import shutil

import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.presets import configure
from ratiosym.learning.config import RunConfig
from ratiosym.runs import directory, files
from ratiosym.runs.directory import (
    Run,
    check_free,
    claim_directory,
    find_runs,
    lock_directories,
    read_failure,
    run_directories,
    write_failure,
)
from ratiosym.runs.files import read_json
from ratiosym.runs.loop import resume
from tests.example_runs import TASK, contents

CONFIG = configure(TASK, "smoke")


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copied")


def seeds_in(out, *seeds):
    return [Run(out / f"seed-{s}", dataclasses.replace(CONFIG, seed=s)) for s in seeds]


# ------------------------------------------------------------------------------------------- locks


def test_a_second_process_is_refused(copied):
    with lock_directories([copied]):
        before = contents(copied)
        with pytest.raises(InputError, match=r"Another process is training the run in '.*copied'"):
            resume(copied)
        assert contents(copied) == before
    assert not (copied / ".lock").exists()


def test_a_lock_that_a_killed_process_left_is_taken_over(tmp_path):
    (tmp_path / ".lock").write_text("")
    with lock_directories([tmp_path, tmp_path]):
        assert (tmp_path / ".lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_goes_also_where_something_is_raised(tmp_path):
    with pytest.raises(ZeroDivisionError), lock_directories([tmp_path]):
        _ = 1 / 0
    with lock_directories([tmp_path]):
        pass


def test_a_lock_whose_file_was_just_removed_is_none(tmp_path, monkeypatch):
    """Another process removed the file between our opening and locking it."""
    real = directory.fcntl.flock

    def late(file, kind):
        (tmp_path / ".lock").unlink()
        real(file, kind)

    monkeypatch.setattr(directory.fcntl, "flock", late)
    with pytest.raises(InputError, match="Another process"), lock_directories([tmp_path]):
        pass


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "outside")
    with (
        pytest.raises(InputError, match=r"'.*run' cannot be written \("),
        lock_directories([tmp_path / "run"]),
    ):
        pass
    assert not (tmp_path / "outside").exists()


# ---------------------------------------------------------------------------------------- claiming


def test_what_a_killed_claim_left_counts_as_empty(tmp_path):
    """Killed while config.json was being written: the same command must work again."""
    (tmp_path / ".lock").write_text("")
    (tmp_path / ".config.json.0123456789abcdef.writing").write_text("{")
    check_free(tmp_path)
    claim_directory(tmp_path, [Run(tmp_path, CONFIG)], {"command": "x"})
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "config.json"]
    assert read_json(tmp_path / "config.json") == {"command": "x", "config": CONFIG.to_dict()}
    with pytest.raises(InputError, match="already holds a run"):
        check_free(tmp_path)


def test_seeds_are_named_before_any_of_them_is_there(tmp_path, monkeypatch):
    written = []
    real = files.write_json
    monkeypatch.setattr(files, "write_json", lambda p, d: (written.append(p.name), real(p, d)))
    claim_directory(tmp_path, seeds_in(tmp_path, 3, 4), {"command": "x"})
    assert written == ["seeds.json", "config.json", "config.json"]
    assert read_json(tmp_path / "seeds.json")["seeds"] == [3, 4]
    for path in (tmp_path / "seed-3" / "config.json", tmp_path / "seed-4"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match="already holds a run"):
        check_free(tmp_path)
    assert find_runs(tmp_path) == seeds_in(tmp_path, 3, 4)


def test_a_kill_between_raising_the_budgets_of_two_seeds(tmp_path):
    runs = seeds_in(tmp_path, 0, 1)
    claim_directory(tmp_path, runs, {})
    more = dataclasses.replace(CONFIG, steps=2 * CONFIG.steps, num_evaluations=4)
    directory.write_records(tmp_path, [Run(tmp_path / "seed-0", more)], {})
    assert [run.config.steps for run in find_runs(tmp_path)] == [more.steps] * 2
    assert [run.config.num_evaluations for run in find_runs(tmp_path)] == [4, 4]


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([], "must list different seeds"),
        ([1, 1], "must list different seeds"),
        ("01", "'seeds' is '01'; it must be a list"),
        ([0.5], "must be a whole number"),
        (None, "'seeds' is None; it must be a list"),
    ],
)
def test_seeds_that_cannot_be(tmp_path, seeds, message):
    claim_directory(tmp_path, seeds_in(tmp_path, 0, 1), {})
    data = read_json(tmp_path / "seeds.json")
    (tmp_path / "seeds.json").write_text(json.dumps({**data, "seeds": seeds}))
    with pytest.raises(InputError, match=message):
        find_runs(tmp_path)


def test_seeds_of_different_settings_are_refused(tmp_path):
    claim_directory(tmp_path, seeds_in(tmp_path, 0, 1), {})
    path = tmp_path / "seed-1" / "config.json"
    data = read_json(path)
    data["config"]["hyperparameters"]["discount"] = 0.5
    path.write_text(json.dumps(data))
    with pytest.raises(
        InputError, match=r"seed-1/config\.json' and '.*seeds\.json' have different"
    ):
        find_runs(tmp_path)


def test_run_directories_are_runs_in_order_of_their_seeds(tmp_path):
    for name in ("seed-10", "seed-9", "seed-x", "seed-²", "seed-٣", "seed-11/later", "notes"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
    assert [d.name for d in run_directories(tmp_path)] == ["seed-9", "seed-10"]


def test_default_directories():
    def place(task, num_seeds=1):
        return directory.default_directory(RunConfig(task, seed=3), num_seeds)

    assert str(place(TASK)) == f"runs/{TASK}/mars/seed-3"
    assert place(TASK, 4).name == "seeds-3-6"
    inside = place("/home/me/tasks.py:make_env")
    assert inside.parts[0] == "runs"
    assert len(inside.parts) == 4


# ----------------------------------------------------------------------------------------- records

EDITS = {
    "num_evaluations=0": {"num_evaluations": 0},
    "steps as text": {"steps": "512"},
    "steps in a list": {"steps": [1]},
    "half a step": {"steps": 20480.7},
    "a seed below 0": {"seed": -1},
    "a seed above all": {"seed": 2**32},
    "no task": {"task": None},
    "a number as task": {"task": 7},
    "a width below 0": {"shape": {"actor_hidden_size": -3}},
    "environments as text": {"shape": {"num_envs": "8"}},
    "yes": {"shape": {"mask_inactive": "yes"}},
    "1 for true": {"shape": {"mask_inactive": 1}},
    "an unknown size": {"shape": {"num_environments": 8}},
    "a discount above 1": {"hyperparameters": {"discount": 5.0}},
    "no discount": {"hyperparameters": {"discount": None}},
    "a rate that is not a number": {"hyperparameters": {"actor_learning_rate": float("nan")}},
    "a shape that is a list": {"shape": [1, 2]},
    "an unknown objective": {"objective": "ppo"},
    "a bound below 1": {"objective_parameters": {"b_lower": 0.5, "b_upper": 0.5}},
    "a bound as text": {"objective_parameters": {"b_upper": "2"}},
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_a_hand_edited_record_is_refused_and_left_alone(copied, change):
    data = read_json(copied / "config.json")
    for name, value in change.items():
        old = data["config"].get(name)
        nested = isinstance(old, dict) and isinstance(value, dict)
        data["config"][name] = {**old, **value} if nested else value
    (copied / "config.json").write_text(json.dumps(data))
    before = contents(copied)
    with pytest.raises(InputError):
        resume(copied)
    assert contents(copied) == before


@pytest.mark.parametrize("track", ["tensorboard", [3], {"a": 1}, ["nonsense"]])
def test_trackers_in_a_record_are_validated(copied, track):
    data = read_json(copied / "config.json")
    (copied / "config.json").write_text(json.dumps({**data, "track": track}))
    with pytest.raises(InputError, match="track"):
        resume(copied)


# ---------------------------------------------------------------------------------------- failures


def test_the_first_line_of_a_failure_says_what_happened(tmp_path):
    assert read_failure(tmp_path) is None
    write_failure(tmp_path, "ValueError: one\n  two", "Traceback\n  there")
    assert read_failure(tmp_path) == "ValueError: one two"
    assert (tmp_path / "failure.txt").read_text().endswith("Traceback\n  there\n")
    directory.clear_failure(tmp_path)
    directory.clear_failure(tmp_path)
    assert read_failure(tmp_path) is None


def test_escape_sequences_do_not_reach_the_terminal(tmp_path):
    (tmp_path / "failure.txt").write_bytes(b"\x1b[31mred\x07 \xff\n")
    found = read_failure(tmp_path)
    assert found.isprintable()
    assert "red" in found
    (tmp_path / "failure.txt").write_text("")
    assert read_failure(tmp_path)
