"""``ratiosym reproduce`` as a user meets it, and ``ratiosym study run --tuned``."""

import dataclasses

import pytest

from ratiosym.experiments.plans import read_plan
from ratiosym.experiments.reproduce import reproduce
from ratiosym.experiments.study import begin_study
from ratiosym.experiments.tuning import planned_searches
from ratiosym.experiments.tuning.status import notes_file
from ratiosym.runs.files import read_json, write_json
from tests.example_runs import TASK, contents
from tests.experiments.jobs.example_jobs import Here
from tests.experiments.searching import Counting

PLAN = f"""
name = "mine"
about = "For a test"
algorithms = ["mars", "mappo"]
tasks = ["{TASK}"]
seeds = [0, 1]
preset = "smoke"

[tuning]
search = "trust-region"
trials = "all"
seeds = [1000]

[tuning.grid]
mars = [{{ b_lower = 0.5, b_upper = 2.0 }}, {{ b_lower = 0.1, b_upper = 10.0 }}]
mappo = [{{ epsilon = 0.1 }}]
"""


@pytest.fixture
def mine(here):
    path = here / "mine.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def tuned(mine, here, monkeypatch):
    """An experiment whose searches have ended."""
    monkeypatch.setattr("ratiosym.experiments.jobs.runner.POLL_SECONDS", 0.01)
    reproduce(read_plan(mine), here / "out", Here, only="tuning", train=Counting())
    return here / "out"


WRONG = {
    "no plan": (
        (),
        "Name a plan, or the --out of an experiment to resume. Built-in plans: paper, paper-abl",
    ),
    "unknown plan": (("smok",), "Unknown plan 'smok'. Closest: 'smoke'."),
    "a plan of before": (("table1",), "Unknown plan 'table1'."),
    "nothing to resume": (
        ("--out", "a"),
        "'a' does not exist. Start one with: ratiosym reproduce PLAN --out 'a'",
    ),
    "an unknown stage": (("smoke", "--only", "run"), "--only is 'run'; it must be one of tuning,"),
    "a part that is none": (
        ("smoke", "--shard", "3/2"),
        "--shard is '3/2'; it must be I/N with I from 1 to N",
    ),
    "runs before searches": (
        ("smoke", "--only", "runs"),
        "The plan 'smoke' tunes its algorithms, but there are no settings for 'mars' on",
    ),
    "resources here": (("smoke", "--gpus", 1), "--cpus and --gpus are for --executor ray."),
    "another storage": (
        ("smoke", "--storage", "mysql://me:secret@host/db"),
        "--storage is 'mysql://me:***@host/db'. It must be postgresql://USER",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input(wrong, ask, here):
    words, message = WRONG[wrong]
    text = ask("reproduce", *words, code=2)
    assert text.startswith("ratiosym: ")
    assert message in text
    assert len(text.splitlines()) == 1
    assert "secret" not in text
    assert list(here.iterdir()) == []


def test_the_papers_plans_are_not_run_untuned(ask, here):
    for name in ("paper", "paper-ablation", "cpu", "smoke"):
        text = ask("study", "run", name, code=2)
        assert f"The plan '{name}' tunes its algorithms, but there are no settings for" in text
        assert "'ratiosym reproduce' searches for them first" in text
        assert "set --tuned to their directory" in text
    assert list(here.iterdir()) == []


def test_settings_that_are_missing_are_named(mine, tuned, ask, here):
    (here / "empty").mkdir()
    text = ask("study", "run", mine, "--tuned", "empty", "--out", "study", code=2)
    assert f"'empty' has no settings for 'mars' on '{TASK}' (and 1 more)" in text
    text = ask("study", "run", mine, "--tuned", "nowhere", "--out", "study", code=2)
    assert "--tuned is 'nowhere', which is not a directory." in text
    assert not (here / "study").exists()


def test_status_of_both_stages(mine, ask, here):
    """Before, while and after it searches."""
    plan, out = read_plan(mine), here / "out"
    begin_study(plan, out)
    text = ask("study", "status", "out")
    assert text.startswith("mine: For a test\ntrials finished")
    assert "0/2" in text
    assert "tuning: 0 of 2 searches; time left unknown" in text
    assert "4 missing of 4 runs" in text
    assert "Resume with: ratiosym reproduce --out out" in text
    [mars, _] = planned_searches(plan, plan.tuning, out / "tuning").values()
    write_json(notes_file(mars.out), {"trials": 1, "seeds": 1, "best": -20.0, "seconds": 600.0})
    write_json(mars.out / "search.json", {})
    text = ask("study", "status", "out")
    assert "1/2" in text
    assert "left" in text.partition("tuning: 0 of 2 searches; about")[2]


def test_status_when_all_is_tuned(tuned, ask):
    before = contents(tuned)
    text = ask("study", "status", tuned)
    assert "tuning: 2 of 2 searches; nothing left to do; settings: " in text
    assert "2/2" in text
    assert "1/1" in text
    assert contents(tuned) == before


def test_a_resumed_search_is_reported(tuned, mine, ask):
    """Nothing is left of the first stage: its summary, its figures, and nothing run."""
    best = read_json(tuned / "tuning" / TASK / "mars" / "best.json")["value"]
    text = ask("reproduce", mine, "--out", tuned, "--only", "tuning", "--workers", 1)
    assert "tuning: 2 of 2 searches; nothing left to do" in text
    assert (tuned / "tuning" / TASK / "mars" / "values.png").exists()
    assert read_json(tuned / "settings.json")["settings"][TASK]["mars"]["value"] == best


def test_another_plan_changes_nothing(tuned, mine, ask):
    plan = read_plan(mine)
    begin_study(dataclasses.replace(plan, name="renamed"), tuned)  # names may change
    before = contents(tuned)
    mine.write_text(PLAN.replace("seeds = [1000]", "seeds = [1000, 1001]"))
    text = ask("reproduce", mine, "--out", tuned, code=2)
    assert "contains a different study: tuning" in text
    assert contents(tuned) == before
