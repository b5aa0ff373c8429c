"""End-to-end tests of ``ratiosym tune`` and ``ratiosym train --config``."""

import json
import re
import subprocess
from pathlib import Path
from time import monotonic

import pytest

from ratiosym.cli.commands import build_command, find_command
from ratiosym.cli.tune_display import describe, summary
from ratiosym.experiments.plans import read_plan
from ratiosym.experiments.presets import configure, preset, tuning_preset
from ratiosym.experiments.search_spaces import search_space
from ratiosym.experiments.tuning import TrialRow, planned_searches
from ratiosym.runs.files import read_json
from tests.example_runs import COMMAND, TASK, contents, environment


def parse(words):
    return build_command(find_command(words))


SMOKE = ("tune", TASK, "--preset", "smoke", "--workers", 1)

WRONG = {
    "no task": (
        ("tune",),
        ("Name a task, as in 'ratiosym tune mpe-spread-3ag', or a plan with --all.",),
    ),
    "unknown task": (
        ("tune", "mpe-spread-3agents"),
        ("Unknown task", "Closest: 'mpe-spread-3ag'."),
    ),
    "unknown objective": (
        (*SMOKE, "--objective", "marz"),
        ("Unknown objective 'marz'.", "Closest: 'mars'."),
    ),
    "unknown preset": (("tune", TASK, "--preset", "papr"), ("Unknown preset 'papr'.",)),
    "no trials": ((*SMOKE, "--trials", 0), ("--trials is 0; it must be at least 1.",)),
    "trials in words": (
        (*SMOKE, "--trials", "many"),
        ("--trials is 'many'; it must be a whole number or all.",),
    ),
    "all of the paper's space": (
        (*SMOKE, "--trials", "all"),
        ("--trials all needs --search trust-region.",),
    ),
    "part of one search": ((*SMOKE, "--shard", "1/2"), ("--shard is for the searches of a plan",)),
    "a part that is none": (
        ("tune", "--all", "smoke", "--shard", "0/2"),
        ("--shard is '0/2'; it must be I/N with I from 1 to N, as in 1/16.",),
    ),
    "no seeds": ((*SMOKE, "--num-seeds", 0), ("--num-seeds is 0; it must be at least 1.",)),
    "no workers": (
        ("tune", TASK, "--preset", "smoke", "--workers", 0),
        ("--workers is 0; it must be at least 1.",),
    ),
    "what is searched": (
        (*SMOKE, "--num-epochs", 3),
        ("--num-epochs is searched (2, 4, 8). Omit it, or use --search trust-region.",),
    ),
    "too few environments": (
        (*SMOKE, "--num-envs", 8),
        (
            "up to 8 minibatches (Table 2)",
            "4 environments per group",
            "Make --num-envs a multiple of 16.",
        ),
    ),
    "small budget": ((*SMOKE, "--steps", 100), ("smaller than one update",)),
    "unknown plan": (
        ("tune", "--all", "first-result"),
        ("Unknown plan 'first-result'.", "Closest: 'first-results'."),
    ),
    "plan and task": (
        ("tune", TASK, "--all", "smoke"),
        ("--all takes task, objective, preset and settings from the plan. Omit",),
    ),
    "plan and sizes": (
        ("tune", "--all", "smoke", "--num-envs", 8),
        ("--all takes task, objective, preset and settings from the plan. Omit",),
    ),
    "cores of this machine": (
        (*SMOKE, "--cpus", 2),
        ("--cpus and --gpus are for --executor ray.",),
    ),
    "workers of ray": ((*SMOKE, "--executor", "ray"), ("--workers is for --executor local.",)),
    "another storage": (
        (*SMOKE, "--storage", "mysql://me:secret@host/db"),
        ("--storage is 'mysql://me:***@host/db'.", "It must be postgresql://USER"),
    ),
    "unreachable storage": (
        (*SMOKE, "--storage", "postgresql://me:secret@127.0.0.1:1/db"),
        (
            "'postgresql://me:***@127.0.0.1:1/db' reports an error:",
            "Connection refused",
        ),
    ),
    "no file of settings": (
        ("train", "--config", "best.json"),
        ("--config is 'best.json', which is not a file.",),
    ),
    "settings twice": (
        ("train", "--config", "x.json", "--preset", "smoke"),
        ("--config provides the task and all settings. Omit --preset.",),
    ),
    "tasks twice": (
        ("train", TASK, "--config", "x.json"),
        ("--config provides the task and all settings. Omit TASK.",),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_paragraph(case, ask, here):
    words, expected = WRONG[case]
    text = ask(*words, code=2)
    assert all(part in text for part in expected), text
    assert len(text.strip().splitlines()) == 1
    assert "secret" not in text
    assert contents(here) == {}


# ------------------------------------------------------------------------------------------ options


def test_presets_set_the_defaults():
    [search] = parse(["tune", TASK]).searches()
    assert search.config == tuning_preset("cpu", TASK, "mars")
    assert (search.config.steps, search.config.shape) == (500_000, preset("cpu", TASK).shape)
    assert (search.num_trials, search.seeds) == (80, (1000, 1001, 1002, 1003, 1004))
    assert str(search.out) == f"tuning/{TASK}/mars"
    [paper] = parse(
        ["tune", "jaxnav-8x8x2a", "--preset", "paper", "--objective", "mappo"]
    ).searches()
    assert (paper.config.steps, paper.config.num_evaluations, paper.num_trials) == (
        120_000_000,
        122,
        40,
    )
    [paper] = parse(["tune", TASK, "--preset=paper"]).searches()
    assert paper.config.steps == 40_000_000


def test_options_change_the_search():
    words = (
        "--steps 150000 --num-seeds 3 --trials 10 --num-envs 32 --seed 4 --out there "
        "--num-evaluations 5"
    )
    [search] = parse(["tune", TASK, "--objective", "maspo", *words.split()]).searches()
    assert search.config == configure(
        TASK,
        "cpu",
        objective="maspo",
        steps=150_000,
        num_envs=32,
        num_evaluations=5,
    )
    assert (search.num_trials, search.seeds, search.sampler_seed) == (10, (1000, 1001, 1002), 4)
    assert str(search.out) == "there"


def test_a_plan_is_tasks_times_algorithms():
    searches = parse(
        ["tune", "--all", "first-results", "--trials", "10", "--num-seeds", "3"]
    ).searches()
    tasks, objectives = ("connector-5x5x3a", "mpe-spread-3ag"), ("mars", "mappo", "maspo")
    assert [(s.config.task, s.config.objective) for s in searches] == [
        (t, o) for t in tasks for o in objectives
    ]
    assert {s.config.steps for s in searches} == {250_000}  # half of the plan's
    assert {s.config.shape.num_envs for s in searches} == {64}
    assert {(s.num_trials, len(s.seeds)) for s in searches} == {(10, 3)}
    assert [str(s.out) for s in searches][:2] == [
        f"tuning/first-results/{tasks[0]}/{o}" for o in objectives[:2]
    ]
    assert [s.study_name for s in searches][:2] == [f"{tasks[0]}/{o}" for o in objectives[:2]]
    for search in searches:
        search.validate()
        assert search.settings()["run"]["steps"] == 250_000
        assert (
            "actor_learning_rate" not in search.settings()["run"]
        )  # set by the plan, but searched here
    [first, *_] = parse(
        ["tune", "--all", "smoke", "--steps", "1024", "--name", "mine", "--out", "x"]
    ).searches()
    first.validate()
    assert (first.config.steps, first.study_name, str(first.out)) == (
        1024,
        "mine/paxmen-4a/mars",
        "x/paxmen-4a/mars",
    )
    ablation = parse(["tune", "--all", "paper-ablation"]).searches()
    assert [s.num_trials for s in ablation] == [80, 80, 80, 40, 40] * 2
    assert {s.config.steps for s in ablation} == {
        120_000_000
    }  # although its final runs have a billion


def test_a_plans_table_says_how_and_options_change_it():
    plan = read_plan("smoke")
    searches = parse(["tune", "--all", "smoke"]).searches()
    assert searches == list(
        planned_searches(plan, plan.tuning, Path("tuning/smoke"), storage=None).values()
    )
    assert [len(s.grid) for s in searches] == [2, 2, 2, 2]
    words = ["--search", "trust-region", "--trials", "7", "--num-seeds", "3"]
    [mars, *_] = parse(["tune", "--all", "smoke", *words]).searches()
    assert (mars.grid, mars.num_trials, mars.seeds) == ((), 7, (1000, 1001, 1002))
    parts = [parse(["tune", "--all", "smoke", "--shard", f"{i}/3"]).searches() for i in (1, 2, 3)]
    assert [len(part) for part in parts] == [2, 1, 1]
    assert sorted(str(s.out) for part in parts for s in part) == sorted(
        str(s.out) for s in searches
    )


def test_the_trust_region_alone():
    words = ["--search", "trust-region", "--trials", "all", "--num-epochs", "8"]
    [search] = parse(["tune", TASK, *words, "--entropy-coefficient", "0"]).searches()
    search.validate()
    assert search.space.keys() == {"b_lower", "b_upper"}
    assert len(search.grid) == search.num_trials == 56
    assert search.config.shape.num_epochs == 8
    assert search.settings()["run"]["entropy_coefficient"] == 0
    [search] = parse(["tune", TASK, "--search", "trust-region"]).searches()
    assert (search.num_trials, search.grid) == (80, ())


def test_help_teaches(ask):
    text = ask("tune", "--help")
    for part in (
        "ratiosym train --config",
        "--all first-results",
        "the same command resumes",
        "PGPASSWORD",
    ):
        assert part in text
    assert "(default: 500000)" in text
    assert "(default: 120000000)" in ask("tune", "jaxnav-8x8x2a", "--preset", "paper", "--help")
    assert "--config FILE" in ask("train", "--help")


def test_progress_in_words():
    rows = [
        TrialRow(0, "complete", 1.5, {}, {"1000": 1.0, "1001": 2.0}),
        TrialRow(1, "pruned", None, {}, {"1000": 0.0}),
        TrialRow(2, "diverged", None, {}, {}),
        TrialRow(3, "running", None, {}, {}),
    ]
    assert summary(rows, "mars") == "3 of 4 trials, 1 pruned, 1 diverged; best 1.5, trial 0"
    assert summary(rows[3:], "mars") == "0 of 1 trials"
    assert [describe(row) for row in rows[:3]] == [
        "trial 0 complete 1.5 after 2 seeds",
        "trial 1 pruned after 1 seeds",
        "trial 2 diverged after 0 seeds",
    ]


# ---------------------------------------------------------------------------------- from end to end


@pytest.mark.slow
def test_a_search_and_a_run_with_what_it_found(ask, here):
    words = (*SMOKE, "--trials", 2, "--num-seeds", 1, "--steps", 256, "--out", "search")
    text = ask(*words)
    assert re.search(
        rf"{TASK} mars  trial 0 complete -\d+\.\d+ after 1 seeds  \(1 of 2 trials; best ", text
    )
    assert f"{TASK} mars: 2 of 2 trials; best" in text
    assert "Train with it: ratiosym train --config search/best.json" in text
    assert "Too few trials to estimate" in text
    assert all(f"--{name.replace('_', '-')}" in text for name in search_space("mars"))
    pictures = re.findall(r"Picture: (\S+)", text)
    assert pictures == ["search/values.png", "search/hyperparameters.png"]
    assert all((here / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)

    before = contents(here / "search" / "trials")
    again = ask(*words)
    assert "resuming: 2 of 2 trials" in again
    assert contents(here / "search" / "trials") == before
    text = ask(*words, "--objective", "mappo", code=2)
    assert "contains a different search" in text

    best = read_json(here / "search" / "best.json")
    config = parse(["train", "--config", "search/best.json"]).run_config()
    assert config.to_dict() == best["config"]
    assert config.steps == 512
    words = ["--config=search/best.json", "--seed", "3", "--steps", "4096", "--b-upper", "7"]
    changed = parse(["train", *words]).run_config()
    assert (changed.seed, changed.steps) == (3, 4096)
    b_lower = best["params"]["b_lower"]
    assert changed.objective_parameters == {"b_lower": b_lower, "b_upper": 7}
    words = ("train", "--config", "search/best.json", "--resume", "search")
    assert "Omit --config" in ask(*words, code=2)


def test_train_with_a_runs_settings(whole):
    words = ["train", "--config", str(whole / "config.json"), "--steps", "128"]
    assert parse(words).run_config() == configure(TASK, "smoke", steps=128, num_evaluations=6)


def stat(pid):
    """Return the state and parent of a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return ["Z", "0"]


def children(pid):
    numbers = [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [number for number in numbers if stat(number)[1] == str(pid)]


def is_alive(pid):
    return stat(pid)[0] not in "ZX"


@pytest.mark.slow
def test_workers_end_with_a_killed_parent_and_the_same_command_resumes(here):
    """After a kill, no worker remains, and the resumed search has the exact number of trials."""
    words = [
        "tune",
        TASK,
        "--preset",
        "smoke",
        "--trials",
        "4",
        "--num-seeds",
        "2",
        "--workers",
        "2",
        "--out",
        "s",
    ]
    first = subprocess.Popen(
        [COMMAND, *words], env=environment(), cwd=here, stdout=subprocess.DEVNULL
    )
    while not list(here.glob("s/trials/*/seed-1000/summary.json")):
        assert first.poll() is None
    workers = children(first.pid)
    assert len(workers) >= 2
    first.kill()
    first.wait()
    deadline = monotonic() + 30
    while any(is_alive(pid) for pid in workers):
        assert monotonic() < deadline
    kept = {path: path.read_bytes() for path in here.glob("s/trials/*/seed-*/summary.json")}
    done = subprocess.run(
        [COMMAND, *words], env=environment(), cwd=here, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert "4 of 4 trials" in done.stdout
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert len(list(here.glob("s/trials/*"))) == 4
    assert json.loads((here / "s" / "best.json").read_text())["trials"]["complete"] == 4
