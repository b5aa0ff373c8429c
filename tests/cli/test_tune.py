"""``ratiosym tune`` as a user meets it, and ``ratiosym train --config``."""

import json
import re
import subprocess
from pathlib import Path
from time import monotonic

import pytest

from ratiosym.cli.commands import Train, parse
from ratiosym.cli.tune import Tune, describe, summary
from ratiosym.experiments.presets import configure, preset, tuning_preset
from ratiosym.experiments.search_spaces import search_space
from ratiosym.experiments.tuning import TrialRow
from ratiosym.learning.config import RunShape
from ratiosym.runs.files import read_json
from tests.example_runs import COMMAND, TASK, contents, environment

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
    "no seeds": ((*SMOKE, "--num-seeds", 0), ("--num-seeds is 0; it must be at least 1.",)),
    "no workers": (
        ("tune", TASK, "--preset", "smoke", "--workers", 0),
        ("--workers is 0; it must be at least 1.",),
    ),
    "what is searched": (
        (*SMOKE, "--num-epochs", 3),
        ("--num-epochs is searched (2, 4, 8). Leave it out.",),
    ),
    "too few environments": (
        (*SMOKE, "--num-envs", 8),
        (
            "up to 8 minibatches (Table 2)",
            "do not divide the 4 environments",
            "--num-envs as a multiple of 16.",
        ),
    ),
    "small budget": ((*SMOKE, "--steps", 100), ("smaller than one update",)),
    "unknown plan": (
        ("tune", "--all", "first-result"),
        ("Unknown plan 'first-result'.", "Closest: 'first-results'."),
    ),
    "plan and task": (
        ("tune", TASK, "--all", "smoke"),
        ("--all takes task, objective, preset and sizes",),
    ),
    "plan and sizes": (
        ("tune", "--all", "smoke", "--num-envs", 8),
        ("--all takes task, objective, preset and sizes",),
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
            "'postgresql://me:***@127.0.0.1:1/db' does not answer as it should:",
            "Connection refused",
        ),
    ),
    "no file of settings": (
        ("train", "--config", "best.json"),
        ("--config is 'best.json', which is no file.",),
    ),
    "settings twice": (("train", "--config", "x.json", "--preset", "cpu"), ("Give one of them.",)),
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
    tune = parse(["tune", TASK])
    assert (tune.steps, tune.num_evaluations, tune.shape) == (500_000, 20, RunShape(num_envs=64))
    [search] = tune.searches()
    assert search.config == tuning_preset("cpu", TASK, "mars")
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
    assert parse(["tune", TASK, "--preset=paper"]).steps == 40_000_000


def test_options_change_the_search():
    words = "--steps 150000 --num-seeds 3 --trials 10 --num-envs 32 --seed 4 --out there --num-evaluations 5"
    [search] = parse(["tune", TASK, "--objective", "maspo", *words.split()]).searches()
    assert search.config == configure(
        TASK,
        "cpu",
        is_tuned=False,
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
        )  # the plan sets it, the search searches it
    [first, *_] = parse(
        ["tune", "--all", "smoke", "--steps", "1024", "--name", "mine", "--out", "x"]
    ).searches()
    first.validate()
    assert (first.config.steps, first.study_name, str(first.out)) == (
        1024,
        "mine/connector-5x5x3a/mars",
        "x/connector-5x5x3a/mars",
    )
    assert [s.num_trials for s in parse(["tune", "--all", "ablation"]).searches()[:5]] == [
        80,
        80,
        80,
        40,
        40,
    ]


def test_help_teaches(ask):
    text = ask("tune", "--help")
    for part in (
        "ratiosym train --config",
        "--all first-results",
        "the same command goes on",
        "PGPASSWORD",
    ):
        assert part in text
    assert "(default: 500000)" in text
    assert "--config FILE" in ask("train", "--help")


def test_progress_in_words():
    rows = [
        TrialRow(0, "complete", 1.5, {}, {"1000": 1.0, "1001": 2.0}),
        TrialRow(1, "pruned", None, {}, {"1000": 0.0}),
        TrialRow(2, "diverged", None, {}, {}),
        TrialRow(3, "running", None, {}, {}),
    ]
    assert summary(rows) == "3 of 4 trials, 1 pruned, 1 diverged; best 1.5, trial 0"
    assert summary(rows[3:]) == "0 of 1 trials"
    assert [describe(row) for row in rows[:3]] == [
        "trial 0 complete 1.5 after 2 seeds",
        "trial 1 pruned after 1 seeds",
        "trial 2 diverged after 0 seeds",
    ]


# ---------------------------------------------------------------------------------- from end to end


def test_a_search_and_a_run_with_what_it_found(ask, here):
    words = (*SMOKE, "--trials", 2, "--num-seeds", 1, "--steps", 256, "--out", "search")
    text = ask(*words)
    assert re.search(
        rf"{TASK} mars  trial 0 complete -\d+\.\d+ after 1 seeds  \(1 of 2 trials; best ", text
    )
    assert f"{TASK} mars: 2 of 2 trials; best" in text
    assert "Train with it: ratiosym train --config search/best.json" in text
    assert "Too few trials to say what mattered." in text
    assert all(f"--{name.replace('_', '-')}" in text for name in search_space("mars"))
    pictures = re.findall(r"Picture: (\S+)", text)
    assert pictures == ["search/values.png", "search/hyperparameters.png"]
    assert all((here / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)

    before = contents(here / "search" / "trials")
    again = ask(*words)
    assert "going on: 2 of 2 trials" in again
    assert contents(here / "search" / "trials") == before
    text = ask(*words, "--objective", "mappo", code=2)
    assert "holds another search" in text

    best = read_json(here / "search" / "best.json")
    train = parse(["train", "--config", "search/best.json"])
    assert train.config().to_dict() == best["config"]
    assert train.config().steps == 512
    changed = parse(
        ["train", "--config=search/best.json", "--seed", "3", "--steps", "4096", "--b-upper", "7"]
    )
    assert (
        changed.config().seed,
        changed.config().steps,
        changed.config().trust_region.b_upper,
    ) == (3, 4096, 7)
    assert changed.config().trust_region.b_lower == best["params"]["b_lower"]
    assert "leave --config out" in ask(
        "train", "--config", "search/best.json", "--resume", "search", code=2
    )


def test_train_with_a_runs_settings(ask, here, whole):
    found = parse(["train", "--config", str(whole / "config.json"), "--steps", "128"])
    assert found.config() == configure(TASK, "smoke", steps=128, num_evaluations=6)
    assert isinstance(found, Train)
    assert found.task == TASK


def test_tuned_settings_are_the_defaults_of_train(monkeypatch):
    from ratiosym.experiments import tuned

    options = {"b_lower": 0.5, "b_upper": 4.0, "num_epochs": 8, "actor_learning_rate": 5e-4}
    monkeypatch.setattr(tuned, "TUNED", {TASK: {"mars": {"options": options}}})
    assert parse(["train", TASK]).config() == configure(TASK, "cpu") == preset("cpu", TASK)
    assert parse(["train", TASK]).config().trust_region.b_upper == 4.0
    assert parse(["train", TASK]).config().shape.num_epochs == 8
    plain = configure(TASK, "cpu", objective="mappo", is_tuned=False)
    assert parse(["train", TASK, "--objective", "mappo"]).config() == plain
    assert parse(["train", TASK, "--preset", "paper"]).config() == configure(TASK, "paper")
    assert parse(["train", TASK, "--b-upper", "2"]).config().trust_region.b_upper == 2


def test_train_tells_of_tuned_settings(ask, here, monkeypatch):
    from ratiosym.experiments import tuned

    small = {
        "num_envs": 4,
        "rollout_length": 8,
        "hidden_size": 8,
        "num_eval_episodes": 4,
        "steps": 32,
    }
    words = [
        str(word)
        for name, value in small.items()
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    monkeypatch.setattr(
        tuned, "TUNED", {TASK: {"mars": {"options": {"num_epochs": 2, "num_minibatches": 2}}}}
    )
    said = f"Begins with settings tuned for {TASK} and mars (docs/tuning.md)."
    assert said in ask("train", TASK, *words, "--num-evaluations", "1", "--out", "tuned")
    assert "Begins with" not in ask(
        "train", "--config", "tuned/config.json", "--steps", "32", "--out", "again"
    )


def stat(pid):
    """State and parent of a process."""
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
def test_workers_end_with_a_killed_parent_and_the_same_command_goes_on(here):
    """Killed while two workers train: none of them stays, and the search comes out with its number
    of trials.
    """
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


def test_the_class_is_listed():
    assert isinstance(parse(["tune", TASK]), Tune)
