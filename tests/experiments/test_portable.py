"""What only this process knows is refused before worker processes start."""

import dataclasses

import pytest

from ratiosym import objectives
from ratiosym.envs import registry
from ratiosym.errors import InputError
from ratiosym.experiments.plans import Plan
from ratiosym.experiments.presets import configure
from ratiosym.experiments.study import run_study
from ratiosym.experiments.tuning import tune
from tests.example_runs import TASK
from tests.experiments.searching import cheap_search, cheap_seed
from tests.probes import Recall


def refuse(*_):
    raise AssertionError("Nothing may be started.")


@pytest.fixture
def task(monkeypatch):
    monkeypatch.setattr(registry, "REGISTERED", {})
    monkeypatch.setattr("ratiosym.experiments.portable.REGISTERED", registry.REGISTERED)
    registry.register_task("mine", Recall)
    return "mine"


@pytest.fixture
def objective(monkeypatch):
    monkeypatch.setattr(objectives, "OBJECTIVES", dict(objectives.OBJECTIVES))
    mine = dataclasses.replace(objectives.OBJECTIVES["mars"], name="mine")
    return objectives.register_objective(mine).name


@pytest.mark.parametrize("part", ["task", "objective"])
def test_names_of_this_process_alone_are_refused(part, request, tmp_path):
    name = request.getfixturevalue(part)
    data = {"name": "mine", "seeds": [0], "tasks": [TASK], "algorithms": ["mars"]}
    changes = {"task": {"tasks": [name]}, "objective": {"algorithms": [name]}}[part]
    plan = Plan.from_dict({**data, "preset": "smoke", **changes})
    words = rf"The {part} 'mine' was registered in this process .*path/to/file\.py:name"
    with pytest.raises(InputError, match=words):
        run_study(plan, tmp_path / "study", refuse)
    assert not (tmp_path / "study").exists()
    search = cheap_search(tmp_path / "search", 1)
    config = configure(plan.tasks[0], "smoke", objective=plan.algorithms[0].objective, num_envs=16)
    search = dataclasses.replace(search, config=config)
    with pytest.raises(InputError, match=words):
        tune(search, refuse)
    assert not (tmp_path / "search").exists()
    tune(search, train=cheap_seed)  # this process knows it
