"""Environments of runs: by name if a name can recreate them, otherwise as objects."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ratiosym.api import render, train
from ratiosym.envs import registry
from ratiosym.envs.registry import make
from ratiosym.envs.wrappers import with_agent_ids
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.runs.environments import find_env, name_task
from ratiosym.runs.files import read_json
from ratiosym.runs.loop import resume
from ratiosym.runs.trained import evaluate, load_policy
from tests.example_runs import STEPS, TASK
from tests.probes import ConstantReward

PLACE = "tests.probes:ConstantReward"


class Plain(ConstantReward):
    """An environment that compares by identity."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


@dataclass(frozen=True)
class Illegal(ConstantReward):
    """Returns other sizes than it declares."""

    @property
    def spec(self):
        return super().spec.__class__("illegal", 2, 5, 1, super().spec.action, time_limit=1)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Isolate registered tasks, as in another process."""
    monkeypatch.setattr("ratiosym.envs.registry.REGISTERED", {})
    monkeypatch.setattr("ratiosym.runs.environments.REGISTERED", registry.REGISTERED)
    monkeypatch.setattr("ratiosym.envs.registry._BUILT", {})
    return registry.REGISTERED


def test_names_stay_names(tmp_path, monkeypatch):
    assert name_task(TASK) == (TASK, None)
    assert name_task(make(TASK)) == (TASK, None)
    assert name_task(make(TASK, agent_ids=False)) == (TASK, None)
    assert name_task(PLACE) == (PLACE, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("from tests.probes import ConstantReward as make_env\n")
    assert name_task("mine.py:make_env") == (f"{tmp_path}/mine.py:make_env", None)
    with pytest.raises(InputError, match="Unknown task 'mpe-spred-3ag'"):
        name_task("mpe-spred-3ag")


def test_an_object_that_its_class_makes_again_is_recorded_by_that_name(registered):
    assert name_task(ConstantReward()) == (PLACE, None)
    assert name_task(with_agent_ids(ConstantReward())) == (PLACE, None)
    assert registered == {}


def test_an_object_of_a_registered_task_has_its_name(registered):
    registry.register_task("constant-reward", ConstantReward)
    assert name_task(make("constant-reward")) == ("constant-reward", None)


def test_other_objects_are_registered_in_this_process(registered):
    assert name_task(ConstantReward(3)) == ("constant-reward", PLACE)
    assert make("constant-reward", agent_ids=False) == ConstantReward(3)
    assert name_task(with_agent_ids(ConstantReward(4))) == ("constant-reward", PLACE)
    assert make("constant-reward", agent_ids=False) == ConstantReward(4)
    assert name_task(Plain())[1] == "tests.runs.test_environments:Plain"


def test_an_object_is_checked_first(registered):
    with pytest.raises(InputError, match="observation"):
        name_task(Illegal(2))
    with pytest.raises(InputError):
        name_task(7)
    assert registered == {}


def test_an_environment_is_found_or_asked_for(registered):
    config, run = RunConfig("constant-reward"), Path("runs/mine")
    message = (
        r"The run in 'runs/mine' was trained on an environment object of class tests\.probes:Con"
        r".* pass an equal object as `env`, or register .* ratiosym\.register_task\('constant-rewa"
    )
    with pytest.raises(InputError, match=message):
        find_env(config, None, PLACE, run)
    assert find_env(config, ConstantReward(3), PLACE, run) == with_agent_ids(ConstantReward(3))
    assert find_env(config, None, PLACE, run) == with_agent_ids(ConstantReward(3))
    with pytest.raises(InputError, match="`env` is 'constant-reward', but the run in 'runs/mine'"):
        find_env(RunConfig(TASK), ConstantReward(3), None, run)
    assert find_env(RunConfig(TASK), make(TASK), None, run) == make(TASK)
    assert find_env(RunConfig(PLACE), ConstantReward(), None, run).spec.name == "constant-reward"


def test_a_run_on_an_object(tmp_path, registered):
    """Its class makes a different environment by default, so no name can recreate it."""
    env, out = ConstantReward(3), tmp_path / "run"
    [done] = train(env, out=out, preset="smoke", steps=STEPS, num_evaluations=1)
    record = read_json(out / "config.json")
    assert (record["config"]["task"], record["environment"]) == ("constant-reward", PLACE)
    assert (record["tuned"], record["preset"]) == (False, "smoke")
    assert not record["command"].startswith("ratiosym train --config")
    assert done.summary["absolute_metric"]["mean_return"] == 1.0
    registered.clear()  # as in another process
    for action in (resume, evaluate, lambda run: render(run, tmp_path / "film.gif")):
        with pytest.raises(InputError, match="was trained on an environment object of class"):
            action(out)
    assert load_policy(out).spec.num_agents == 3  # which needs no environment
    assert evaluate(out, 8, env=env).returns.tolist() == [1.0] * 8
    registered.clear()
    [longer] = resume(out, steps=2 * STEPS, env=env)
    assert longer.summary["updates"] == 2
    with pytest.raises(InputError, match="cannot be rendered"):
        render(out, tmp_path / "film.gif", env=env)
