"""From searches to runs: final runs have what the searches found, nothing is searched or run twice,
and an experiment that is interrupted anywhere comes to the same end.
"""

import dataclasses
import json
import os
import re
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.plans import Plan, read_plan
from ratiosym.experiments.reproduce import experiment_status, reproduce
from ratiosym.experiments.settings import read_tuned
from ratiosym.experiments.shards import Shard
from ratiosym.experiments.study import read_study, run_study
from ratiosym.learning.config import RunConfig
from ratiosym.runs.files import read_json, write_json
from tests.example_runs import COMMAND, ROOT, TASK, contents, environment
from tests.experiments.jobs.example_jobs import Here
from tests.experiments.searching import Counting
from tests.waiting import wait_until

CONNECTOR = "connector-5x5x3a"
POINTS = {
    "mars": [{"b_lower": 0.5, "b_upper": 2.0}, {"b_lower": 0.1, "b_upper": 10.0}],
    "mappo": [{"epsilon": 0.2}, {"epsilon": 0.1}],
}
WALK = {"search": "trust-region", "trials": "all", "seeds": [1000, 1001], "grid": POINTS}


def make_plan(**changes):
    return Plan.from_dict(
        {
            "name": "small",
            "algorithms": ["mars", "mappo"],
            "tasks": [TASK, CONNECTOR],
            "seeds": [0, 1],
            "preset": "smoke",
            "tuning": WALK,
            **changes,
        }
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("ratiosym.experiments.jobs.runner.POLL_SECONDS", 0.01)


class Runs:
    """Final runs that cost nothing, counted; ``fail_at`` interrupts one of them."""

    def __init__(self):
        self.seen, self.fail_at = [], None

    def start(self, config, directory, on_progress, **_):
        if len(self.seen) == self.fail_at:
            self.fail_at = None
            raise KeyboardInterrupt
        self.seen.append(config)
        write_json(directory / "config.json", {"config": config.to_dict()})
        on_progress(SimpleNamespace(steps=config.steps, evaluations=[], rows=[]))
        write_json(directory / "summary.json", {})


@pytest.fixture
def runs(monkeypatch):
    fake = Runs()
    monkeypatch.setattr("ratiosym.runs.loop.start", fake.start)
    return fake


def carry_out(plan, out, seeds=None, **options):
    return reproduce(plan, out, Here, train=seeds or Counting(), **options)


# With ``formula`` of the searches a wider upper target is better, and all epsilons are alike.
BEST = {"mars": POINTS["mars"][1], "mappo": {"epsilon": 0.1}}


def expect_tuned(out, plan):
    """Settings are frozen and every run has those of its task and algorithm."""
    frozen = read_json(out / "settings.json")["settings"]
    kept = read_json(out / "plan.json")["plan"]["settings"]
    for pair in plan.pairs():
        entry = frozen[pair.task][pair.label]
        assert entry["options"] == kept[pair.task][pair.label] == BEST[pair.label]
        assert entry["search"] == f"tuning/{pair.task}/{pair.label}"
        assert entry["objective"] == pair.objective
        best = read_json(out / entry["search"] / "best.json")
        assert (entry["value"], entry["seeds"]) == (best["value"], best["seeds"])
        assert entry["trials"] == {"complete": 2, "pruned": 0, "diverged": 0}
        for seed in plan.seeds:
            place = out / "runs" / pair.task / pair.label / f"seed-{seed}"
            config = RunConfig.from_dict(read_json(place / "config.json")["config"])
            assert config.objective_parameters == BEST[pair.label]
            assert (config.task, config.objective, config.seed) == (pair.task, pair.label, seed)


def test_final_runs_have_what_the_searches_found(runs, tmp_path):
    plan, seeds, out = make_plan(), Counting(), tmp_path / "out"
    status = carry_out(plan, out, seeds)
    assert status.is_over
    # 2 tasks x 2 algorithms x 2 points x 2 seeds, of which no final run has one.
    assert len(seeds.seen) == 16
    assert {config.seed for config in seeds.seen} == {1000, 1001}
    assert len(runs.seen) == 8
    expect_tuned(out, plan)
    assert read_study(out).settings == dict.fromkeys(plan.tasks, BEST)

    before = contents(out)
    again = carry_out(plan, out, seeds)
    assert again.is_over
    assert (len(seeds.seen), len(runs.seen)) == (16, 8)
    assert contents(out) == before


def test_values_and_ties(tmp_path):
    """The value of a setting is the mean over seeds of the last fifth of the evaluations; of equal
    ones the narrower region is taken.
    """

    def flat(config):
        upper = config.bounds.upper
        value = 7.0 if config.seed == 1000 else 9.0
        late = value if upper < 1.2 + 1e-9 else value - 1
        return [{"update": i, "steps": i, "mean_return": late if i > 8 else 99} for i in range(11)]

    grid = {"mars": [{"b_lower": low, "b_upper": 1.2} for low in (0.3, 0.8, 0.5)]}
    plan = make_plan(algorithms=["mars"], tuning={**WALK, "grid": grid, "steps": 128})
    carry_out(plan, tmp_path, flat, only="tuning")
    best = read_json(tmp_path / "tuning" / TASK / "mars" / "best.json")
    assert (best["steps"], best["config"]["steps"]) == (128, 512)  # as long as the plan's runs
    entry = read_json(tmp_path / "settings.json")["settings"][TASK]["mars"]
    assert entry["value"] == 8.0
    assert entry["options"] == {"b_lower": 0.8, "b_upper": 1.2}
    rows = (tmp_path / "tuning" / TASK / "mars" / "trials.csv").read_text().splitlines()
    assert len(rows) == 4
    assert all(",complete," in row for row in rows[1:])  # nothing was pruned


@pytest.mark.parametrize("where", range(0, 24, 3))
def test_interrupted_anywhere(where, runs, tmp_path):
    """At any of the 16 seeds of searches and 8 final runs."""
    plan, out = make_plan(), tmp_path / "out"
    seeds = Counting(fail_at=where)
    runs.fail_at = where - 16
    with pytest.raises(KeyboardInterrupt):
        carry_out(plan, out, seeds)
    assert (out / "settings.json").exists() == (where >= 16)
    status = experiment_status(out)
    assert not status.is_over
    assert status.is_tuned == (where >= 16)
    assert sum(search.trials for search in status.searches) == min(8, where // 2)
    assert len(status.study.of("done")) == max(0, where - 16)
    carry_out(plan, out, seeds)
    assert (len(seeds.seen), len(runs.seen)) == (16, 8)
    expect_tuned(out, plan)


def test_frozen_settings_stay(runs, tmp_path):
    """Also if plan.json has not got them yet, and whatever becomes of the searches."""
    plan, out = make_plan(), tmp_path / "out"
    carry_out(plan, out, only="tuning")
    frozen = (out / "settings.json").read_bytes()
    details = read_json(out / "plan.json")
    details["plan"]["settings"] = {}
    write_json(out / "plan.json", details)  # as if killed between the two files
    best = out / "tuning" / TASK / "mars" / "best.json"
    write_json(best, {**read_json(best), "params": POINTS["mars"][0]})
    carry_out(plan, out)
    assert (out / "settings.json").read_bytes() == frozen
    assert read_json(out / "plan.json")["plan"]["settings"][TASK]["mars"] == BEST["mars"]
    assert all(c.objective_parameters == BEST[c.objective] for c in runs.seen)


def test_stages_one_by_one(runs, tmp_path):
    plan, out = make_plan(), tmp_path / "out"
    with pytest.raises(InputError, match=f"no settings for 'mars' on '{TASK}'"):
        carry_out(plan, out, only="runs")
    assert not out.exists()
    carry_out(plan, out, only="tuning")
    assert runs.seen == []
    seeds = Counting()
    carry_out(plan, out, seeds, only="runs")
    assert (len(seeds.seen), len(runs.seen)) == (0, 8)
    expect_tuned(out, plan)


def test_parts_wait_for_nobody(runs, tmp_path):
    """Each has the searches and runs of its tasks and algorithms; the last one sees the end."""
    plan, out = make_plan(), tmp_path / "out"
    first = carry_out(plan, out, shard=Shard(1, 2))
    assert first.is_over
    assert len(runs.seen) == 4
    assert not (out / "settings.json").exists()
    assert not experiment_status(out).is_over
    carry_out(plan, out, shard=Shard(2, 2))
    assert len(runs.seen) == 8
    assert experiment_status(out).is_over
    expect_tuned(out, plan)


def test_parts_of_the_runs(runs, tmp_path):
    plan, out = make_plan(), tmp_path / "out"
    carry_out(plan, out, only="tuning")
    for index in (1, 2, 3):
        carry_out(plan, out, only="runs", shard=Shard(index, 3))
        assert len(runs.seen) == [3, 6, 8][index - 1]
    expect_tuned(out, plan)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3"])
def test_parts_that_are_none(text):
    with pytest.raises(InputError, match=r"it must be I/N with I from 1 to N, as in 1/16"):
        Shard.parse(text)


def test_parts_are_everything_once():
    things = list(range(23))
    parts = [Shard.parse(f"{i}/5").part(things) for i in range(1, 6)]
    assert sorted(thing for part in parts for thing in part) == things
    assert {len(part) for part in parts} == {4, 5}


def test_a_plan_that_tunes_nothing_is_run(runs, tmp_path):
    plan = make_plan(tuning=None)
    seeds = Counting()
    assert carry_out(plan, tmp_path / "out", seeds).is_over
    assert (len(seeds.seen), len(runs.seen)) == (0, 8)
    assert not (tmp_path / "out" / "tuning").exists()


def test_a_directory_has_one_experiment(runs, tmp_path):
    plan, out = make_plan(), tmp_path / "out"
    carry_out(plan, out, only="tuning")
    before = contents(out)
    for other in (make_plan(seeds=[0]), make_plan(tuning={**WALK, "seeds": [1000]})):
        with pytest.raises(InputError, match="contains a different study"):
            carry_out(other, out)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": -5}, "`steps` is -5; it must be from 1"),
        ({"steps": 3}, "A budget of 3 steps is smaller than one update"),
        ({"seeds": [2**32]}, "`seed` is 4294967296; it must be from 0"),
        ({"sampler_seed": -1}, "`sampler_seed` is -1; it must be at least 0"),
    ],
)
def test_searches_that_cannot_run_write_nothing(runs, tmp_path, wrong, message):
    plan = make_plan(tuning={**WALK, **wrong})
    with pytest.raises(InputError, match=f"The search for 'mars' on '{TASK}': {message}"):
        carry_out(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_searches_that_only_diverge(runs, tmp_path):
    def diverge(config):
        return [{"update": i, "steps": i, "mean_return": float("nan")} for i in range(11)]

    with pytest.raises(InputError, match=f"No trial .* no settings for 'mars' on '{TASK}'"):
        carry_out(make_plan(), tmp_path / "out", diverge)
    assert runs.seen == []


# ------------------------------------------------------------------------------- tuned by oneself


def test_a_study_with_settings_from_elsewhere(runs, tmp_path):
    """From the tree of 'tune --all', from an experiment, and from one that is half done."""
    plan, out = make_plan(), tmp_path / "out"
    carry_out(plan, out, only="tuning")
    expected = dict.fromkeys(plan.tasks, BEST)
    for place in (out, out / "tuning"):
        assert read_tuned(place, plan.pairs()) == expected
    (out / "settings.json").unlink()
    assert read_tuned(out, plan.pairs()) == expected

    tuned = dataclasses.replace(plan, settings=read_tuned(out / "tuning", plan.pairs()))
    assert len(run_study(tuned, tmp_path / "study", Here).of("done")) == 8
    assert read_study(tmp_path / "study") == tuned  # copied
    assert all(c.objective_parameters == BEST[c.objective] for c in runs.seen)
    # The plan's name is enough to resume; other settings are refused.
    run_study(plan, tmp_path / "study", Here)
    assert len(runs.seen) == 8
    other = dataclasses.replace(plan, settings={TASK: {"mars": POINTS["mars"][0]}})
    with pytest.raises(InputError, match="contains this study with other settings"):
        run_study(other, tmp_path / "study", Here)
    assert experiment_status(tmp_path / "study").searches == ()


def test_settings_that_are_missing_are_named(runs, tmp_path):
    plan, out = make_plan(), tmp_path / "out"
    carry_out(plan, out, only="tuning", shard=Shard(1, 2))  # mars on both tasks
    with pytest.raises(InputError, match=f"no settings for 'mappo' on '{TASK}' \\(and 1 more\\)"):
        read_tuned(out, plan.pairs())
    with pytest.raises(InputError, match="which is not a directory"):
        read_tuned(out / "nowhere", plan.pairs())
    renamed = make_plan(algorithms=[{"objective": "maspo", "label": "mars"}], tuning=None)
    with pytest.raises(InputError, match=r"is of mars on .* but the plan's 'mars' is maspo"):
        read_tuned(out, renamed.pairs())
    with pytest.raises(InputError, match=f"no settings for 'mars' on '{TASK}'"):
        run_study(plan, tmp_path / "study", Here)
    assert not (tmp_path / "study").exists()
    assert runs.seen == []


# ------------------------------------------------------------------------------------- for real


@pytest.mark.slow
def test_smoke_killed_in_each_stage(tmp_path):
    """The built-in plan from the command to the page: killed while it searches, while it trains,
    and before its report; resumed each time by the same command.
    """
    words = [COMMAND, "reproduce", "smoke", "--out", "out", "--workers", "2"]
    out = tmp_path / "out"

    def kill_when(condition):
        process = subprocess.Popen(words, cwd=tmp_path, env=environment())
        try:  # with time for a busy machine
            wait_until(lambda: condition() or process.poll() is not None, 3600)
            assert process.poll() is None
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    kill_when(lambda: list(out.glob("tuning/*/*/trials/*/seed-1000/summary.json")))
    assert not (out / "settings.json").exists()
    seeds = {p: p.stat().st_mtime_ns for p in out.glob("tuning/*/*/trials/*/*/summary.json")}
    kill_when(lambda: list(out.glob("runs/*/*/seed-0/summary.json")))
    frozen = (out / "settings.json").read_bytes()
    done = {p: p.stat().st_mtime_ns for p in out.glob("runs/*/*/*/summary.json")}
    assert len(done) < 8
    ended = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "8 done of 8 runs" in ended.stdout
    assert (out / "report.html").exists()
    assert (out / "settings.json").read_bytes() == frozen
    for kept in (seeds, done):  # nothing was repeated
        assert all(path.stat().st_mtime_ns == when for path, when in kept.items())

    plan = read_plan("smoke")
    settings = json.loads(frozen)["settings"]
    for pair in plan.pairs():
        options = settings[pair.task][pair.label]["options"]
        assert options in [dict(point) for point in plan.tuning.grid[pair.label]]
        for seed in plan.seeds:
            place = out / "runs" / pair.task / pair.label / f"seed-{seed}"
            record = read_json(place / "config.json")
            assert record["config"]["objective_parameters"] == options
            assert record["command"] == f"ratiosym train --config {place / 'config.json'}"
    # A kill before the report leaves nothing but the report to write.
    (out / "report.html").unlink()
    before = {p: p.stat().st_mtime_ns for p in out.glob("runs/*/*/*/summary.json")}
    again = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert (out / "report.html").exists()
    assert before == {p: p.stat().st_mtime_ns for p in out.glob("runs/*/*/*/summary.json")}


@pytest.mark.slow
def test_the_smoke_plan_is_quick(tmp_path):
    """All stages in under three minutes on two cores of an idle machine. Processor time is what a
    busy one leaves unchanged: two cores for three minutes have six.
    """
    words = [COMMAND, "reproduce", "smoke", "--out", "out"]
    began = os.times()
    wall = time.monotonic()
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    ended = os.times()
    assert done.returncode == 0, done.stderr
    used = ended.children_user + ended.children_system
    used -= began.children_user + began.children_system
    assert min(used / 2, time.monotonic() - wall) < 180


@pytest.mark.slow
def test_the_script_for_slurm(tmp_path):
    """The script of the documentation as three processes with the variables that Slurm sets."""
    text = (ROOT / "docs" / "how-to" / "cluster.md").read_text()
    scripts = re.findall(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", text, re.DOTALL)
    [script] = [script for script in scripts if "ratiosym reproduce" in script]
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'name = "array"\nalgorithms = ["mars", "mappo"]\ntasks = ["{TASK}"]\nseeds = [0]\n'
        'preset = "smoke"\n[tuning]\nsearch = "trust-region"\ntrials = "all"\nseeds = [1000]\n'
        "[tuning.grid]\nmars = [{ b_lower = 0.5, b_upper = 2.0 }]\nmappo = [{ epsilon = 0.1 }]\n"
    )
    path = tmp_path / "experiment.sbatch"
    path.write_text(script)
    bin_directory = os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]])
    number = int(re.search(r"#SBATCH --array=1-(\d+)", script)[1])
    tasks = [
        subprocess.Popen(
            ["bash", path, plan, "out"],
            cwd=tmp_path,
            env=environment(
                PATH=bin_directory,
                SLURM_ARRAY_TASK_ID=str(index),
                SLURM_ARRAY_TASK_COUNT=str(number),
                SLURM_CPUS_PER_TASK="1",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(1, number + 1)
    ]
    for task in tasks:
        output, _ = task.communicate(timeout=3600)
        assert task.returncode == 0, output
    out = tmp_path / "out"
    assert experiment_status(out).is_over
    assert len(list(out.glob("runs/*/*/*/summary.json"))) == 2
    assert len(list(out.glob("tuning/*/*/trials/*/*/summary.json"))) == 2
    assert (out / "settings.json").exists()
    assert (out / "report.html").exists()
