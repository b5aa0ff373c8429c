"""What ``import ratiosym`` gives, as its docstring shows it."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ratiosym
from ratiosym import objectives
from tests.example_runs import STEPS, TASK, environment


def test_the_names_of_the_package():
    expected = {
        "InputError",
        "Policy",
        "evaluate",
        "load_policy",
        "make",
        "objectives",
        "resume",
        "train",
    }
    assert set(ratiosym.__all__) == expected
    assert all(hasattr(ratiosym, name) for name in expected)
    assert re.fullmatch(r"\d+\.\d+\.\d+", ratiosym.__version__)


def test_the_docstring_works_as_it_stands(tmp_path, monkeypatch):
    """Its lines, with a smaller budget and the observation that they leave to the reader."""
    monkeypatch.chdir(tmp_path)
    lines = [line.strip() for line in ratiosym.__doc__.split("\n\n")[1].splitlines()]
    assert lines[0] == "import ratiosym"
    assert len(lines) == 5
    code = "\n".join(lines)
    small = code.replace("steps=200_000", f"steps={2 * STEPS}, preset='smoke'")
    assert small != code
    key = jax.random.key(0)
    names = {"key": key, "observation": ratiosym.make(TASK).reset(key)[1]}
    exec(small, names)
    assert names["env"].spec.name == TASK
    assert names["action"].shape == (3, 5)
    assert names["carry"].shape == names["policy"].initial_carry().shape
    [done] = names["runs"]
    assert done.summary["objective"] == "mars"
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
    """A softmax policy over three actions with plain arrays: a good action comes to its target and
    stays there.
    """
    objective = objectives.get_objective(name)
    bounds = objective.bounds(**objective.parameters)
    logits = jnp.zeros(3)
    action, advantage = jnp.array([0, 0]), jnp.array([1.0, 2.0])
    old = jax.nn.log_softmax(logits)[action]

    @jax.jit
    def step(logits):
        def loss(logits):
            log_ratio = jax.nn.log_softmax(logits)[action] - old
            values = objective.surrogate(log_ratio, advantage, bounds)
            assert values.shape == (2,)
            return -values.mean()

        return logits - 0.05 * jax.grad(loss)(logits)

    for _ in range(300):
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
    """Somebody else's loop needs JAX and nothing else of ours."""
    code = (
        "import sys; import ratiosym.objectives as o; print(o.barrier.__name__, "
        "[m for m in ('jaxmarl', 'tensorboardX', 'wandb', 'matplotlib', 'rich') if m in "
        "sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert (done.stdout, done.stderr) == ("barrier []\n", "")
