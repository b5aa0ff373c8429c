"""Runs started from a checkpoint of another run, with other settings."""

import shutil

import pytest

import ratiosym
from ratiosym.errors import InputError
from ratiosym.runs import branch, checkpoint, loop
from ratiosym.runs.files import read_json
from ratiosym.runs.loop import resume
from ratiosym.runs.tables import read_table
from tests.example_runs import STEPS, contents, expect_same_numbers, training_table


@pytest.fixture
def parent(whole, tmp_path):
    """A run of 12 updates with its checkpoints after updates 0 and 12."""
    return shutil.copytree(whole, tmp_path / "parent")


def test_with_equal_settings_it_repeats_its_parent(parent, whole, tmp_path):
    """From update 0 and without changes, everything equals the parent."""
    before = contents(parent)
    [run] = ratiosym.branch(f"{parent}@0", out=tmp_path / "again", track=())
    assert contents(parent) == before
    expect_same_numbers(tmp_path / "again", whole)
    assert run.summary["best_return"] == read_json(whole / "summary.json")["best_return"]


@pytest.fixture
def branched(parent, tmp_path):
    """A run from update 12 to 18, with another learning rate and trust region."""
    out = tmp_path / "branched"
    options = {"steps": 18 * STEPS, "b_upper": 3.0, "actor_learning_rate": 1e-3}
    ratiosym.branch(parent, out=out, track=(), **options)
    return out


def test_a_branch_has_its_own_settings_and_its_parents_past(branched, parent):
    record = read_json(branched / "config.json")
    assert record["config"]["objective_parameters"]["b_upper"] == 3.0
    assert record["config"]["hyperparameters"]["actor_learning_rate"] == 1e-3
    assert record["config"]["num_evaluations"] == 9  # evaluations keep their distance
    assert record["parent"]["run"] == str(parent)
    assert record["parent"]["update"] == 12
    assert len(record["parent"]["sha256"]) == 64
    assert training_table(branched)[:13] == training_table(parent)
    assert read_table(branched / "training.csv")["update"].tolist() == list(range(1, 19))
    updates = read_table(branched / "evaluations.csv")["update"].tolist()
    assert updates == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
    assert checkpoint.load(branched / "checkpoint").meta.config == record["config"]


def test_resuming_a_branch_is_exact(branched, tmp_path):
    """Interrupted before its first own checkpoint, or before it had copied its parent's."""
    for name in ("late", "early"):
        copied = shutil.copytree(branched, tmp_path / name)
        (copied / "summary.json").unlink()
        shutil.rmtree(copied / "checkpoint" / "18")
        if name == "early":  # killed while the parent was copied
            shutil.rmtree(copied / "checkpoint")
            (copied / "evaluations.csv").unlink()
            (copied / "training.csv").unlink()
        resume(copied)
        assert training_table(copied) == training_table(branched)
        ours, other = (d / "evaluations.csv" for d in (copied, branched))
        assert ours.read_bytes() == other.read_bytes()


def test_a_branch_without_its_past_is_not_started_over(branched, parent, tmp_path):
    shutil.rmtree(branched / "checkpoint")
    before = contents(branched)
    with pytest.raises(InputError, match=r"are missing, so it cannot be resumed\..*branch from"):
        resume(branched)  # it has trained, so its rows are not discarded
    (branched / "training.csv").unlink()
    (branched / "evaluations.csv").unlink()
    shutil.rmtree(parent)
    with pytest.raises(InputError, match=r"after update 12 is missing or changed\. It cannot be"):
        resume(branched)
    assert contents(branched).keys() <= before.keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_size": 16}, r"`actor_hidden_size` is 16, but 32 in '.*'\. A run that branches"),
        ({"network": "feedforward"}, "`network` is 'feedforward', but 'gru' in"),
        ({"num_envs": 16}, "`num_envs` is 16, but 8 in"),
        ({"rollout_length": 8}, "`rollout_length` is 8, but 16 in"),
        ({"seed": 1}, "`seed` is 1, but 0 in"),
        ({}, r"`steps` is 1,536, but the checkpoint of '.*' is after 1,536 steps"),
        ({"actor_learning_rate": -1.0}, "`actor_learning_rate` is -1; it must be"),
        ({"colour": "red"}, "Unknown option 'colour'"),
    ],
)
def test_settings_that_do_not_fit(whole, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        ratiosym.branch(whole, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_environment_of_other_sizes_is_refused(parent, tmp_path, monkeypatch):
    from ratiosym.envs.tasks import TASKS

    monkeypatch.setitem(TASKS, "mpe-spread-3ag", TASKS["mpe-spread-5ag"])
    with pytest.raises(checkpoint.CheckpointError, match="does not match this task and these set"):
        ratiosym.branch(parent, out=tmp_path / "out", steps=18 * STEPS)
    assert not (tmp_path / "out").exists()


def test_parents_that_cannot_be_found(whole, whole_seeds, tmp_path):
    with pytest.raises(InputError, match=r"has no checkpoint after update 3\. .* after: 0, 12"):
        branch.find_parent(f"{whole}@3")
    with pytest.raises(
        InputError, match=r"several seeds \(seed-0, .*\)\. Name one, as in '.*seed-0'"
    ):
        branch.find_parent(whole_seeds)
    with pytest.raises(InputError, match="does not hold a run"):
        branch.find_parent(tmp_path)
    named = shutil.copytree(whole, tmp_path / "run@3")  # an @ in its own name
    assert branch.find_parent(named)[1] == 12
    assert branch.find_parent(f"{named}@0")[1] == 0


def test_a_branch_goes_beside_its_parent(parent, monkeypatch):
    places = []
    monkeypatch.setattr(loop, "branch", lambda run, config, out, *rest: places.append(out) or [])
    ratiosym.branch(parent, steps=18 * STEPS)
    assert places == [parent.with_name("parent-from-12")]
