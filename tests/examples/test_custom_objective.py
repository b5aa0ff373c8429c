"""An objective from outside the package, by a reference to its file."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.experiments.presets import configure
from ratiosym.experiments.search_spaces import search_space
from ratiosym.objectives import get_objective
from tests.example_runs import ROOT, run_command

REFERENCE = f"{ROOT}/examples/custom_objective.py:LOG_QUADRATIC"


@pytest.mark.parametrize("advantage", [-2.0, 1.0])
def test_its_maximum_is_at_the_target(advantage):
    objective = get_objective(REFERENCE)
    bounds = objective.bounds(width=0.7)
    target = np.float32(np.log(bounds.upper if advantage > 0 else bounds.lower))
    slope = jax.grad(lambda u: objective.surrogate(u, jnp.float32(advantage), bounds))
    np.testing.assert_allclose(slope(target), 0, atol=1e-5)
    assert slope(target - 0.1) > 0 > slope(target + 0.1)


def test_settings_and_tuning_take_it_from_its_record(monkeypatch, tmp_path):
    config = configure("mpe-spread-3ag", "smoke", objective=REFERENCE, width=0.7)
    assert config.objective_parameters == {"width": 0.7}
    assert search_space(REFERENCE)["width"] == (0.1, 0.5, 1.0)
    monkeypatch.chdir(ROOT)
    near = configure(
        "mpe-spread-3ag", "smoke", objective="examples/custom_objective.py:LOG_QUADRATIC"
    )
    monkeypatch.chdir(tmp_path)
    assert near.objective == REFERENCE  # valid from any directory


@pytest.mark.slow
def test_it_trains_and_resumes_from_the_command_line(tmp_path):
    words = ["train", "mpe-spread-3ag", "--preset", "smoke", "--out", tmp_path / "run"]
    done = run_command(*words, "--objective", REFERENCE, "--width", "0.7")
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert config["objective_parameters"] == {"width": 0.7}
    again = run_command("train", "--resume", tmp_path / "run", "--steps", "1024", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
