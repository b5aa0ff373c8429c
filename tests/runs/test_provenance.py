"""Provenance in the records of runs."""

import json
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

import jax

from ratiosym.runs import provenance
from tests.example_runs import ROOT


def test_provenance_says_what_ran_and_where():
    found = provenance.provenance()
    assert found["versions"]["jax"] == version("jax") == jax.__version__
    assert found["versions"]["ratiosym"] == version("ratiosym")
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["versions"]["orbax-checkpoint"] == version("orbax-checkpoint")
    assert found["devices"] == ["cpu"] * 2
    assert found["command"] == shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    assert provenance.provenance("ratiosym train x")["command"] == "ratiosym train x"
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
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "provenance.py"))
    assert provenance.commit() is None


def test_a_command_that_repeats_a_run(tmp_path):
    path = Path("a b") / "config.json"
    assert provenance.train_command(path, 1) == "ratiosym train --config 'a b/config.json'"
    assert provenance.train_command(path, 3).endswith(" --num-seeds 3")
