"""Atomic writing of files, with unguessable temporary names."""

import json
import math
import os

import pytest

from ratiosym.errors import InputError
from ratiosym.runs import files
from ratiosym.runs.files import read_json, write_json, write_whole


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


def test_what_a_killed_write_left_is_known_and_removed(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: None)
        patch.setattr("pathlib.Path.unlink", lambda *_, **__: None)  # killed, so nobody cleans up
        write_whole(path, "half")
    [left] = os.listdir(tmp_path)
    assert files.is_leftover(left)
    assert not files.is_leftover("file.txt")
    write_whole(path, "whole")
    files.clear_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["file.txt"]
    files.clear_leftovers(tmp_path / "nowhere")


def test_a_planted_link_leads_nowhere(tmp_path, monkeypatch):
    """Even if names of temporary files could be guessed, links would not be followed."""
    outside, run = tmp_path / "outside.txt", tmp_path / "run"
    outside.write_text("mine")
    run.mkdir()
    (run / ".table.csv.writing").symlink_to(outside)
    write_whole(run / "table.csv", "new")
    assert outside.read_text() == "mine"
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "guessed")
    (run / ".table.csv.guessed.writing").symlink_to(outside)
    with pytest.raises(FileExistsError):
        write_whole(run / "table.csv", "newer")
    assert outside.read_text() == "mine"
    assert (run / "table.csv").read_text() == "new"


def test_an_error_of_the_system_becomes_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    message = r"'.*run' cannot be written \(Not a directory\)\. Move it\."
    with (
        pytest.raises(InputError, match=message),
        files.reporting_write_errors(tmp_path / "run", "Move it."),
    ):
        (tmp_path / "file" / "below").mkdir()


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
    (tmp_path / "config.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InputError, match=r"config\.json' cannot be read"):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"config\.json' cannot be read"):
        read_json(tmp_path / "config.json")
