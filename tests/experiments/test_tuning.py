"""Searches: an exact number of trials, the paper's values and pruning, nothing lost when one is
killed.
"""

import csv
import dataclasses
import json
import logging
import pickle
import shutil
import signal
import socket
import subprocess
from contextlib import ExitStack
from functools import cache, partial
from itertools import product
from statistics import mean, median

import jax
import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from ratiosym.envs.tasks import TASKS, Task
from ratiosym.errors import InputError, NonFiniteLoss
from ratiosym.experiments import presets, settings
from ratiosym.experiments.jobs import LocalProcesses
from ratiosym.experiments.presets import configure, preset, read_settings, tuning_preset
from ratiosym.experiments.search_spaces import search_space
from ratiosym.experiments.tuning import Search, TrialRow, tune, tune_all
from ratiosym.experiments.tuning.importance import main_effects
from ratiosym.experiments.tuning.run import search_provenance
from ratiosym.experiments.tuning.search import PRUNER, SAMPLER, SEEDS
from ratiosym.experiments.tuning.seeds import final_return, train_seed
from ratiosym.experiments.tuning.storage import database_url, hide_password
from ratiosym.experiments.tuning.trials import TrialQueue
from ratiosym.experiments.tuning.workers import WorkerJob, run_trials, worker_jobs
from ratiosym.objectives import get_objective
from ratiosym.runs.files import read_json
from ratiosym.runs.tables import read_table
from tests import example_runs as runs
from tests.example_runs import SETTINGS, TASK, contents
from tests.experiments.jobs.example_jobs import Here
from tests.experiments.searching import (
    WORKER,
    Counting,
    Diary,
    cheap_search,
    cheap_seed,
    formula,
    worker_words,
)
from tests.probes import Recall


def run_search(search, train=cheap_seed, executor=None):
    return tune(search, executor, train=train)


def numbers(outcome):
    """What a search is, but for where it lies."""
    return [(row.number, row.state, row.value, row.params, row.seeds) for row in outcome.rows]


@cache
def whole_search(base):
    """Twenty trials, never interrupted; only read."""
    return run_search(cheap_search(base / "search", 20))


@pytest.fixture
def whole(tmp_path_factory):
    return whole_search(tmp_path_factory.getbasetemp())


# ------------------------------------------------------------------------------------ what it gives


def test_a_search_leaves_everything(whole):
    out = whole.search.out
    files = {"search.json", "journal.log", "trials", "trials.csv", "best.json", "importance.json"}
    files |= {"work"}  # how far it is
    assert files == {p.name for p in out.iterdir()} - {"journal.lock", "claims.lock"}
    found = read_json(out / "search.json")
    assert found["settings"]["sampler"] == {
        "name": "TPESampler",
        "seed": 0,
        "multivariate": False,
        "group": False,
        "constant_liar": True,
        "n_startup_trials": 10,
        "n_ei_candidates": 24,
    }
    assert found["settings"]["pruner"] == {"name": "MedianPruner", **PRUNER}
    assert found["settings"]["space"] == {k: list(v) for k, v in search_space("mars").items()}
    assert found["settings"]["seeds"] == [1000, 1001, 1002]
    assert found["optuna"] == optuna.__version__
    assert {"versions", "commit", "devices", "command"} < found.keys()
    with open(out / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["trial"]) for row in rows] == list(range(20))
    assert [row["state"] for row in rows] == [row.state for row in whole.rows]


def test_values_are_means_over_seeds_of_the_last_evaluations(whole):
    for row in whole.rows:
        values = [formula(whole.search.trial_config(row.params, int(seed))) for seed in row.seeds]
        assert list(row.seeds.values()) == pytest.approx(values)
        if row.state == "complete":
            assert list(row.seeds) == ["1000", "1001", "1002"]
            assert row.value == pytest.approx(mean(values))


@pytest.mark.parametrize(
    ("num_evaluations", "num_counted"),
    [(1, 1), (2, 1), (5, 1), (6, 2), (10, 2), (20, 4), (122, 25)],
)
def test_a_seeds_value_is_its_last_fifth(num_evaluations, num_counted):
    returns = np.random.default_rng(0).normal(size=num_evaluations)
    rows = [
        {"mean_return": 1e9},
        *({"mean_return": x} for x in returns),
    ]  # the one before training never counts
    assert final_return(rows) == pytest.approx(returns[-num_counted:].mean())


def test_pruning_is_the_median_rule_on_the_running_mean(whole):
    """Written out anew: after five complete trials, one whose best running mean is below the median
    at that seed.
    """
    complete, num_pruned = [], 0
    for row in whole.rows:
        means = np.cumsum(list(row.seeds.values())) / np.arange(1, len(row.seeds) + 1)
        checks = [
            len(complete) >= 5
            and max(means[: step + 1]) < median(other[step] for other in complete)
            for step in range(min(len(means), 2))  # never after the last seed
        ]
        assert (row.state == "pruned") == any(checks)
        if row.state == "pruned":
            assert checks.index(True) == len(means) - 1
            num_pruned += 1
        else:
            complete.append(means)
    assert num_pruned >= 3


def test_the_best_trial_is_what_train_takes(whole):
    best = max((row for row in whole.rows if row.state == "complete"), key=lambda row: row.value)
    assert whole.best == best
    found = read_json(whole.search.out / "best.json")
    assert (found["params"], found["value"], found["trial"]) == (
        best.params,
        best.value,
        best.number,
    )
    assert sum(found["trials"].values()) == 20
    config = read_settings(whole.search.out / "best.json")
    tried = whole.search.trial_config(best.params, 0)
    assert config == dataclasses.replace(
        tried, steps=2 * tried.steps
    )  # a final run is twice as long
    config.validate()


def test_importance_finds_what_matters(tmp_path):
    outcome = run_search(cheap_search(tmp_path / "search", 40))
    for measure in (outcome.importance, outcome.ped_anova):
        assert sum(measure.values()) == pytest.approx(1)
        assert measure.keys() == search_space("mars").keys()
    assert outcome.importance["actor_learning_rate"] > 0.8
    found = read_json(tmp_path / "search" / "importance.json")
    assert found == {
        "main_effects": outcome.importance,
        "ped_anova": outcome.ped_anova,
        "ped_anova_target_quantile": 0.25,
    }


def test_main_effects_by_hand():
    """Two hyperparameters, every pair tried: one adds three times what the other does."""
    space = {"one": (1.0, 2.0, 3.0), "other": (1.0, 2.0, 3.0)}
    pairs = [{"one": a, "other": b} for a in space["one"] for b in space["other"]]
    rows = [
        TrialRow(i, "complete", None, p, {"0": 3 * p["one"] + p["other"]})
        for i, p in enumerate(pairs)
    ]
    found = main_effects(rows, space)
    assert found == pytest.approx({"one": 0.9, "other": 0.1})  # 9 to 1
    assert main_effects([*rows, *rows[:1] * 5], space) == pytest.approx(
        found
    )  # equal trials count once
    assert main_effects(rows[:7], space) == {}
    assert main_effects([dataclasses.replace(row, seeds={"0": 1.0}) for row in rows], space) == {}


def test_few_trials_say_nothing_of_importance(tmp_path):
    assert run_search(cheap_search(tmp_path / "search", 2)).importance == {}


def test_the_samplers_flags_are_optunas():
    optuna.samplers.TPESampler(seed=0, **SAMPLER)
    assert SAMPLER["multivariate"] is False
    assert SAMPLER["constant_liar"] is True
    assert SEEDS == (1000, 1001, 1002, 1003, 1004)


def test_the_same_seed_gives_the_same_trials(whole, tmp_path):
    again = run_search(cheap_search(tmp_path / "again", 20))
    assert numbers(again) == numbers(whole)
    other = run_search(cheap_search(tmp_path / "other", 5, sampler_seed=1))
    assert numbers(other) != numbers(whole)[:5]


def test_equal_parameters_are_not_run_again(whole, tmp_path):
    counting = Counting()
    outcome = run_search(cheap_search(tmp_path / "again", 40), counting)
    params = [tuple(row.params.values()) for row in outcome.rows]
    assert len(set(params)) < len(params)  # TPE came back to some
    assert len({repr(config) for config in counting.seen}) == len(counting.seen)
    assert all(len(row.seeds) == 3 for row in outcome.rows if row.state == "complete")


# ------------------------------------------------------------------------------ what is interrupted


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_an_interrupted_search_goes_on(seed, whole, tmp_path):
    """At most the running seed is lost; parameters and finished seeds of the trial are taken up."""
    search = cheap_search(tmp_path / "search", 8)
    counting = Counting(fail_at=seed)
    with pytest.raises(KeyboardInterrupt):
        run_search(search, counting)
    states = [row.state for row in TrialQueue(search).rows()]
    assert states == ["complete"] * (seed // 3) + ["waiting"] * (8 - seed // 3)
    outcome = run_search(search, counting)
    assert numbers(outcome) == numbers(whole)[:8]
    assert len(counting.seen) == sum(len(row.seeds) for row in outcome.rows)  # none twice
    assert [t.state.name for t in TrialQueue(search).trials()].count(
        "FAIL"
    ) == 1  # the one that was stuck


def kill(out, die_at, **options):
    """A worker process that kills itself in the midst of a seed."""
    out.parent.mkdir(exist_ok=True)
    path = out.parent / "search.json"
    path.write_text(json.dumps({"out": str(out), "num_trials": 4, "die_at": die_at, **options}))
    done = subprocess.run(worker_words(path), **WORKER, capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stderr == b""


def test_a_killed_search_goes_on(whole, tmp_path):
    search = cheap_search(tmp_path / "search", 4)
    (tmp_path / "search").mkdir()
    kill(tmp_path / "search", die_at=4)
    rows = TrialQueue(search).rows()
    assert [row.state for row in rows] == ["complete", "waiting", "waiting", "waiting"]
    assert list(rows[1].seeds) == ["1000"]
    shutil.rmtree(
        tmp_path / "search" / "trials"
    )  # as on another machine: the study knows what is finished
    counting = Counting()
    (tmp_path / "search" / "search.json").unlink(missing_ok=True)
    run_trials(search, counting)
    found = [
        (row.number, row.state, row.value, row.params, row.seeds)
        for row in TrialQueue(search).rows()
    ]
    assert found == numbers(whole)[:4]
    assert len(counting.seen) == 12 - 4


def test_seeds_on_disk_are_taken_where_the_study_does_not_know_of_them(whole, tmp_path):
    shutil.copytree(whole.search.out / "trials", tmp_path / "search" / "trials")
    counting = Counting()
    search = cheap_search(tmp_path / "search", 8)
    TrialQueue(search)
    run_trials(search, counting)
    assert counting.seen == []
    shutil.copytree(whole.search.out / "trials", tmp_path / "other" / "trials")
    other = cheap_search(tmp_path / "other", 2)
    run_trials(
        dataclasses.replace(other, config=dataclasses.replace(other.config, num_evaluations=1)),
        counting,
    )
    assert len(counting.seen) == 6  # those were of another search


def test_a_line_cut_short_is_cut_off(whole, tmp_path):
    out = shutil.copytree(whole.search.out, tmp_path / "search")
    with open(out / "journal.log", "ab") as file:
        file.write(b'{"op_code":5,"wor')
    assert numbers(run_search(cheap_search(out, 20), Counting(fail_at=0))) == numbers(whole)


def test_a_finished_search_runs_nothing_and_a_longer_one_the_rest(whole, tmp_path):
    out = shutil.copytree(whole.search.out, tmp_path / "search")
    assert numbers(run_search(cheap_search(out, 20), Counting(fail_at=0))) == numbers(whole)
    counting = Counting()
    longer = run_search(cheap_search(out, 22), counting)
    assert numbers(longer)[:20] == numbers(whole)
    assert len(longer.rows) == 22
    assert len(counting.seen) <= 6
    before = contents(out)
    with pytest.raises(
        InputError,
        match=r"already has 22 trials, but `num_trials` is 20\. It can be raised",
    ):
        run_search(cheap_search(out, 20))
    assert contents(out) == before


class Diverging:
    """Training breaks down with many epochs."""

    def __init__(self, how):
        self.how = how

    def __call__(self, config):
        if config.shape.num_epochs != 8:
            return cheap_seed(config)
        if self.how == "loss":
            raise NonFiniteLoss(3, config.seed)
        return [{**row, "mean_return": float("nan")} for row in cheap_seed(config)]


@pytest.mark.parametrize("how", ["loss", "return"])
def test_divergence_is_counted_and_stops_nothing(how, tmp_path):
    outcome = run_search(cheap_search(tmp_path / "search", 25), Diverging(how))
    diverged = [row for row in outcome.rows if row.state == "diverged"]
    assert len(outcome.rows) == 25
    assert {row.params["num_epochs"] for row in diverged} == {8}
    assert all(row.state == "diverged" for row in outcome.rows if row.params["num_epochs"] == 8)
    assert all(row.value is None for row in diverged)
    assert read_json(tmp_path / "search" / "best.json")["trials"]["diverged"] == len(diverged)
    failure = (
        tmp_path / "search" / "trials" / f"{diverged[0].number:04d}" / "seed-1000" / "failure.txt"
    )
    lost = "The loss of seed 1000 is not a finite number after update 3."
    said = {"loss": lost, "return": "The returns of seed 1000 are not finite numbers."}
    assert failure.read_text() == said[how] + "\n"
    # TPE has learned to stay away: it was random before the eleventh trial.
    assert sum(row.number >= 10 for row in diverged) <= 2 < len(diverged)


def test_nothing_but_divergence_has_no_best(tmp_path):
    def broken(config):
        raise NonFiniteLoss(1, config.seed)

    outcome = run_search(cheap_search(tmp_path / "search", 3), broken)
    assert outcome.best is None
    assert not (tmp_path / "search" / "best.json").exists()


def test_workers_share_a_search(whole, tmp_path):
    """Two processes: not one trial more or fewer. The first five trials are random and complete, so
    they agree.
    """
    outcome = run_search(cheap_search(tmp_path / "search", 5), executor=partial(LocalProcesses, 2))
    assert numbers(outcome) == numbers(whole)[:5]


def test_two_commands_share_a_search(tmp_path, monkeypatch):
    """A worker of one command does not keep those of another from starting: it would wait for a
    lock of the same name.
    """
    search = cheap_search(tmp_path, 2)
    own = WorkerJob(search, 0)
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert WorkerJob(search, 0).path != own.path == pickle.loads(pickle.dumps(own)).path


@pytest.mark.slow
def test_a_killed_worker_is_replaced(whole, tmp_path):
    """Every process kills itself in its third seed: each starts where the last one ended."""
    diary = tmp_path / "diary"
    search = cheap_search(tmp_path / "search", 3)
    outcome = run_search(search, Diary(str(diary), 0, 2), partial(LocalProcesses, 1))
    assert numbers(outcome) == numbers(whole)[:3]
    notes = [line.split(" ", 2) for line in diary.read_text().splitlines()]
    assert len({process for _, process, _ in notes}) == 5  # of nine seeds, two for each
    ended = [config for what, _, config in notes if what == "end"]
    assert len(ended) == len(set(ended)) == 9


@pytest.mark.slow
def test_workers_that_only_die_are_given_up(tmp_path):
    search = cheap_search(tmp_path / "search", 2)
    with pytest.raises(InputError) as error:
        run_search(search, Diary(None, 0, 0), partial(LocalProcesses, 2))
    text = str(error.value)
    assert "have ended, but 2 of 2 trials are not finished. 3 workers in a row died" in text
    assert "killed by SIGKILL" in text
    assert text.endswith("resume the search with the same command.")
    assert numbers(run_search(search, Counting()))  # and it does
    logs = list((tmp_path / "search" / "work").glob("worker-*-*.log"))
    assert len(logs) == 2


def test_searches_side_by_side(whole, tmp_path):
    """Each as if it were alone, with its results as soon as it has ended; finished ones stay."""
    one, two = (cheap_search(tmp_path / name, 5, o) for name, o in (("a", "mars"), ("b", "mappo")))
    counting, ended = Counting(), []

    def watch():
        ended.append(sum((search.out / "best.json").exists() for search in (one, two)))

    tune_all([one, two], Here, watch, counting)
    assert [row[3] for row in numbers_of(one)] == [row[3] for row in numbers(whole)[:5]]
    assert len(counting.seen) == 2 * 5 * 3
    assert sorted(set(ended)) == [1, 2]  # the first before the second began
    before = contents(tmp_path)
    tune_all([one, two], Here, train=Counting(fail_at=0))
    assert contents(tmp_path) == before


def numbers_of(search):
    return [(r.number, r.state, r.value, r.params, r.seeds) for r in TrialQueue(search).rows()]


def test_every_search_gets_a_worker_before_any_gets_two(tmp_path):
    one, two = cheap_search(tmp_path / "one", 3), cheap_search(tmp_path / "two", 2)

    def workers(searches, capacity):
        return [(j.search.out.name, j.number) for j in worker_jobs(searches, capacity, cheap_seed)]

    first = [("one", 0), ("two", 0)]
    assert workers([one, two], 1) == first
    assert workers([one, two], 2) == [*first, ("one", 1), ("two", 1)]
    assert workers([one, two], 8) == [*first, ("one", 1), ("two", 1), ("one", 2)]
    assert workers([one], 8) == [("one", 0), ("one", 1), ("one", 2)]
    names = [job.name for job in worker_jobs([one, two], 8, cheap_seed)]
    assert len(set(names)) == 5


def test_only_the_first_worker_waits_for_the_others(tmp_path):
    search = cheap_search(tmp_path / "search", 1)
    search.out.mkdir()
    first, second = WorkerJob(search, 0), WorkerJob(search, 1)
    assert not first.is_over()
    assert not second.is_over()
    with ExitStack() as held:
        queue = TrialQueue(search)
        trial = queue.claim(held)
        assert not first.is_over()
        assert second.is_over()  # nothing is left to claim
        assert TrialQueue(search).claim(ExitStack(), is_patient=False) is None
        queue.finish(trial, TrialState.COMPLETE, 1.0)
    assert first.is_over()
    assert second.is_over()


def test_a_grid_is_walked_in_order_without_pruning(tmp_path):
    """Every point with every seed, also where a sampler would have pruned; after an interruption
    too.
    """
    points = tuple({"b_upper": up, "b_lower": 0.5} for up in (10.0, 8.0, 6.0, 4.0, 2.0, 1.2, 1.1))
    search = cheap_search(tmp_path / "search", 7, kind="trust-region", grid=points)
    counting = Counting(fail_at=10)
    with pytest.raises(KeyboardInterrupt):
        run_search(search, counting)
    outcome = run_search(search, counting)
    assert [row.params for row in outcome.rows] == [dict(point) for point in points]
    assert {row.state for row in outcome.rows} == {"complete"}
    assert len(counting.seen) == 7 * 3
    assert outcome.best.params["b_upper"] == 10.0
    found = read_json(search.out / "search.json")["settings"]
    assert found["grid"] == [dict(point) for point in points]
    assert found["run"]["num_epochs"] == search.config.shape.num_epochs
    assert "sampler" not in found
    assert "pruner" not in found
    with pytest.raises(InputError, match="the grid has 7 points"):
        dataclasses.replace(search, num_trials=3).validate()


def test_a_sampler_searches_the_trust_region_alone(tmp_path):
    search = cheap_search(tmp_path / "search", 6, kind="trust-region")
    outcome = run_search(search)
    assert all(row.params.keys() == {"b_lower", "b_upper"} for row in outcome.rows)
    assert "TPESampler" in str(read_json(search.out / "search.json"))


def test_a_worker_survives_being_sent(tmp_path):
    job = WorkerJob(cheap_search(tmp_path, 2), 0, cheap_seed)
    assert pickle.loads(pickle.dumps(job)) == job
    assert job.path.parent == tmp_path / "work"


def test_trackers_get_every_seeds_evaluations(tmp_path):
    search = cheap_search(tmp_path / "search", 1, track=("tests.experiments.searching:Recorder",))
    run_search(search)
    for seed in search.seeds:
        place = tmp_path / "search" / "trials" / "0000" / f"seed-{seed}"
        begin, *rows, end = (place / "tracked.txt").read_text().splitlines()
        assert begin == f"begin {seed}"
        assert len(rows) == 11
        assert rows[0].startswith("evaluation")
        assert end == f"end {read_json(place / 'summary.json')['value']}"
    with pytest.raises(InputError, match=r"Unknown tracker 'wandbb'\. Closest: 'wandb'"):
        run_search(cheap_search(tmp_path / "other", 1, track=("wandbb",)))
    assert not (tmp_path / "other").exists()


# -------------------------------------------------------------------------------------- wrong input


WRONG = {
    "no trials": ({"num_trials": 0}, r"`num_trials` is 0; it must be at least 1"),
    "negative trials": ({"num_trials": -3}, r"`num_trials` is -3"),
    "no seeds": ({"seeds": ()}, r"`seeds` is empty"),
    "few environments": (
        {"config": preset("smoke", TASK)},
        r"up to 8 minibatches .* 4 environments per group .*multiple of 16\.",
    ),
    "uneven environments": (
        {"config": configure(TASK, "cpu", num_envs=40)},
        r"20 environments per group .* multiple of 16",
    ),
    "unknown task": (
        {"config": tuning_preset("smoke", "mpe-spread-3", "mars")},
        r"Unknown task .* Closest: 'mpe-spread-3ag'",
    ),
    "small budget": (
        {"config": dataclasses.replace(preset("cpu", TASK), steps=4000)},
        r"smaller than one update",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_run_is_refused(wrong, tmp_path):
    change, message = WRONG[wrong]
    with pytest.raises(InputError, match=message):
        run_search(dataclasses.replace(cheap_search(tmp_path / "search"), **change))
    assert not (tmp_path / "search").exists()


@pytest.mark.parametrize("name", ["paper", "cpu", "smoke"])
def test_every_preset_can_be_searched(name, tmp_path):
    config = tuning_preset(name, TASK, "mappo")
    Search(config, 1, tmp_path).validate()
    if name != "smoke":
        assert 2 * config.steps == preset(name, TASK).steps


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_seeds": 2}, "seeds: [1000, 1001, 1002] there, [1000, 1001] here"),
        ({"sampler_seed": 5}, "sampler seed: 0 there, 5 here"),
        ({"objective": "mappo"}, "run objective: mars there, mappo here"),
        ({"objective": "mars-additive"}, "space b: None there, [1.05, 1.1, 1.2, 1.5, 1.9] here"),
    ],
)
def test_a_directory_belongs_to_one_search(options, words, whole, tmp_path):
    out = shutil.copytree(whole.search.out, tmp_path / "search")
    before = contents(out)
    with pytest.raises(InputError) as error:
        run_search(cheap_search(out, 20, name="mpe-spread-3ag/mars", **options))
    assert words in str(error.value)
    assert "choose another `out`; nothing was changed" in str(error.value)
    assert contents(out) == before


def test_a_study_belongs_to_one_search(whole, tmp_path):
    """Also where the directory does not know."""
    out = shutil.copytree(whole.search.out, tmp_path / "search")
    (out / "search.json").unlink()
    search = cheap_search(out, 20)
    config = dataclasses.replace(search.config, steps=1024)
    with pytest.raises(InputError, match=r"has other settings \(run steps: 512 there, 1024 here\)"):
        TrialQueue(dataclasses.replace(search, config=config))


def test_other_peoples_directories_are_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(InputError, match="is not empty, but contains no search"):
        run_search(cheap_search(tmp_path))
    with pytest.raises(InputError, match="is not empty, but contains no search"):
        run_search(cheap_search(tmp_path / "letter.txt"))
    assert contents(tmp_path) == {"letter.txt": b"Dear"}


# ---------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:se:cret@host:1/db", "postgresql://me:***@host:1/db"),
        ("postgresql://me:sec@ret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:sec/ret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        (
            "postgresql://host/db?user=me&password=secret&x=1",
            "postgresql://host/db?user=me&password=***&x=1",
        ),
        ("mysql://me:secret@host/db", "mysql://me:***@host/db"),
    ],
)
def test_passwords_are_hidden(address, shown):
    assert hide_password(address) == shown
    assert "sec" not in shown
    search = cheap_search("out", storage=address)
    assert search.address == shown
    assert "secret" not in repr(search)


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///x.db",
        "mysql://me:secret@host/db",
        "/tmp/file",
        "",
        "postgresql",
        "u:secret@h/d",
        "postgresql:/u:secret@h/d",
        "postgresql:u:secret@h/d",
        "host=h password = secret",
        "u:se cret@h//d",
        " postgresql://u:secret@h/d",
    ],
)
def test_only_postgresql(address, tmp_path):
    with pytest.raises(InputError, match="It must be postgresql://USER") as error:
        run_search(cheap_search(tmp_path / "search", storage=address))
    assert "secret" not in str(error.value)
    assert "cret" not in str(error.value)
    assert not (tmp_path / "search").exists()


@pytest.mark.parametrize("words", [["--storage", "{}"], ["--storage={}"]])
@pytest.mark.parametrize("secret", ["secret", "it's secret", "sec ret's"])
def test_passwords_do_not_reach_records(words, secret, monkeypatch):
    """However the record quotes the command."""
    address = f"postgresql://me:{secret}@host/db"
    given = [word.format(address) for word in words]
    monkeypatch.setattr("sys.argv", ["ratiosym", "tune", TASK, *given])
    found = search_provenance(cheap_search("out", storage=address))
    assert "secret" not in str(found)
    assert "ret'" not in str(found).replace("'\"'\"'", "'")
    assert "postgresql://me:***@host/db" in found["command"]


@pytest.mark.parametrize(
    "address",
    ["postgresql://me:secret@host:port/db", "postgresql://me:secret@host", "postgresql://"],
)
def test_addresses_that_are_none(address):
    with pytest.raises(
        InputError, match=r"which (is not a valid address|names no database)"
    ) as error:
        database_url(address)
    assert "secret" not in str(error.value)


def test_an_unreachable_database(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    search = cheap_search(
        tmp_path / "search", storage=f"postgresql://me:secret@127.0.0.1:{port}/db"
    )
    with pytest.raises(
        InputError,
        match=rf"'postgresql://me:\*\*\*@127\.0\.0\.1:{port}/db' reports an error.*refused",
    ) as error:
        run_search(search)
    assert "secret" not in str(error.value)
    assert not (tmp_path / "search").exists()


# ------------------------------------------------------------------------------------ real training


@pytest.mark.slow
def test_a_seed_is_the_run_that_train_would_do(tmp_path_factory):
    """Bit for bit: the evaluations of a search's seed are those of 'ratiosym train'."""
    kept = read_table(runs.whole_run(tmp_path_factory.getbasetemp()) / "evaluations.csv")
    rows = list(train_seed(configure(TASK, **SETTINGS)))
    assert {name: [row[name] for row in rows] for name in rows[0]} == {
        k: v.tolist() for k, v in kept.items()
    }


def tiny(objective, trials, out, **options):
    """A search that trains on a tiny environment."""
    sizes = {"num_envs": 16, "rollout_length": 2, "hidden_size": 4, "num_eval_episodes": 2}
    config = configure("recall", "smoke", objective=objective, steps=64, num_evaluations=1, **sizes)
    return Search(config, trials, out, (1000,), **options)


@pytest.fixture
def recall(monkeypatch):
    monkeypatch.setitem(TASKS, "recall", Task("recall", Recall))


class Programs(logging.Handler):
    """How many update programs JAX was asked to compile."""

    count = 0

    def emit(self, record):
        self.count += record.getMessage().startswith("Compiling jit(optimise)")


@pytest.fixture
def programs(monkeypatch):
    logger, programs = logging.getLogger("jax._src.interpreters.pxla"), Programs()
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    monkeypatch.setattr(logger, "handlers", [programs])
    logger.manager._clear_cache()  # of what is logged at which level
    jax.clear_caches()  # whatever was compiled before
    yield programs
    monkeypatch.undo()
    logger.manager._clear_cache()


def test_trials_share_programs(recall, programs, tmp_path):
    """Equal epochs and minibatches: one program, whatever the other hyperparameters and the seed
    are.
    """
    search = dataclasses.replace(tiny("mars", 1, tmp_path), seeds=(1000, 1001))
    values = []
    for i in range(3):
        params = {name: choices[i % len(choices)] for name, choices in search.space.items()}
        for seed in search.seeds:
            config = search.trial_config({**params, "num_epochs": 2, "num_minibatches": 2}, seed)
            values.append(final_return(list(train_seed(config))))
    assert programs.count == 1
    assert len(values) == 6


@pytest.mark.slow
def test_at_most_nine_programs_for_a_task_and_a_surrogate(recall, programs, tmp_path):
    outcome = tune(tiny("mars", 12, tmp_path / "mars"))
    sizes = {(row.params["num_epochs"], row.params["num_minibatches"]) for row in outcome.rows}
    assert programs.count == len(sizes) > 4
    other = tiny("mars-additive", 1, tmp_path)  # the same surrogate
    for num_epochs, num_minibatches, b in product((2, 4, 8), (2, 4, 8), (1.1, 1.9)):
        params = {"num_epochs": num_epochs, "num_minibatches": num_minibatches, "b": b}
        list(train_seed(other.trial_config(params, seed=7)))
    assert programs.count == 9


# ------------------------------------------------------------------------------------ tuned presets


SHIPPED = settings.read_shipped()


def test_what_is_shipped_is_what_configure_gives(whole, tmp_path, monkeypatch):
    before = {"sar-100tg-2ag": {"mars": {"options": {"b_upper": 2.0}}}}
    table = tmp_path / "settings.json"
    table.write_text(json.dumps(before))
    settings.ship([whole.search.out / "best.json"], table)
    found = read_json(table)
    assert before.items() < found.items()  # others stay
    entry = found[TASK]["mars"]
    fixed = {"rollout_length": 16, "actor_hidden_size": 32, "critic_hidden_size": 32}
    assert entry["options"] == {**fixed, "num_envs": 16, **whole.best.params}
    assert (entry["value"], entry["trial"], entry["steps"]) == (
        whole.best.value,
        whole.best.number,
        512,
    )
    assert {"seeds", "trials", "commit", "versions", "processor"} < entry.keys()

    monkeypatch.setattr(settings, "read_shipped", lambda: found)
    untuned = configure(TASK, "cpu")
    assert untuned == preset("cpu", TASK)  # unless asked for, nobody gets them
    config = configure(TASK, "cpu", tuned=True)
    assert config == presets.change(untuned, **entry["options"]) != untuned
    assert config.steps == 1_000_000
    changed = configure(TASK, "cpu", tuned=True, b_upper=3.0).objective_parameters
    assert changed == {"b_lower": whole.best.params["b_lower"], "b_upper": 3.0}
    with pytest.raises(
        InputError, match=rf"no tuned settings for mappo on '{TASK}'.*{TASK} \(mars"
    ):
        configure(TASK, "cpu", tuned=True, objective="mappo")


@pytest.mark.parametrize(
    ("task", "objective"), [(t, o) for t, entries in SHIPPED.items() for o in entries]
)
def test_every_shipped_setting_is_valid(task, objective):
    options = SHIPPED[task][objective]["options"]
    space = search_space(objective)
    own = get_objective(objective).defaults.keys()
    assert own <= options.keys()
    assert all(options[name] in space[name] for name in own)  # the rest may have been fixed
    config = configure(task, "cpu", tuned=True, objective=objective)
    assert config == presets.change(configure(task, "cpu", objective=objective), **options)


def test_shipping_takes_searches_only(tmp_path):
    (tmp_path / "config.json").write_text('{"config": {}}')
    with pytest.raises(InputError, match="is not the result of a search"):
        settings.ship([tmp_path / "config.json"], tmp_path / "settings.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "which is not a file"),
        ("{}", "which contains no configuration"),
        ("[1]", "does not contain a JSON object"),
        ("{", "cannot be read"),
        ('{"config": {"tusk": 1}}', "Unknown name 'tusk'. Closest: 'task'"),
    ],
)
def test_files_of_settings(content, message, tmp_path):
    path = tmp_path / "best.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_settings(path)
