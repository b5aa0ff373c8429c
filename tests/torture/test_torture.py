"""The torture in a short form, and that it notices what it is there for."""

import os
import shutil

import pytest

from tests.example_runs import run_python
from tests.torture.scenarios import SCENARIOS, differences, facts


@pytest.mark.slow
def test_faults_are_survived():
    done = run_python("-m", "tests.torture", "--seconds", "60", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "faults survived" in done.stdout


def test_a_run_that_was_changed_is_noticed(whole, tmp_path):
    copied = shutil.copytree(whole, tmp_path / "copied")
    assert differences(facts(whole), facts(copied)) == []
    table = copied / "evaluations.csv"
    table.write_text(table.read_text().replace("1", "2", 1))
    (copied / ".new.writing").touch()
    assert differences(facts(whole), facts(copied)) == [".new.writing", "evaluations.csv"]
    shutil.rmtree(copied / "checkpoint" / "12")
    assert "checkpoint" in differences(facts(whole), facts(copied))


def test_every_scenario_is_another():
    assert len({scenario.words for scenario in SCENARIOS}) == len(SCENARIOS)
    assert os.path.isfile(SCENARIOS[0].words[1].rpartition(":")[0])
