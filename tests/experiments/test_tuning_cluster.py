"""Workers on many machines: a real PostgreSQL server, a real Ray cluster. Slow."""

import dataclasses
import json
import os
import signal
import subprocess
import time
from collections import Counter

import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.jobs import RayTasks
from ratiosym.experiments.plans import Plan
from ratiosym.experiments.reproduce import find_searches, reproduce
from ratiosym.experiments.tuning import storage, tune
from ratiosym.experiments.tuning.trials import TrialQueue
from ratiosym.runs.files import read_json
from tests.example_runs import ROOT, contents, run_command
from tests.experiments.jobs.example_jobs import Here
from tests.experiments.postgres import PASSWORD, postgres_server
from tests.experiments.searching import (
    QUICK_HEART,
    TASK,
    WORKER,
    cheap_search,
    cheap_seed,
    worker_words,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address():
    with postgres_server() as found:
        yield found


@pytest.fixture
def quick_heart(monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT_SECONDS", QUICK_HEART[0])
    monkeypatch.setattr(storage, "GRACE_SECONDS", QUICK_HEART[1])


def expect_exact(search, num_killed):
    """Every place has been run once to its end; what was stuck was failed and taken up again."""
    trials = TrialQueue(search).trials()
    finished = [t for t in trials if t.state.name in ("COMPLETE", "PRUNED")]
    assert sorted(t.user_attrs["place"] for t in finished) == list(range(search.num_trials))
    failed = [t for t in trials if t.state.name == "FAIL"]
    assert len(failed) == num_killed
    assert len(trials) == search.num_trials + num_killed
    for stuck in failed:
        [after] = [t for t in finished if t.user_attrs["place"] == stuck.user_attrs["place"]]
        assert after.params == stuck.params
        assert stuck.user_attrs["seeds"].items() <= after.user_attrs["seeds"].items()


def read_notes(diary):
    """What the workers wrote down: begin or end, who, which seed of which configuration."""
    return [line.split(" ", 2) for line in diary.read_text().splitlines()] if diary.exists() else []


def wait_for_busy(workers, diary):
    """A worker in the midst of the second seed that it runs, so that it has something to lose and
    something kept.
    """
    while True:
        notes = read_notes(diary)
        for worker in workers:
            mine = [what for what, who, _ in notes if who == str(worker.pid)]
            if mine == ["begin", "end", "begin"]:
                return worker
        time.sleep(0.05)


@pytest.mark.parametrize("where", ["database", "journal"])
def test_four_workers_one_killed(where, address, quick_heart, tmp_path):
    """With a database every worker has a directory of its own, as on machines that share nothing
    else.
    """
    diary = tmp_path / "diary"
    outs = [tmp_path / (str(number) if where == "database" else "shared") for number in range(4)]
    place = {"storage": address, "name": "four"} if where == "database" else {}
    search = cheap_search(outs[0], 10, **place)
    workers = []
    for number, out in enumerate(outs):
        out.mkdir(exist_ok=True)
        path = tmp_path / f"{number}.json"
        options = {"out": str(out), "num_trials": 10, "diary": str(diary), "seconds": 0.7, **place}
        path.write_text(json.dumps(options))
        workers.append(subprocess.Popen(worker_words(path), **WORKER, stderr=subprocess.PIPE))
    victim = wait_for_busy(workers, diary)
    workers.remove(victim)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    for worker in workers:
        _, errors = worker.communicate(timeout=200)
        assert worker.returncode == 0, errors
        assert errors == b""
    expect_exact(search, num_killed=1)
    notes = read_notes(diary)
    begun = Counter(config for what, _, config in notes if what == "begin")
    ended = Counter(config for what, _, config in notes if what == "end")
    assert set(ended.values()) == {1}  # no seed was run to its end twice
    assert sum(begun.values()) - sum(ended.values()) <= 1  # and one at most was lost
    assert sum(ended.values()) == sum(len(row.seeds) for row in TrialQueue(search).rows())


def test_one_worker_is_killed_and_started_again(address, quick_heart, tmp_path):
    path = tmp_path / "search.json"
    options = {
        "out": str(tmp_path / "search"),
        "num_trials": 3,
        "storage": address,
        "name": "again",
    }
    path.write_text(json.dumps({**options, "die_at": 4}))
    assert subprocess.run(worker_words(path), **WORKER, timeout=200).returncode == -signal.SIGKILL
    search = cheap_search(tmp_path / "search", 3, storage=address, name="again")
    states = [row.state for row in TrialQueue(search).rows()]
    assert states[0::2] == ["complete", "waiting"]
    assert states[1] in ("running", "waiting")  # a slow machine has missed it by now
    outcome = tune(dataclasses.replace(search, out=tmp_path / "other"), train=cheap_seed)
    expect_exact(search, num_killed=1)
    assert outcome.best is not None
    assert not (
        tmp_path / "other" / "trials" / "0001" / "seed-1000"
    ).exists()  # had been finished elsewhere


def test_a_worker_that_was_silent_for_too_long_keeps_out(address, quick_heart, tmp_path):
    """Its trial is another's by then: what it brings is not counted."""
    search = cheap_search(tmp_path / "search", 1, storage=address, name="silent", num_seeds=1)
    (tmp_path / "search").mkdir()

    def other_takes_over(config):
        queue = TrialQueue(search)
        [trial] = queue.trials()
        queue.home.storage.set_trial_state_values(trial._trial_id, storage.TrialState.FAIL)
        rival = dataclasses.replace(search, out=tmp_path / "rival")
        tune(rival, train=cheap_seed)
        return [{**row, "mean_return": 1e6} for row in cheap_seed(config)]

    outcome = tune(dataclasses.replace(search, out=tmp_path / "slow"), train=other_takes_over)
    assert outcome.best.value < 100
    expect_exact(search, num_killed=1)


def test_a_database_belongs_to_many_searches_and_a_name_to_one(address, tmp_path):
    search = cheap_search(tmp_path / "one", 2, storage=address, name="mine")
    tune(search, train=cheap_seed)
    other = cheap_search(tmp_path / "two", 2, storage=address, name="mine", objective="mappo")
    with pytest.raises(
        InputError, match=r"The search 'mine' in 'postgresql://tuner:\*\*\*@.*' has other settings"
    ) as error:
        tune(other, train=cheap_seed)
    assert "another `name`" in str(error.value)
    tune(
        dataclasses.replace(other, out=tmp_path / "three", name="yours"),
        train=cheap_seed,
    )
    expect_exact(search, num_killed=0)


def test_wrong_passwords_and_databases(address, tmp_path):
    for wrong, words in (
        (address.replace(PASSWORD, "wrong-word"), "authentication failed"),
        (address + "x", "does not exist"),
    ):
        with pytest.raises(InputError, match=words) as error:
            tune(cheap_search(tmp_path / "search", 2, storage=wrong), train=cheap_seed)
        assert "wrong-word" not in str(error.value)
        assert PASSWORD not in str(error.value)
    assert not (tmp_path / "search").exists()


def test_the_command_against_a_database(address, tmp_path):
    """Two processes that really train; the password is nowhere on disk or screen."""
    words = ("tune", TASK, "--preset", "smoke", "--trials", 3, "--num-seeds", 1, "--workers", 2)
    done = run_command(*words, "--storage", address, "--out", tmp_path / "search")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "3 of 3 trials" in done.stdout
    assert PASSWORD not in done.stdout
    found = contents(tmp_path / "search")
    assert {
        "best.json",
        "trials.csv",
        "importance.json",
        "values.png",
        "search.json",
    } <= found.keys()
    assert all(PASSWORD.encode() not in content for content in found.values())
    assert b"tuner:***@127.0.0.1" in found["search.json"]
    gone = run_command(
        *words,
        "--storage",
        address.replace("127.0.0.1:", "127.0.0.1:1"),
        "--out",
        tmp_path / "other",
    )
    assert gone.returncode == 2
    assert PASSWORD not in gone.stdout + gone.stderr
    assert not (tmp_path / "other").exists()


def test_experiments_on_a_database(address, tmp_path):
    """Two searches in one database, each under its own name; the same results as in journals."""
    plan = small_experiment()
    for out, place in (("journal", None), ("database", address)):
        reproduce(plan, tmp_path / out, Here, "tuning", storage=place, train=cheap_seed)
    journal, database = (
        read_json(tmp_path / out / "settings.json")["settings"] for out in ("journal", "database")
    )
    assert journal == database
    searches = find_searches(plan, tmp_path / "database", address)
    assert [s.study_name for s in searches.values()] == [
        f"small/{TASK}/mars",
        f"small/{TASK}/mappo",
    ]
    for search in searches.values():
        expect_exact(search, num_killed=0)
    assert all(PASSWORD.encode() not in content for content in contents(tmp_path).values())
    wrong = address.replace(PASSWORD, "wrong-word")
    with pytest.raises(InputError, match="authentication failed"):
        reproduce(plan, tmp_path / "none", Here, "tuning", storage=wrong, train=cheap_seed)
    assert not (tmp_path / "none").exists()


def test_experiments_on_a_ray_cluster(tmp_path, monkeypatch):
    """Both searches at once, on a cluster of this machine."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    plan = small_experiment()
    reproduce(plan, tmp_path / "ray", RayTasks, "tuning", train=cheap_seed)
    reproduce(plan, tmp_path / "here", Here, "tuning", train=cheap_seed)
    found, expected = (
        read_json(tmp_path / out / "settings.json")["settings"] for out in ("ray", "here")
    )
    assert found == expected


def small_experiment():
    grid = {
        "mars": [{"b_lower": 0.5, "b_upper": 2.0}, {"b_lower": 0.1, "b_upper": 10.0}],
        "mappo": [{"epsilon": 0.1}, {"epsilon": 0.2}],
    }
    tuning = {"search": "trust-region", "trials": "all", "seeds": [1000, 1001], "grid": grid}
    return Plan.from_dict(
        {
            "name": "small",
            "algorithms": ["mars", "mappo"],
            "tasks": [TASK],
            "seeds": [0],
            "preset": "smoke",
            "tuning": tuning,
        }
    )


def test_workers_on_a_ray_cluster(tmp_path):
    """One of this machine, as a user meets it: no chatter, exact trials."""
    words = (
        "tune",
        TASK,
        "--preset",
        "smoke",
        "--trials",
        3,
        "--num-seeds",
        1,
        "--executor",
        "ray",
    )
    done = run_command(
        *words, "--out", tmp_path / "search", env={"RAY_ADDRESS": "", "RAY_worker_niceness": "0"}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 of 3 trials" in done.stdout
    expect_exact(cheap_search(tmp_path / "search", 3, num_seeds=1), num_killed=0)
