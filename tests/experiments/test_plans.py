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
from ratiosym.experiments.built_in import BUILT_IN
from ratiosym.experiments.plans import Algorithm, Plan, Tuning, read_plan
from ratiosym.experiments.presets import change
from ratiosym.experiments.search_spaces import whole_grid
from ratiosym.experiments.tuning import planned_searches
from ratiosym.objectives import get_objective
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
    assert list(BUILT_IN) == ["paper", "paper-ablation", "cpu", "first-results", "smoke"]
    assert all(name == plan.name and plan.about for name, plan in BUILT_IN.items())


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_plan_survives_being_written_down(name):
    plan = read_plan(name)
    assert plan is BUILT_IN[name]
    assert Plan.from_dict(plan.to_dict()) == plan
    paths = [run.path for run in plan.runs()]
    assert len(set(paths)) == len(paths) == len(plan.tasks) * len(plan.algorithms) * len(plan.seeds)


def searched(plan):
    """What is searched for each label, as the two target ratios and the rest."""
    found = {}
    for pair, search in planned_searches(plan, plan.tuning, Path("tree")).items():
        own = get_objective(pair.objective).parameters
        common = {n: c for n, c in search.space.items() if n not in [p.name for p in own]}
        points = search.grid or whole_grid(pair.objective)
        bounds = {configure_bounds(pair.objective, point) for point in points}
        found.setdefault(pair.label, set()).add((tuple(common.items()), frozenset(bounds)))
    assert all(len(spaces) == 1 for spaces in found.values())  # the same on every task
    return {label: next(iter(spaces)) for label, spaces in found.items()}


def configure_bounds(objective, point):
    bounds = get_objective(objective).bounds(**point)
    return round(bounds.lower, 9), round(bounds.upper, 9)


@pytest.mark.parametrize("name", ["paper", "paper-ablation"])
def test_the_papers_plans_tune_every_algorithm_on_every_task(name):
    """Section 4.1 and appendix D: TPE over an identical common space, 40 trials for methods with
    one trust-region parameter and 80 for those with two, five seeds that no final run has.
    """
    plan = read_plan(name)
    searches = planned_searches(plan, plan.tuning, Path("tree"))
    assert [(pair.task, pair.label) for pair in searches] == [
        (task, label) for task in plan.tasks for label in labels(plan)
    ]
    for pair, search in searches.items():
        search.validate()
        num_own = len(get_objective(pair.objective).parameters)
        assert search.num_trials == {1: 40, 2: 80}[num_own]
        assert len(search.seeds) == 5
        assert not set(search.seeds) & set(plan.seeds)
        assert (search.kind, search.grid) == ("paper", ())
        assert len(search.space) == 6 + num_own
        is_long = pair.task.startswith(LONG)
        assert search.config.steps == (120_000_000 if is_long else 40_000_000)
    assert len({common for common, _ in searched(plan).values()}) == 1


def test_the_papers_main_comparison():
    plan = read_plan("paper")
    assert (labels(plan), plan.tasks, plan.seeds) == (
        ["mars", "mappo", "maspo"],
        tuple(TASKS),
        tuple(range(10)),
    )
    runs = plan.runs()
    assert len(runs) == 3 * 47 * 10
    for run in runs:
        assert run.config.steps == (240_000_000 if run.task.startswith(LONG) else 80_000_000)


def test_the_papers_ablation():
    plan = read_plan("paper-ablation")
    assert (labels(plan), plan.tasks) == (VARIANTS, ("aerojax-8v8", "jaxnav-11x11x4a"))
    assert len(plan.runs()) == 5 * 2 * 10
    for run in plan.runs():
        assert run.config.steps == 1_000_000_000
        assert run.config.objective == run.label


def test_the_ablation_searches_identical_spaces():
    """The paper's "Ablation Fairness": as target ratios, MARS and the two asymmetric baselines have
    the very same search space; the symmetric variants restrict it to one parameter.
    """
    spaces = searched(read_plan("paper-ablation"))
    assert spaces["mars"] == spaces["mappo-asymmetric"] == spaces["maspo-asymmetric"]
    assert len(spaces["mars"][1]) == 8 * 7
    for label in ("mars-multiplicative", "mars-additive"):
        assert {round(upper, 9) for _, upper in spaces[label][1]} == {1.05, 1.1, 1.2, 1.5, 1.9}


@pytest.mark.parametrize("name", ["paper", "paper-ablation", "cpu", "smoke"])
def test_nothing_that_is_to_be_tuned_runs_untuned(name):
    plan = read_plan(name)
    first, *others = plan.pairs()
    with pytest.raises(
        InputError, match=f"no settings for '{first.label}' on '{first.task}'. 'ratiosym reproduce'"
    ):
        plan.check_settings()
    known = {pair.task: {} for pair in others}
    for pair in others:
        known[pair.task][pair.label] = {}
    with pytest.raises(InputError, match=f"no settings for '{first.label}' on '{first.task}'"):
        dataclasses.replace(plan, settings=known).check_settings()
    dataclasses.replace(plan, settings=known).check_settings(others)


def test_what_was_found_is_what_final_runs_have():
    plan, task = read_plan("paper-ablation"), "aerojax-8v8"
    found = {"value_clip": 0.05, "num_epochs": 2, "b_upper": 4.0, "b_lower": 0.3}
    tuned = dataclasses.replace(plan, settings={task: {"mars": found}})
    tuned.validate()
    assert Plan.from_dict(tuned.to_dict()) == tuned
    for run, before in zip(tuned.runs(), plan.runs(), strict=True):
        is_tuned = (run.task, run.label) == (task, "mars")
        assert run.config == (change(before.config, **found) if is_tuned else before.config)
    # A search never begins with what an earlier one found.
    [mars, *_] = plan.algorithms
    assert tuned.tuning_config(mars, task) == plan.tuning_config(mars, task)


def test_the_study_for_two_cores():
    """Every point of the protocol (results/cpu/README.md): six pairs for MARS, three epsilons for
    the others, two tuning seeds, half length; common settings are the same for the three.
    """
    plan = read_plan("cpu")
    searches = planned_searches(plan, plan.tuning, Path("tree"))
    for pair, search in searches.items():
        search.validate()
        bounds = [get_objective(pair.objective).bounds(**point) for point in search.grid]
        pairs = [(round(b.lower, 9), round(b.upper, 9)) for b in bounds]
        assert (
            pairs
            == [(0.95, 1.05), (0.9, 1.1), (0.8, 1.2), (0.5, 2), (0.3, 4), (0.1, 10)][
                : 6 if pair.label == "mars" else 3
            ]
        )
        assert (search.num_trials, search.seeds) == (len(pairs), (1000, 1001))
    for task in plan.tasks:
        finals = {run.label: run.config for run in plan.runs() if run.task == task}
        shared = {(c.hyperparameters, c.shape, c.steps) for c in finals.values()}
        assert len(shared) == 1
        for label, config in finals.items():
            [search] = [s for w, s in searches.items() if w[:2] == (task, label)]
            assert search.config.steps == config.steps // 2
    assert len(plan.runs()) == 8 * 3 * 5


@pytest.mark.parametrize("name", ["paper", "paper-ablation", "cpu", "first-results"])
def test_evaluations_are_evenly_spaced(name):
    """Also before training, 32 episodes each. Their number is ours: the paper does not state it."""
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
    wide = {"label": "wide", "objective": "mars", "options": {"b_upper": 3.0, "steps": 512}}
    plan = Plan.from_dict(small(algorithms=["mars", wide], options={"steps": 256, "discount": 0.9}))
    assert plan.algorithms == (
        Algorithm("mars", "mars"),
        Algorithm("wide", "mars", {"b_upper": 3.0, "steps": 512}),
    )
    plain, changed = (run.config for run in plan.runs()[:2])
    assert (plain.steps, changed.steps) == (256, 512)
    assert (plain.bounds.upper, changed.bounds.upper) == (2.0, 3.0)
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
        assert run.config.objective_parameters == {"b_lower": 0.5, "b_upper": 2.0}
    if name == "tasks":
        assert run.task == f"{tmp_path}/mine.py:part"
        assert run.path.parts[1].startswith("mine-part-")
        assert run.config.steps == 512


def test_searches_of_a_plan_are_half_as_long_as_its_runs():
    plan = Plan.from_dict(small(preset="cpu", options={"steps": 400_000}))
    [mars] = plan.algorithms
    assert plan.tuning_config(mars, TASK).steps == 200_000
    longer = dataclasses.replace(plan, tuning=Tuning(steps=300_000))
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
    example, tuning, fragment = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs" / "how-to" / "studies.md").read_text(), re.DOTALL
    )
    path = tmp_path / "mine.toml"
    path.write_text(example)
    plan = read_plan(path)
    assert plan.to_dict() == Plan.from_dict(plan.to_dict()).to_dict()
    assert len(plan.runs()) > 1
    assert "mars-wide" in labels(plan)
    assert plan.task_options["connector-5x5x3a"] == {"steps": 600_000}
    wide = next(run for run in plan.runs() if run.task == "connector-5x5x3a")
    assert wide.config.steps == 600_000
    example = example.replace("options = { b_lower = 0.5, b_upper = 2.0 }", "")
    path.write_text(f"{example}\n{tuning}")
    tuned = read_plan(path).tuning
    assert (tuned.search, tuned.trials, tuned.seeds) == ("trust-region", "all", (1000, 1001))
    assert [len(tuned.points(a)) for a in plan.algorithms] == [2, 2]
    assert tomllib.loads(fragment).keys() < plan.to_dict().keys()


# -------------------------------------------------------------------------------------- wrong input

WALK = {"search": "trust-region", "trials": "all"}
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
        "The label 'mars' appears twice in the plan. Give one a different label.",
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
    "settings of another algorithm": (
        small(settings={TASK: {"mappo": {}}}),
        f"'settings' are for 'mappo' on '{TASK}', which is not in the plan.",
    ),
    "an unknown search": (
        small(tuning={"search": "papre"}),
        "'search' is 'papre'; it must be one of 'paper', 'trust-region'.",
    ),
    "an unknown number of trials": (
        small(tuning={"trials": "most"}),
        "'trials' is 'most'; it must be a whole number or one of 'paper', 'all'.",
    ),
    "no trials": (small(tuning={"trials": 0}), "'trials' is 0; it must be at least 1."),
    "all of the paper's space": (
        small(tuning={"trials": "all"}),
        "'trials' is 'all', which needs search = \"trust-region\"",
    ),
    "a grid for a sampler": (
        small(tuning={"search": "trust-region", "grid": {"mars": [{"b_lower": 0.5}]}}),
        "'grid' needs trials = \"all\"",
    ),
    "a grid of another label": (
        small(tuning={**WALK, "grid": {"marz": []}}),
        "Unknown label 'marz'. Closest: 'mars'. 'grid' is for the plan's algorithms.",
    ),
    "half a point": (
        small(tuning={**WALK, "grid": {"mars": [{"b_lower": 0.5}]}}),
        "a point of 'mars' has b_lower; it must have b_lower, b_upper.",
    ),
    "a point outside": (
        small(tuning={**WALK, "grid": {"mars": [{"b_lower": 1.5, "b_upper": 2}]}}),
        "`b_lower` is 1.5; it must be a finite number above 0 and below 1",
    ),
    "a point twice": (
        small(tuning={**WALK, "grid": {"mars": 2 * [{"b_lower": 0.5, "b_upper": 2}]}}),
        "appears twice in the plan.",
    ),
    "tuning on a final seed": (
        small(tuning={"seeds": [1, 1000]}),
        "The seed 1 is used both by the plan and for tuning",
    ),
    "what is searched as well": (
        small(tuning={}, options={"num_epochs": 4}),
        "The option 'num_epochs' is searched for 'mars' (tuning: search = \"paper\").",
    ),
    "a target that is searched": (
        small(
            tuning=WALK,
            algorithms=[{"objective": "mars", "options": {"b_upper": 2.0}}],
        ),
        "The option 'b_upper' is searched for 'mars' (tuning: search = \"trust-region\").",
    ),
    "tuned twice": (small(tuning={}, tuned=True), "tuned = true and a [tuning] table"),
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
        match=r"Unknown plan 'papers'\. Closest: 'paper'\. Built-in plans: paper, paper-ablation",
    ):
        read_plan("papers")
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
