"""The public API, used as in its docstring."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ratiosym
from ratiosym import objectives
from ratiosym.api import TrainOptions
from ratiosym.experiments.presets import option_types
from ratiosym.runs.files import read_json
from tests.example_runs import STEPS, TASK, environment

NAMES = {
    *("Continuous", "Discrete", "DrawableEnv", "Env", "EnvSpec", "InputError", "Observation"),
    *("Policy", "RunConfig", "Step", "branch", "check_env", "evaluate", "load_policy", "make"),
    "objectives",
    *("register_objective", "register_task", "render", "resume", "tasks", "train"),
}


def test_the_names_of_the_package():
    assert set(ratiosym.__all__) == set(ratiosym._HOMES) == NAMES
    assert all(hasattr(ratiosym, name) for name in NAMES)
    assert set(dir(ratiosym)) > NAMES
    assert re.fullmatch(r"\d+\.\d+\.\d+", ratiosym.__version__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ratiosym.nothing


def test_names_for_checkers_of_types_are_those_of_the_package():
    """The table of lazy imports matches the imports under TYPE_CHECKING."""
    tree = ast.parse(inspect.getsource(ratiosym))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == ratiosym._HOMES


def in_a_fresh_process(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_the_package_loads_neither_environments_nor_learner():
    code = """
import sys
import ratiosym
print(sorted(name for name in sys.modules if name.startswith(("ratiosym", "jax", "numpy"))))
ratiosym.tasks()
print([name for name in sys.modules if name.startswith(("jax", "ratiosym.learning"))])
import ratiosym.objectives
rooms = ("ratiosym.envs.protocol", "ratiosym.learning", "ratiosym.runs", "ratiosym.experiments")
print([name for name in sys.modules if name.startswith(rooms)])
"""
    assert in_a_fresh_process(code) == ["['ratiosym']", "[]", "[]"]


# ------------------------------------------------------------------------------------------- train


def test_the_options_of_train_are_those_of_a_run():
    """The typed options match the fields and the objectives' parameters."""
    hints = get_type_hints(TrainOptions)
    expected = {}
    for objective in objectives.OBJECTIVES:
        expected |= option_types(objective)
    for name in ("task", "objective", "seed"):  # separate arguments
        del expected[name]
    parameters = hints.pop("objective_parameters")
    assert hints == expected
    assert get_origin(parameters) is Mapping


@pytest.mark.unchecked
def test_options_of_train_are_explained_by_their_types(tmp_path):
    """NumPy's numbers are accepted as numbers, but text is not."""
    for wrong in ({"steps": "512"}, {"steps": 512.5}, {"num_envs": None}, {"discount": "a"}):
        [name] = wrong
        with pytest.raises(ratiosym.InputError, match=f"`{name}` is .*; it must be a"):
            ratiosym.train(TASK, out=tmp_path / "run", preset="smoke", **wrong)
    with pytest.raises(ratiosym.InputError, match="`seed` is -1; it must be from 0"):
        ratiosym.train(TASK, out=tmp_path / "run", seed=-1)
    with pytest.raises(ratiosym.InputError, match="`task` is None; it must be"):
        ratiosym.make(None)
    with pytest.raises(ratiosym.InputError, match="There are no tuned settings for mars on"):
        ratiosym.train("mpe-spread-10ag", out=tmp_path / "run", tuned=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("parameters", [None, [1], 0.5, {3: 1.0}])
def test_parameters_of_objectives_are_a_table(parameters, tmp_path):
    message = r"`objective_parameters` is .*; it must be a table of names and values"
    with pytest.raises(ratiosym.InputError, match=message):
        ratiosym.train("mpe-spread-3ag", out=tmp_path / "run", objective_parameters=parameters)
    assert not (tmp_path / "run").exists()


def test_the_docstring_works_as_it_stands(tmp_path, monkeypatch):
    """Its lines, with a smaller budget and an observation."""
    monkeypatch.chdir(tmp_path)
    lines = [line.strip() for line in ratiosym.__doc__.split("\n\n")[1].splitlines()]
    assert lines[0] == "import ratiosym"
    assert len(lines) == 5
    code = "\n".join(lines)
    small = code.replace(
        "steps=200_000", f"steps={2 * STEPS}, preset='smoke', b_upper=np.float32(3)"
    )
    assert small != code
    key = jax.random.key(0)
    names = {"np": np, "key": key, "observation": ratiosym.make(TASK).reset(key)[1]}
    exec(small, names)
    assert names["env"].spec.name == TASK
    assert names["action"].shape == (3, 5)
    shapes = [jax.tree.map(jnp.shape, x) for x in (names["carry"], names["policy"].initial_carry())]
    assert shapes[0] == shapes[1]
    assert "\n" not in repr(names["policy"])
    [done] = names["runs"]
    assert done.summary["objective"] == "mars"
    record = read_json(tmp_path / "runs" / "first" / "config.json")
    assert (record["tuned"], record["preset"], record["track"]) == (False, "smoke", [])
    assert record["config"]["objective_parameters"] == {"b_lower": 0.5, "b_upper": 3.0}
    assert (tmp_path / "runs" / "first" / "summary.json").exists()
    episodes = ratiosym.evaluate("runs/first", 8)
    assert episodes.returns.shape == (8,)
    [longer] = ratiosym.resume("runs/first", steps=3 * STEPS)
    assert longer.summary["updates"] == 3


def test_errors_are_value_errors_that_say_what_to_do():
    assert issubclass(ratiosym.InputError, ValueError)
    with pytest.raises(
        ratiosym.InputError, match=r"Unknown task 'mpe-spread-4ag'.*List all with 'ratiosym tasks'"
    ):
        ratiosym.make("mpe-spread-4ag")
    with pytest.raises(ratiosym.InputError, match="Unknown option 'lr'"):
        ratiosym.train(TASK, lr=1)


@pytest.mark.parametrize("name", objectives.OBJECTIVES)
def test_objectives_alone_in_a_loop_of_ones_own(name):
    """With a softmax policy over three actions, the ratio of a good action moves to its target."""
    objective = objectives.get_objective(name)
    bounds = objective.bounds()
    logits = jnp.zeros(3)  # of probability 1/3, so ratios up to 3 are possible
    action, advantage = jnp.array([0, 0]), jnp.array([1.0, 2.0])
    old = jax.nn.log_softmax(logits)[action]

    @jax.jit
    def step(logits):
        def loss(logits):
            log_ratio = jax.nn.log_softmax(logits)[action] - old
            values = objective.surrogate(log_ratio, advantage, bounds)
            assert values.shape == (2,)
            return -values.mean()

        return logits - 0.02 * jax.grad(loss)(logits)

    for _ in range(1000):
        logits = step(logits)
    ratio = np.exp(jax.nn.log_softmax(logits)[0] - old[0])
    np.testing.assert_allclose(ratio, bounds.upper, rtol=0.02)
    diagnostics = objectives.ratio_diagnostics(
        jax.nn.log_softmax(logits)[action] - old, advantage, bounds
    )
    np.testing.assert_allclose(diagnostics.maximum, ratio, rtol=1e-5)


def test_objectives_take_numpy_arrays_and_numbers():
    value = objectives.barrier(np.zeros(5), np.ones(5), objectives.Bounds(0.8, 1.2))
    np.testing.assert_allclose(value, np.ones(5), rtol=1e-6)
    assert objectives.clipped(
        jnp.log(3.0), jnp.array(2.0), objectives.Bounds(0.8, 1.2)
    ) == pytest.approx(2.4)


def test_objectives_alone_bring_no_environment_and_no_tracker():
    """Other people's training loops need nothing else of ours."""
    code = (
        "import sys; import ratiosym.objectives as o; print(o.barrier.__name__, "
        "[m for m in ('jaxmarl', 'tensorboardX', 'wandb', 'matplotlib', 'rich') if m in "
        "sys.modules])"
    )
    assert in_a_fresh_process(code) == ["barrier []"]
