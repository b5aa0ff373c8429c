"""Files of a run: whole or not there, the same bits when read again, and curves that TensorBoard
and W&B can show.
"""

import json
import math
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import pytest

from ratiosym.api import train
from ratiosym.errors import InputError
from ratiosym.runs import provenance
from ratiosym.runs.files import read_json, write_json, write_whole
from ratiosym.runs.tables import columns_to_rows, read_table, rows_to_columns, write_table
from ratiosym.runs.trackers import Trackers
from tests.example_runs import ROOT, STEPS, TASK, read_events, run_command

# -------------------------------------------------------------------------------------- whole files


def test_write_whole_replaces_a_file_and_makes_its_directory(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_whole(path, "one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file.txt"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.txt"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "half of it \udcff")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_whole(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_what_a_killed_write_left_is_written_over(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: None)
        patch.setattr("pathlib.Path.unlink", lambda *_, **__: None)  # killed: nobody cleans up
        write_whole(path, "half")
    assert os.listdir(tmp_path) == [".file.txt.writing"]
    write_whole(path, "whole")
    assert os.listdir(tmp_path) == ["file.txt"]
    assert path.read_text() == "whole"


# ------------------------------------------------------------------------------------------- tables

AWKWARD = (
    0.1,
    1 / 3,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    float(np.float32(0.1)),
    math.inf,
    -math.inf,
    math.nan,
)


def test_a_table_comes_back_bit_for_bit(tmp_path):
    rows = [{"update": i, "steps": 128 * i, "value": x, "other": -x} for i, x in enumerate(AWKWARD)]
    write_table(tmp_path / "table.csv", rows)
    table = read_table(tmp_path / "table.csv")
    assert list(table) == ["update", "steps", "value", "other"]
    assert table["update"].tolist() == list(range(len(AWKWARD)))
    assert table["value"].tobytes()[:-8] == np.array(AWKWARD).tobytes()[:-8]
    assert math.isnan(table["value"][-1])
    again = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    write_table(
        tmp_path / "again.csv",
        [{**row, "update": int(row["update"]), "steps": int(row["steps"])} for row in again],
    )
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()


def test_a_table_is_what_other_programs_read(tmp_path):
    write_table(
        tmp_path / "table.csv", [{"update": 1, "value": 0.1}, {"update": 2, "value": math.nan}]
    )
    assert (tmp_path / "table.csv").read_text() == "update,value\n1,0.1\n2,nan\n"


def test_tables_without_rows(tmp_path):
    (tmp_path / "header.csv").write_text("update,value\n")
    table = read_table(tmp_path / "header.csv")
    assert {name: values.size for name, values in table.items()} == {"update": 0, "value": 0}
    (tmp_path / "empty.csv").write_text("")
    assert read_table(tmp_path / "empty.csv") == {}


def test_rows_go_through_a_checkpoint_unchanged(tmp_path):
    rows = [
        {"update": i, "steps": 128 * i, "episodes": 8, "value": x} for i, x in enumerate(AWKWARD)
    ]
    columns = rows_to_columns(rows)
    shuffled = {name: columns[name] for name in sorted(columns)}
    back = columns_to_rows(shuffled, ["update", "steps", "episodes", "value"])
    for name, table in (("one", rows), ("two", back)):
        write_table(tmp_path / name, table)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert rows_to_columns([]) == {}
    assert columns_to_rows({}, []) == []


# --------------------------------------------------------------------------------------------- JSON


def test_json_has_null_for_what_is_not_a_number(tmp_path):
    data = {
        "a": math.nan,
        "b": [1.5, -math.inf, {"c": math.inf}],
        "d": None,
        "e": (1, True),
        "f": "NaN",
    }
    write_json(tmp_path / "data.json", data)
    assert json.loads((tmp_path / "data.json").read_text(), parse_constant=pytest.fail) == {
        "a": None,
        "b": [1.5, None, {"c": None}],
        "d": None,
        "e": [1, True],
        "f": "NaN",
    }


def test_json_that_is_not_there_or_not_json(tmp_path):
    with pytest.raises(
        InputError, match=r"is not the directory of a run: it has no config\.json\. 'ratiosym train"
    ):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text('{"half": ')
    with pytest.raises(InputError, match=r"config\.json' cannot be read"):
        read_json(tmp_path / "config.json")


# --------------------------------------------------------------------------------------- provenance


def test_provenance_says_what_ran_and_where():
    found = provenance.provenance()
    assert found["versions"]["jax"] == version("jax") == jax.__version__
    assert found["versions"]["ratiosym"] == version("ratiosym")
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["versions"]["orbax-checkpoint"] == version("orbax-checkpoint")
    assert found["devices"] == ["cpu"] * 2
    assert found["command"] == " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    assert found["processor"]
    json.dumps(found, allow_nan=False)


def test_the_commit_is_that_of_the_source_tree():
    commit = provenance.commit()
    if not (ROOT / ".git").exists():
        assert commit is None
    else:
        name = commit.removesuffix("+changes")
        assert len(name) == 40
        assert int(name, 16) > 0


def test_a_package_outside_a_source_tree_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "__file__", str(tmp_path / "records.py"))
    assert provenance.commit() is None


# ----------------------------------------------------------------------------------------- trackers


def row(update, **values):
    return {"update": update, "steps": 100 * update, **values}


def test_tensorboard_gets_every_number_at_its_step(tmp_path):
    trackers = Trackers(tmp_path, {}, {}, None)
    trackers.add("evaluation", row(0, mean_return=-3.5))
    trackers.add("training", row(1, policy_loss=0.25, episode_return=math.nan))
    trackers.add("training", row(2, policy_loss=0.5, episode_return=7.0))
    trackers.close()
    assert read_events(tmp_path) == {
        "evaluation/mean_return": {0: -3.5},
        "training/policy_loss": {100: 0.25, 200: 0.5},
        "training/episode_return": {200: 7.0},
    }


def test_after_a_resume_tensorboard_shows_the_checkpoint_and_what_follows_it(tmp_path):
    """Also where the killed run's last events did not come to the disk, or came from after the
    checkpoint.
    """
    trackers = Trackers(tmp_path, {}, {}, None)
    for update in (1, 4):
        trackers.add("training", row(update, policy_loss=1.0))
    trackers.close()
    time.sleep(1.1)  # event files are named after the second they were begun in
    past = {
        "evaluation": [row(0, mean_return=5.0)],
        "training": [row(n, policy_loss=2.0) for n in (1, 2)],
    }
    trackers = Trackers(tmp_path, {}, past, None)
    trackers.add("training", row(3, policy_loss=3.0))
    trackers.close()
    assert read_events(tmp_path) == {
        "evaluation/mean_return": {0: 5.0},
        "training/policy_loss": {100: 2.0, 200: 2.0, 300: 3.0},
    }


def test_wandb_that_is_missing_is_named_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(
        InputError,
        match=r"--wandb needs the library wandb\. Install it with: pip install 'ratiosym\[",
    ):
        train(TASK, preset="smoke", out=tmp_path / "run", wandb="project")
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
        "--wandb",
        "project",
    )
    resumed = ("train", "--resume", tmp_path / "run", "--steps", 6 * STEPS, "--wandb", "project")
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
