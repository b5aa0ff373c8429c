"""Programs that are stored on disk."""

import io
import os
import pickle
import sys
from dataclasses import replace
from functools import cache, wraps
from types import ModuleType

import jax
import numpy as np
import pytest

from examples.custom_environment import make_env
from ratiosym.envs.registry import make
from ratiosym.experiments.presets import configure
from ratiosym.learning import programs
from ratiosym.learning.train import Evaluated, Finished, Updated, make_learner, train
from ratiosym.objectives import barrier
from tests.example_runs import run_python

CONFIG = configure("mpe-spread-3ag", "smoke", num_envs=4, rollout_length=8, num_eval_episodes=2)
NAMES = {
    "collect",
    "evaluate",
    "fresh_state",
    "keys_of_episodes",
    "optimise",
    "update_best",
}


def numbers(config=CONFIG, seeds=(0,)):
    """Train; return everything that comes out but speed."""
    learner = make_learner(make(config.task), config, len(seeds))
    out = []
    for event in train(learner, config, seeds):
        if isinstance(event, Updated):
            out += [v for row in event.rows for k, v in row.items() if k != "steps_per_second"]
        elif isinstance(event, Evaluated | Finished):
            out += [r for episodes in event.episodes for r in episodes.returns]
    return np.nan_to_num(np.array(out), nan=-1e9)


@cache
def expected():
    """The numbers of programs that are not stored."""
    return numbers()


failures, serialised = [], []


def stored():
    """The stored programs by name, once all have been written."""
    programs._Stored._pool.shutdown(wait=True)
    programs._Stored._pool = type(programs._Stored._pool)(4)
    return {path.name.split("-")[-1]: path for path in programs.directory().iterdir()}


@pytest.fixture
def store(tmp_path, monkeypatch):
    def store(self, executable):
        try:
            actual(self, executable)
            serialised.append(self)
        except Exception as error:  # which a run survives
            failures.append(repr(error))
            raise

    expected()
    failures.clear()
    serialised.clear()
    actual = programs._Stored._store
    monkeypatch.setattr(programs._Stored, "_store", store)
    monkeypatch.setenv("RATIOSYM_PROGRAMS", "1")
    monkeypatch.setenv("RATIOSYM_CACHE", str(tmp_path))


def forbid_tracing(monkeypatch):
    def fail(self):
        raise AssertionError(f"{self.path.name} was traced")

    monkeypatch.setattr(programs._Stored, "_lower", fail)


def test_a_second_start_traces_nothing_and_computes_the_same(store, monkeypatch):
    assert np.array_equal(numbers(), expected())
    assert set(stored()) == NAMES
    assert not failures
    forbid_tracing(monkeypatch)
    assert np.array_equal(numbers(), expected())
    # Hyperparameters, bounds and the seed are arguments of the programs.
    changed = replace(CONFIG, seed=7, objective_parameters={"b_lower": 0.3, "b_upper": 4.0})
    assert not np.array_equal(numbers(changed, (7,)), expected())
    with pytest.raises(AssertionError, match="was traced"):
        numbers(replace(CONFIG, shape=replace(CONFIG.shape, num_epochs=1)))


def test_surrogates_have_programs_of_their_own_under_the_same_name(tmp_path, monkeypatch):
    """As when a registered objective is edited between two runs."""
    monkeypatch.setenv("RATIOSYM_PROGRAMS", "1")
    monkeypatch.setenv("RATIOSYM_CACHE", str(tmp_path))
    monkeypatch.setattr(programs._Stored, "begin", lambda self: None)
    learner = make_learner(make(CONFIG.task), CONFIG, 1)

    def path(surrogate):
        own = replace(learner, surrogate=surrogate)
        assert programs.is_storable(own, CONFIG)
        return programs.Programs(own, CONFIG, 1, is_new=False).train_step.args[1].path

    assert len({path(surrogate) for surrogate in programs.SURROGATES}) == 3


@pytest.mark.slow
def test_a_damaged_program_is_compiled_again(store, monkeypatch):
    numbers()
    for path, damage in zip(
        stored().values(), (b"", b"no program", None, None, None, None), strict=True
    ):
        path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    assert np.array_equal(numbers(), expected())
    assert set(stored()) == NAMES
    assert not failures
    forbid_tracing(monkeypatch)
    assert np.array_equal(numbers(), expected())


def test_programs_are_stored_before_anyone_can_run_them(store):
    """XLA cannot serialise a sort that has been executed."""
    learner = make_learner(make(CONFIG.task), CONFIG, 1)
    _, optimise = programs.Programs(learner, CONFIG, 1, is_new=False).train_step.args
    optimise.executable.result()
    assert optimise in serialised
    assert not failures


def test_the_first_update_does_not_wait_for_what_an_evaluation_needs(store):
    learner = make_learner(make(CONFIG.task), CONFIG, 1)
    of_run = programs.Programs(learner, CONFIG, 1, is_new=True)
    begun = [program.executable is not None for program in of_run.of_evaluation]
    of_run.prepare_evaluation()
    names = {program.path.name.split("-")[-1] for program in of_run.of_evaluation}
    for program in (*of_run.of_evaluation, *of_run.train_step.args):
        program.executable.result()
    assert begun == [False] * 3
    assert names == {"evaluate", "keys_of_episodes", "update_best"}


def test_a_class_is_stored_without_importing_its_package(monkeypatch):
    """That of jaxmarl takes seconds and prints."""
    module = ModuleType("nowhere.inside")
    module.State = type("State", (), {"__module__": "nowhere.inside"})
    monkeypatch.setitem(sys.modules, "nowhere.inside", module)
    data = io.BytesIO()
    programs._Pickler(data).dump([module.State, np.ndarray])
    assert pickle.loads(data.getvalue()) == [module.State, np.ndarray]


def test_a_changed_source_file_has_programs_of_its_own(monkeypatch, tmp_path):
    def identity():
        programs.fingerprint.cache_clear()
        return programs.fingerprint()

    package = tmp_path / "jaxmarl"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1")
    monkeypatch.setattr(programs, "_SOURCES", ("jaxmarl",))
    found = type("Spec", (), {"submodule_search_locations": [str(package)]})
    monkeypatch.setattr(programs, "find_spec", lambda name: found)
    before = identity()
    assert identity() == before
    (package / "__init__.py").write_text("x = 2")
    os.utime(package / "__init__.py", (1, 1))
    assert identity() != before
    programs.fingerprint.cache_clear()


def test_the_source_of_environments_and_learner_counts():
    assert {"ratiosym", "jumanji", "jaxmarl"} <= set(programs._SOURCES)
    assert {"jax", "jaxlib", "optax"} <= set(programs._LIBRARIES)


@pytest.mark.parametrize(
    "part",
    [
        "environment",
        "objective",
        "a wrapped surrogate",
        "network",
        "debugging",
        "turned off",
        "a directory of others",
    ],
)
def test_what_is_not_stored(part, store, monkeypatch):
    config = CONFIG
    learner = make_learner(make(config.task), config, 1)
    assert programs.is_storable(learner, config)
    if part == "environment":
        learner = replace(learner, env=make_env())
    elif part == "objective":
        learner = replace(learner, surrogate=lambda log_ratio, advantage, bounds: advantage)
    elif part == "a wrapped surrogate":
        learner = replace(learner, surrogate=wraps(barrier)(lambda *x: barrier(*x)))
    elif part == "network":
        network = "examples.custom_network_lstm:lstm"
        config = replace(config, shape=replace(config.shape, network=network))
    elif part == "debugging":
        with jax.debug_nans(True):
            assert not programs.is_storable(learner, config)
        return
    elif part == "turned off":
        monkeypatch.setenv("RATIOSYM_PROGRAMS", "0")
    else:
        programs.directory().mkdir(parents=True)
        programs.directory().chmod(0o777)
    assert not programs.is_storable(learner, config)


def test_programs_used_least_recently_are_removed(tmp_path):
    for number, name in enumerate("abcd"):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (number, number))
    os.utime(tmp_path / "a", (9, 9))
    programs.remove_unused(tmp_path, limit=25)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "d"}


@pytest.mark.slow
def test_a_second_objective_starts_with_programs_of_the_first(tmp_path):
    """Some programs are then loaded while others are traced, and both import the library."""
    env = {"RATIOSYM_CACHE": str(tmp_path / "cache"), "RATIOSYM_PROGRAMS": "1"}
    for objective in ("mars", "mappo"):
        code = (
            "import ratiosym; ratiosym.train('rware-tiny-2ag', preset='smoke', steps=1024, "
            f"objective='{objective}', out=r'{tmp_path / objective}')"
        )
        done = run_python("-c", code, env=env)
        assert done.returncode == 0, done.stderr
