"""Plans: the built-in ones are the paper's, files say the same, and whatever does not fit is told
with what would.
"""

import dataclasses
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from ratiosym.envs.tasks import TASKS
from ratiosym.errors import InputError
from ratiosym.experiments import settings
from ratiosym.experiments.plans import BUILT_IN, Algorithm, Plan, read_plan
from ratiosym.experiments.presets import configure
from tests.example_runs import ROOT, TASK

LONG = ("aerojax", "jaxnav")
VARIANTS = ["mars", "mappo-asymmetric", "maspo-asymmetric", "mars-multiplicative", "mars-additive"]


def labels(plan):
    return [algorithm.label for algorithm in plan.algorithms]


def small(**changes):
    return {
        "name": "small",
        "algorithms": ["mars"],
        "tasks": [TASK],
        "seeds": [0, 1],
        "preset": "smoke",
        **changes,
    }


# ------------------------------------------------------------------------------- the built-in plans


def test_the_names_of_the_built_in_plans():
    assert list(BUILT_IN) == [
        "table1",
        "ablation",
        "cpu-table1",
        "cpu-ablation",
        "first-results",
        "smoke",
    ]
    assert all(name == plan.name and plan.about for name, plan in BUILT_IN.items())


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_plan_survives_being_written_down(name):
    plan = read_plan(name)
    assert plan is BUILT_IN[name]
    assert Plan.from_dict(plan.to_dict()) == plan
    paths = [run.path for run in plan.runs()]
    assert len(set(paths)) == len(paths) == len(plan.tasks) * len(plan.algorithms) * len(plan.seeds)


def test_table1_is_the_papers():
    plan = read_plan("table1")
    assert (labels(plan), plan.tasks, plan.seeds) == (
        ["mars", "mappo", "maspo"],
        tuple(TASKS),
        tuple(range(10)),
    )
    runs = plan.runs()
    assert len(runs) == 3 * 47 * 10
    for run in runs:
        assert run.config.steps == (240_000_000 if run.task.startswith(LONG) else 80_000_000)
        assert run.config == configure(run.task, "paper", objective=run.label, seed=run.seed)


def test_the_ablation_is_the_papers():
    plan = read_plan("ablation")
    assert (labels(plan), plan.tasks) == (VARIANTS, ("aerojax-8v8", "jaxnav-11x11x4a"))
    assert len(plan.runs()) == 5 * 2 * 10
    for run in plan.runs():
        assert run.config.steps == 1_000_000_000
        assert run.config.objective == run.label


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_compared_has_the_same_target_ratios(name):
    """The paper's fairness rule: geometry differs, bounds do not (the multiplicative variant's are
    its point).
    """
    bounds = {run.label: run.config.bounds for run in read_plan(name).runs()}
    for label, (lower, upper) in bounds.items():
        assert upper == pytest.approx(1.2)
        assert lower == pytest.approx(1 / 1.2 if label == "mars-multiplicative" else 0.8)


@pytest.mark.parametrize(
    ("small", "large"), [("cpu-table1", "table1"), ("cpu-ablation", "ablation")]
)
def test_small_budgets_differ_in_the_budget_alone(small, large):
    one, other = read_plan(small), read_plan(large)
    assert (one.algorithms, one.tasks) == (other.algorithms, other.tasks)
    assert one.preset == "cpu"
    assert {run.config.steps for run in one.runs()} == {
        400_000 if small == "cpu-table1" else 1_000_000
    }


@pytest.mark.parametrize(
    "name", ["table1", "ablation", "cpu-table1", "cpu-ablation", "first-results"]
)
def test_evaluation_is_the_papers(name):
    """Evenly spaced, also before training, 32 episodes each; the absolute metric is every run's
    (test_run.py).
    """
    expected = 122 if read_plan(name).preset == "paper" else 20
    for run in read_plan(name).runs():
        updates = run.config.evaluation_updates()
        assert run.config.shape.num_eval_episodes == 32
        assert (len(updates), updates[0], updates[-1]) == (expected + 1, 0, run.config.num_updates)
        gaps = [after - before for before, after in pairwise(updates)]
        assert max(gaps) - min(gaps) <= 1


def test_first_results_gives_all_the_same():
    plan = read_plan("first-results")
    assert (labels(plan), plan.tasks) == (
        ["mars", "mappo", "maspo"],
        ("connector-5x5x3a", "mpe-spread-3ag"),
    )
    assert plan.seeds == (0, 1, 2, 3, 4)
    for run in plan.runs():
        assert (run.config.steps, run.config.num_evaluations) == (500_000, 20)
        rates = (
            run.config.hyperparameters.actor_learning_rate,
            run.config.hyperparameters.critic_learning_rate,
        )
        assert rates == (5e-4, 5e-4)
    same = {(run.config.hyperparameters, run.config.shape) for run in plan.runs()}
    assert len(same) == 1


def test_smoke_is_small():
    runs = read_plan("smoke").runs()
    assert len(runs) == 2 * 2 * 2
    assert sum(run.steps for run in runs) == 8 * 512


# --------------------------------------------------------------------------------- what a plan says


def test_seeds_come_one_after_another():
    plan = Plan.from_dict(small(tasks=[TASK, "connector-5x5x3a"], algorithms=["mars", "mappo"]))
    assert [run.seed for run in plan.runs()] == [0] * 4 + [1] * 4
    assert [str(run.path) for run in plan.runs()][:3] == [
        f"runs/{TASK}/mars/seed-0",
        f"runs/{TASK}/mappo/seed-0",
        "runs/connector-5x5x3a/mars/seed-0",
    ]


def test_an_algorithms_options_come_before_the_plans():
    wide = {"label": "wide", "objective": "mars", "options": {"b_upper": 2.0, "steps": 512}}
    plan = Plan.from_dict(small(algorithms=["mars", wide], options={"steps": 256, "discount": 0.9}))
    assert plan.algorithms == (
        Algorithm("mars", "mars"),
        Algorithm("wide", "mars", {"b_upper": 2.0, "steps": 512}),
    )
    plain, changed = (run.config for run in plan.runs()[:2])
    assert (plain.steps, changed.steps) == (256, 512)
    assert (plain.bounds.upper, changed.bounds.upper) == (1.2, 2.0)
    assert plain.hyperparameters.discount == changed.hyperparameters.discount == 0.9


def test_a_tasks_options_come_between():
    wide = {"label": "wide", "objective": "mars", "options": {"discount": 0.7}}
    plan = Plan.from_dict(
        small(
            tasks=[TASK, "connector-5x5x3a"],
            algorithms=["mars", wide],
            seeds=[0],
            options={"steps": 512, "discount": 0.9},
            task_options={TASK: {"steps": 1024, "discount": 0.8}},
        )
    )
    found = [(r.config.steps, r.config.hyperparameters.discount) for r in plan.runs()]
    assert found == [(1024, 0.8), (1024, 0.7), (512, 0.9), (512, 0.7)]
    assert Plan.from_dict(plan.to_dict()) == plan


@pytest.mark.parametrize("name", ["objectives", "tasks", "networks", "trackers"])
def test_parts_of_your_own_are_found_from_any_directory(name, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\n"
        "from ratiosym.objectives import OBJECTIVES\n"
        "WIDE = replace(OBJECTIVES['mars'], name='wide')\n"
        "def part(): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    changes = {
        "objectives": {"algorithms": ["mine.py:WIDE"]},
        "tasks": {"tasks": ["mine.py:part"], "task_options": {"mine.py:part": {"steps": 512}}},
        "networks": {"options": {"network": "mine.py:part"}},
        "trackers": {"track": ["mine.py:part"]},
    }[name]
    plan = Plan.from_dict(small(**changes))
    assert str(tmp_path / "mine.py") in str(plan.to_dict())
    monkeypatch.chdir("/")
    assert Plan.from_dict(plan.to_dict()) == plan
    [run, *_] = plan.runs()
    assert run.path.parts[0] == "runs"
    assert len(run.path.parts) == 4
    if name == "objectives":
        assert run.label == "wide"
        assert run.config.objective_parameters == {"b_lower": 0.8, "b_upper": 1.2}
    if name == "tasks":
        assert run.task == f"{tmp_path}/mine.py:part"
        assert run.path.parts[1].startswith("mine-part-")
        assert run.config.steps == 512


def test_searches_of_a_plan_are_half_as_long_as_its_runs():
    plan = Plan.from_dict(small(preset="cpu", options={"steps": 400_000}))
    [mars] = plan.algorithms
    assert plan.tuning_config(mars, TASK).steps == 200_000
    longer = dataclasses.replace(plan, tuning_steps=300_000)
    assert longer.tuning_config(mars, TASK).steps == 300_000
    assert longer.runs() == plan.runs()
    smoke = Plan.from_dict(small())
    assert smoke.tuning_config(mars, TASK).shape.num_envs == 16


def test_tuned_settings_are_used_only_if_asked_for(monkeypatch):
    found = {TASK: {"mars": {"options": {"actor_learning_rate": 1e-4}}}}
    monkeypatch.setattr(settings, "read_shipped", lambda: found)
    rates = {
        is_tuned: Plan.from_dict(small(preset="cpu", tuned=is_tuned))
        .runs()[0]
        .config.hyperparameters
        for is_tuned in (False, True)
    }
    assert rates[False].actor_learning_rate == 2.5e-4
    assert rates[True].actor_learning_rate == 1e-4


def test_the_example_of_the_documentation(tmp_path):
    example, fragment = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs" / "studies.md").read_text(), re.DOTALL
    )
    path = tmp_path / "mine.toml"
    path.write_text(example)
    plan = read_plan(path)
    assert plan.to_dict() == Plan.from_dict(plan.to_dict()).to_dict()
    assert len(plan.runs()) > 1
    assert "mars-wide" in labels(plan)
    assert tomllib.loads(fragment).keys() < plan.to_dict().keys()


# -------------------------------------------------------------------------------------- wrong input

WRONG = {
    "objective": (small(algorithms=["marz"]), "Unknown objective 'marz'. Closest: 'mars'."),
    "task": (
        small(tasks=["mpe-spread-3agents"]),
        "Unknown task 'mpe-spread-3agents'. Closest: 'mpe-spread-3ag'.",
    ),
    "preset": (
        small(preset="smokey"),
        "Unknown preset 'smokey'. Closest: 'smoke'. Choose one of: paper, cpu, smoke.",
    ),
    "key": (
        small(seed=[0]),
        "Unknown name 'seed'. Closest: 'seeds'. The plan has: name, algorithms, tasks,",
    ),
    "option": (small(options={"step": 1}), "Unknown option 'step'. Closest: 'steps'."),
    "an algorithm's option": (
        small(algorithms=[{"objective": "mars", "options": {"b_uper": 2.0}}]),
        "Unknown option 'b_uper'. Closest: 'b_upper'.",
    ),
    "an algorithm's key": (
        small(algorithms=[{"objectiv": "mars"}]),
        "Unknown name 'objectiv'. Closest: 'objective'.",
    ),
    "what the plan says itself": (small(options={"seed": 3}), "Unknown option 'seed'."),
    "text for a number": (
        small(options={"steps": "many"}),
        "The option 'steps' is 'many'; it must be a whole number.",
    ),
    "part of a step": (
        small(options={"steps": 512.5}),
        "The option 'steps' is 512.5; it must be a whole number.",
    ),
    "true for a number": (
        small(options={"discount": True}),
        "The option 'discount' is True; it must be a number.",
    ),
    "no seeds": (
        small(seeds=[]),
        "The plan: 'seeds' is empty; it needs at least one entry.",
    ),
    "one number for seeds": (small(seeds=3), "The plan: 'seeds' is 3; it must be a list."),
    "a seed in words": (
        small(seeds=["one"]),
        "The plan: 'seeds' entry 1 is 'one'; it must be a whole number.",
    ),
    "a negative seed": (small(seeds=[-1]), "`seed` is -1; it must be from 0"),
    "a seed twice": (small(seeds=[1, 1]), "The seed 1 appears twice in the plan. Remove one."),
    "a task twice": (small(tasks=[TASK, TASK]), f"The task '{TASK}' appears twice in the plan."),
    "a label twice": (
        small(algorithms=["mars", "mars"]),
        "The label 'mars' appears twice in the plan. Give one another label.",
    ),
    "a label that is a path": (
        small(algorithms=[{"objective": "mars", "label": "../mars"}]),
        "The label '../mars' cannot name a directory.",
    ),
    "a label of 300 characters": (
        small(algorithms=[{"objective": "mars", "label": "m" * 300}]),
        "cannot name a directory. Use at most 80 letters",
    ),
    "options of another task": (
        small(task_options={"connector-5x5x3a": {"steps": 512}}),
        "Unknown task 'connector-5x5x3a'. 'task_options' is for tasks of the plan.",
    ),
    "a task's unknown option": (
        small(task_options={TASK: {"step": 512}}),
        "Unknown option 'step'. Closest: 'steps'.",
    ),
    "an unknown tracker": (small(track=["wandbb"]), "Unknown tracker 'wandbb'. Closest: 'wandb'."),
    "a number for a tracker": (small(track=[3]), "'track' entry 1 is 3; it must be text."),
    "a parameter of one algorithm alone": (
        small(algorithms=["mappo", "mars"], options={"epsilon": 0.1}),
        "Unknown option 'epsilon'. Closest: 'steps'. See 'ratiosym train --help' for the options "
        "of 'mars'.",
    ),
    "nothing to run": ({"name": "empty"}, "The plan needs 'algorithms'."),
    "a budget too small": (
        small(options={"steps": 3}),
        f"'mars' on '{TASK}': A budget of 3 steps is smaller than one",
    ),
    "another objective's bounds": (small(options={"epsilon": 0.1}), "Unknown option 'epsilon'."),
    "options that are none": (
        small(options=[1]),
        "The plan: 'options' is [1]; it must be a table of names and values.",
    ),
    "an algorithm that is a number": (
        small(algorithms=[3]),
        "An algorithm of the plan is 3; it must be",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_plan_that_does_not_fit(wrong):
    data, message = WRONG[wrong]
    with pytest.raises(InputError, match=re.escape(message)):
        Plan.from_dict(data)


def test_plans_that_cannot_be_read(tmp_path):
    with pytest.raises(
        InputError,
        match=r"Unknown plan 'tabel1'\. Closest: 'table1'\. Built-in plans: table1, ablation",
    ):
        read_plan("tabel1")
    with pytest.raises(InputError, match=r"There is no plan 'nowhere\.toml'\. Built-in plans"):
        read_plan("nowhere.toml")
    broken = Path(tmp_path / "broken.toml")
    broken.write_text("name = ")
    with pytest.raises(
        InputError, match=r"The plan '.*broken\.toml' cannot be read \(.*A plan is a TOML file\."
    ):
        read_plan(broken)
    broken.write_text('name = "x"\ntask = ["a"]\n')
    with pytest.raises(
        InputError, match=r"'.*broken\.toml': Unknown name 'task'\. Closest: 'tasks'\."
    ):
        read_plan(broken)
