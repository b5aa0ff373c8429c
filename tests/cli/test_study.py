"""End-to-end tests of ``ratiosym study``."""

import json
import os
import pty
import re
import shutil
import subprocess

import pytest

from ratiosym.experiments.jobs import claim
from ratiosym.experiments.plans import read_plan
from ratiosym.experiments.run_job import RunJob
from ratiosym.experiments.study import begin_study
from ratiosym.runs.directory import write_failure
from tests.example_runs import COMMAND, STEPS, TASK, contents, environment

PLAN = f"""
name = "mine"
about = "For a test"
algorithms = ["mars", "mappo"]
tasks = ["{TASK}"]
seeds = [0, 1]
preset = "smoke"
options = {{ steps = {12 * STEPS}, num_evaluations = 6 }}
"""


@pytest.fixture
def mine(here):
    path = here / "mine.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def half_done(mine, here, whole):
    """A study of four runs: one done, one failed, one interrupted, one missing."""
    plan, out = read_plan(mine), here / "study"
    begin_study(plan, out)
    done, failed, interrupted, _ = plan.runs()
    shutil.copytree(whole, out / done.path)
    RunJob(out, done).notes.parent.mkdir(parents=True)
    RunJob(out, done).notes.write_text(
        '{"mean_return": -20.5, "timed_steps": 1536, "seconds": 180.0}'
    )
    write_failure(out / failed.path, "NonFiniteLoss: it [grew] \x1b[2J", "Traceback")
    shutil.copytree(whole, out / interrupted.path)
    (out / interrupted.path / "summary.json").unlink()
    shutil.rmtree(out / interrupted.path / "checkpoint" / "12")
    return out


# -------------------------------------------------------------------------------- help, wrong input


WRONG = {
    "no plan": (
        ("run",),
        "Name a plan, or the --out of a study to resume. Built-in plans: paper, paper-ablation",
    ),
    "unknown plan": (("run", "smok"), "Unknown plan 'smok'. Closest: 'smoke'."),
    "no such file": (("run", "a.toml"), "There is no plan 'a.toml'."),
    "nothing to resume": (
        ("run", "--out", "a"),
        "'a' does not exist. Start one with: ratiosym study run PLAN --out",
    ),
    "no study": (("status", "."), "'.' holds no study: there is no plan.json in it."),
    "resources here": (("run", "smoke", "--gpus", 1), "--cpus and --gpus are for --executor ray."),
    "workers there": (
        ("run", "smoke", "--executor", "ray", "--workers", 1),
        "--workers is for --executor local.",
    ),
    "no workers": (
        ("run", "smoke", "--out", "a", "--workers", 0),
        "--workers is 0; it must be at least 1.",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input(wrong, ask, here):
    words, message = WRONG[wrong]
    text = ask("study", *words, code=2)
    assert list(here.iterdir()) == []
    assert text.startswith("ratiosym: ")
    assert message in text
    assert len(text.splitlines()) == 1


def test_another_plan_changes_nothing(half_done, ask):
    before = contents(half_done)
    text = ask("study", "run", "smoke", "--out", half_done, code=2)
    assert "contains a different study" in text
    assert contents(half_done) == before


# ------------------------------------------------------------------------------------------- status


def test_status_says_what_is_done_and_what_is_not(half_done, ask):
    before = contents(half_done)
    text = ask("study", "status", half_done)
    assert text.startswith("mine: For a test\n")
    assert re.search(rf"{TASK} +\S +1 \S +0 ", text)
    failure = half_done / "runs" / TASK / "mappo" / "seed-0" / "failure.txt"
    assert f"failed   {TASK} mappo seed 0: NonFiniteLoss: it [grew]  [2J ({failure})" in text
    assert "\x1b" not in text
    assert "25% of all steps: 1 done, 1 failed, 1 interrupted, 1 missing of 4 runs; about" in text
    assert f"Resume with: ratiosym study run --out {half_done}" in text
    assert contents(half_done) == before


def test_status_sees_what_runs(half_done, ask):
    run = read_plan(half_done.parent / "mine.toml").runs()[3]
    with claim(RunJob(half_done, run), 0.0):
        text = ask("study", "status", half_done)
        assert f"running  {TASK} mappo seed 1  0%  compiling ..." in text
        RunJob(half_done, run).notes.write_text(
            '{"steps": 768, "mean_return": -25.0, "steps_per_second": 5300.4, '
            '"timed_steps": 768, "seconds": 90.0}'
        )
        text = ask("study", "status", half_done)
    assert f"running  {TASK} mappo seed 1  50%  return -25.00  5,300 steps/s" in text
    assert (
        "1 done, 1 running, 1 failed, 1 interrupted of 4 runs; about 4 minutes left" in text
    )  # 1.5 runs of 3 minutes
    assert "Resume with" not in text


def test_status_before_anything_is_known(mine, here, ask):
    begin_study(read_plan(mine), here / "study")
    text = ask("study", "status", here / "study")
    assert "0% of all steps: 4 missing of 4 runs; time left unknown" in text


# ------------------------------------------------------------------------------------------ running


def test_a_study_of_one_run(here, ask):
    """A real worker; one seed; the directory chosen by the plan's name."""
    (here / "one.toml").write_text(
        f'name = "one"\nalgorithms = ["mars"]\ntasks = ["{TASK}"]\nseeds = [3]\npreset = "smoke"\n'
        f"options = {{ steps = {STEPS}, num_evaluations = 1 }}\n"
    )
    lines = ask("study", "run", "one.toml").splitlines()
    assert lines[:2] == [
        "One seed only: results will have no confidence intervals.",
        "1 missing of 1 runs; time left unknown",
    ]
    assert re.fullmatch(
        rf"done +{TASK} mars seed 3  return -\d+\.\d\d  \(1 of 1, nothing left to do\)", lines[2]
    )
    assert lines[3:] == ["1 done of 1 runs; nothing left to do. Directory: studies/one"]
    assert (here / "studies" / "one" / "runs" / TASK / "mars" / "seed-3" / "summary.json").exists()
    again = ask("study", "run", "--out", "studies/one").splitlines()
    assert again[1:] == ["1 done of 1 runs; nothing left to do", *lines[3:]]


def test_failures_are_told_at_the_end(half_done, whole, ask):
    """Nothing is left to run."""
    for label, seed in (("mars", 1), ("mappo", 1)):
        place = half_done / "runs" / TASK / label / f"seed-{seed}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        record = json.loads((place / "config.json").read_text())
        record["config"] |= {"seed": 1, "objective": label}
        if label == "mappo":
            record["config"]["objective_parameters"] = {"epsilon": 0.2}
        (place / "config.json").write_text(json.dumps(record))
    text = ask("study", "run", half_done.parent / "mine.toml", "--out", half_done, code=1)
    assert f"failed   {TASK} mappo seed 0: NonFiniteLoss: it [grew]" in text
    assert "3 done, 1 failed of 4 runs; nothing left to do." in text
    assert (
        f"Retry the failed runs with: ratiosym study run --out {half_done} --retry-failed" in text
    )


@pytest.mark.slow
def test_the_smoke_plan_on_a_terminal(here):
    """The built-in plan from start to end, with a bar for each stage."""
    master, slave = pty.openpty()
    words = [str(COMMAND), "reproduce", "smoke", "--out", "smoke"]
    study = subprocess.Popen(
        words, stdout=slave, stderr=slave, env=environment(TERM="xterm", COLUMNS="120"), cwd=here
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        shown += piece
    os.close(master)
    assert study.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(
        r"smoke .*\d+%  .*2 running, \d missing of 8 runs; (time left unknown|about|less)", text
    )
    assert re.search(r"mpe-spread-3ag mars seed \d +\d+%", text)
    assert re.search(r"tuning .*\d+%  \d of 4 searches; (time left unknown|about|less)", text)
    assert re.search(r"paxmen-4a mars +\d of 2 trials", text)
    assert "tuning: 4 of 4 searches; nothing left to do" in text
    assert "8 done of 8 runs; nothing left to do. Directory: smoke" in text
