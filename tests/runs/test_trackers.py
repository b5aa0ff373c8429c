"""Trackers: TensorBoard, Weights & Biases and custom ones; none of them can stop a run."""

import json
import math
import os
import sys

import pytest

from ratiosym.api import train
from ratiosym.errors import InputError
from ratiosym.experiments.presets import configure
from ratiosym.runs.files import read_json
from ratiosym.runs.loop import resume
from ratiosym.runs.trackers import RunInfo, TensorBoard, TrackerGroup, load_trackers
from tests.example_runs import ROOT, STEPS, TASK, read_events, run_command


def row(update, **values):
    return {"update": update, "steps": STEPS * update, **values}


def info(directory, resumed_at=None):
    return RunInfo(directory, configure(TASK, "smoke"), resumed_at)


# -------------------------------------------------------------------------------------- TensorBoard


def test_tensorboard_gets_every_number_at_its_step(tmp_path):
    tracker = TensorBoard()
    tracker.begin(info(tmp_path))
    tracker.log("evaluation", row(0, mean_return=-3.5))
    tracker.log("training", row(1, policy_loss=0.25, episode_return=math.nan))
    tracker.log("training", row(2, policy_loss=0.5, episode_return=7.0))
    tracker.end(None)
    assert read_events(tmp_path) == {
        "evaluation/mean_return": {0: -3.5},
        "training/policy_loss": {STEPS: 0.25, 2 * STEPS: 0.5},
        "training/episode_return": {2 * STEPS: 7.0},
    }


def test_after_a_resume_tensorboard_hides_what_came_after_the_checkpoint(tmp_path):
    """The history is not rewritten: the second file has one row, not three."""
    first, second = TensorBoard(), TensorBoard()
    first.begin(info(tmp_path))
    for update in (1, 2, 3, 4):
        first.log("training", row(update, policy_loss=float(update)))
    first.end(None)
    second.begin(info(tmp_path, resumed_at=2))  # within the same second, too
    second.log("training", row(3, policy_loss=7.0))
    second.end(None)
    expected = {STEPS: 1.0, 2 * STEPS: 2.0, 3 * STEPS: 7.0}
    assert read_events(tmp_path) == {"training/policy_loss": expected}
    sizes = [p.stat().st_size for p in sorted((tmp_path / "tensorboard").iterdir())]
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]


def test_tensorboard_after_a_run_that_had_no_checkpoint_yet(tmp_path):
    for value in (1.0, 2.0):
        tracker = TensorBoard()
        tracker.begin(info(tmp_path))
        tracker.log("evaluation", row(0, mean_return=value))
        tracker.end(None)
    assert read_events(tmp_path) == {"evaluation/mean_return": {0: 2.0}}


def test_events_up_to_an_evaluation_survive_a_kill(tmp_path):
    """A checkpoint may follow the evaluation, and a resumed run does not log its past again."""
    tracker = TensorBoard()
    tracker.begin(info(tmp_path))
    tracker.log("training", row(1, policy_loss=0.5))
    tracker.log("evaluation", row(1, mean_return=2.0))
    assert len(read_events(tmp_path)) == 2  # although it has not been closed
    tracker.end(None)


# --------------------------------------------------------------------------------------- one's own


class Noting:
    """Records its calls."""

    def __init__(self):
        self.calls = []

    def begin(self, run):
        self.calls.append(("begin", run.directory.name, run.resumed_at, run.first_step))

    def log(self, table, row):
        self.calls.append((table, row["update"]))

    def end(self, summary):
        self.calls.append(("end", summary))


class Broken(Noting):
    def log(self, table, row):
        super().log(table, row)
        raise OSError("no route to host")


MADE = []


def noting():
    MADE.append(Noting())
    return MADE[-1]


def broken():
    MADE.append(Broken())
    return MADE[-1]


@pytest.fixture
def made():
    MADE.clear()
    return MADE


def test_a_group_passes_everything_on(tmp_path, made):
    group = TrackerGroup({"a": noting, "b": noting}, info(tmp_path, resumed_at=3))
    group.log("training", row(4))
    group.end({"seed": 0})
    expected = [
        ("begin", tmp_path.name, 3, 3 * STEPS + 1),
        ("training", 4),
        ("end", {"seed": 0}),
    ]
    assert [tracker.calls for tracker in made] == [expected, expected]


def test_a_tracker_that_raises_is_left_out_and_the_others_are_not(tmp_path, made):
    group = TrackerGroup({"bad": broken, "good": noting}, info(tmp_path))
    message = r"The tracker 'bad' has failed \(OSError: no route to host\)"
    with pytest.warns(RuntimeWarning, match=message):
        group.log("training", row(1))
    group.log("training", row(2))  # no second warning, which would be an error here
    group.end(None)
    bad, good = made
    assert bad.calls[1:] == [("training", 1)]
    assert good.calls[1:] == [("training", 1), ("training", 2), ("end", None)]


class Taking(Noting):
    """Takes everything out of what it is given."""

    def log(self, table, row):
        row.clear()

    def end(self, summary):
        summary["absolute_metric"].clear()
        summary.clear()


def test_what_a_tracker_does_to_its_rows_changes_nothing_else(tmp_path, made):
    rows, summary = row(1, mean_return=2.0), {"seed": 0, "absolute_metric": {"episodes": 320}}
    group = TrackerGroup({"taking": Taking, "noting": noting}, info(tmp_path))
    group.log("evaluation", rows)
    group.end(summary)
    assert rows == row(1, mean_return=2.0)
    assert summary == {"seed": 0, "absolute_metric": {"episodes": 320}}
    assert made[0].calls[1:] == [("evaluation", 1), ("end", summary)]


def test_a_tracker_that_cannot_begin_is_left_out(tmp_path):
    with pytest.warns(RuntimeWarning, match="The tracker 'bad' has failed"):
        group = TrackerGroup({"bad": lambda: 1 / 0}, info(tmp_path))
    group.log("training", row(1))
    group.end(None)


def test_trackers_are_found_by_name():
    here = "tests.runs.test_trackers:Noting"
    assert load_trackers([]) == {}
    found = load_trackers(["tensorboard", here])
    assert list(found) == ["tensorboard", here]
    assert isinstance(found[here](), sys.modules[__name__].Noting)
    file = load_trackers(["examples/custom_tracker.py:JsonLines"])
    assert list(file) == [f"{ROOT}/examples/custom_tracker.py:JsonLines"]  # from any directory


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["tensorbord"], r"Unknown tracker 'tensorbord'\. Closest: 'tensorboard'\. Choose one of"),
        (["tests.runs.test_trackers:nothing"], "cannot be loaded: .* has no 'nothing'"),
        (["tests.runs.test_trackers:MADE"], "must be a function or class without arguments"),
        (["no.such.module:thing"], "there is no module 'no'"),
        ("tensorboard", r"`track` is 'tensorboard'; it must be a list of names"),
        ([3], r"`track` is \[3\]; it must be a list of names"),
    ],
)
def test_trackers_that_cannot_be_loaded(names, message):
    with pytest.raises(InputError, match=message):
        load_trackers(names)


def test_a_run_continues_with_its_trackers_unless_told_otherwise(tmp_path, made):
    here = "tests.runs.test_trackers:noting"
    example = "examples/custom_tracker.py:JsonLines"
    options = {"preset": "smoke", "num_evaluations": 2}
    train(TASK, out=tmp_path / "run", steps=2 * STEPS, track=[here, example], **options)
    names = [here, f"{ROOT}/{example}"]
    assert read_json(tmp_path / "run" / "config.json")["track"] == names
    assert [call[0] for call in made[0].calls].count("training") == 2
    assert made[0].calls[-1][1]["updates"] == 2
    resume(tmp_path / "run", steps=3 * STEPS)
    assert made[1].calls[:2] == [("begin", "run", 2, 2 * STEPS + 1), ("training", 3)]
    resume(tmp_path / "run", steps=4 * STEPS, track=[])
    assert len(made) == 2
    lines = (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["steps"] // STEPS for line in lines] == [0, 1, 2, 3]
    assert json.loads(lines[0])["run"] == f"{TASK} mars seed 0"


# ------------------------------------------------------------------------------------------ W&B


def test_wandb_that_is_missing_is_named_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(
        InputError,
        match=r"The tracker 'wandb' needs the library wandb\. Install it with: pip install 'rat",
    ):
        train(TASK, preset="smoke", out=tmp_path / "run", track=["wandb"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_wandb_offline_has_a_run_for_each_seed_and_the_same_one_after_a_resume(tmp_path):
    pytest.importorskip("wandb")
    home = {
        "WANDB_MODE": "offline",
        "HOME": str(tmp_path / "home"),
        "RATIOSYM_CACHE": os.path.expanduser("~/.cache/ratiosym"),
    }
    words = (
        "train",
        TASK,
        "--preset",
        "smoke",
        "--num-seeds",
        2,
        "--out",
        tmp_path / "run",
        "--track",
        "wandb",
    )
    resumed = ("train", "--resume", tmp_path / "run", "--steps", 6 * STEPS)
    for number, command in enumerate((words, resumed), 1):
        done = run_command(*command, env=home, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "wandb:" not in done.stdout
        for seed in ("seed-0", "seed-1"):
            identity = (tmp_path / "run" / seed / "wandb.id").read_text()
            logs = list(
                (tmp_path / "run" / seed / "wandb").glob(f"offline-run-*/run-{identity}.wandb")
            )
            assert len(logs) == number
            assert all(b"evaluation/mean_return" in log.read_bytes() for log in logs)
            assert all(b"training/ratio_max" in log.read_bytes() for log in logs)
    identities = {
        (tmp_path / "run" / seed / "wandb.id").read_text() for seed in ("seed-0", "seed-1")
    }
    assert len(identities) == 2
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "home") == ["run"]
