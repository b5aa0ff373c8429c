"""Teams that ship with the package: stored without loss, and as good as recorded."""

import json

import jax
import numpy as np
import pytest

from ratiosym.api import render
from ratiosym.envs.registry import make
from ratiosym.errors import InputError
from ratiosym.runs import zoo
from ratiosym.runs.trained import evaluate, load_policy


@pytest.fixture
def own_zoo(monkeypatch, tmp_path, whole):
    """A zoo with the team of one short run."""
    monkeypatch.setattr(zoo, "DIRECTORY", tmp_path)
    return zoo.add_run(whole, tmp_path)


def test_a_team_is_the_best_policy_of_its_run(own_zoo, whole):
    policy, own = load_policy(f"zoo:{own_zoo.stem}"), load_policy(whole)
    assert (policy.spec, policy.model) == (own.spec, own.model)
    assert jax.tree.structure(policy.params) == jax.tree.structure(own.params)
    for stored, trained in zip(*map(jax.tree.leaves, (policy.params, own.params)), strict=True):
        assert stored.dtype == np.float32
        np.testing.assert_array_equal(stored, trained)


def test_a_team_says_where_it_comes_from(own_zoo, whole):
    about, summary = (
        zoo.read_archive(own_zoo).about,
        json.loads((whole / "summary.json").read_text()),
    )
    assert about["result"] == summary["absolute_metric"]
    assert about["config"] == json.loads((whole / "config.json").read_text())["config"]
    assert about["commit"]


def test_it_plays(own_zoo):
    episodes = evaluate(f"zoo:{own_zoo.stem}", 4)
    assert np.isfinite(episodes.returns).all()


def test_it_plays_no_other_environment(own_zoo, tmp_path):
    name = f"zoo:{own_zoo.stem}"
    assert evaluate(name, 4, env=make(own_zoo.stem)).returns.shape == (4,)
    other, message = make("mpe-spread-5ag"), f"`env` is 'mpe-spread-5ag', but .*'{name}' was"
    with pytest.raises(InputError, match=message):
        evaluate(name, 4, env=other)
    with pytest.raises(InputError, match=message):
        render(name, tmp_path / "film.gif", env=other)
    with pytest.raises(InputError, match="`env` is for a trained team, but 'paxmen-4a' is a task"):
        render("paxmen-4a", tmp_path / "film.gif", env=other)


def test_unknown_teams(own_zoo):
    with pytest.raises(InputError, match=rf"Unknown team of the zoo 'x'.*{own_zoo.stem}"):
        load_policy("zoo:x")
    with pytest.raises(InputError, match="has only its best parameters"):
        load_policy(f"zoo:{own_zoo.stem}", "last")


@pytest.mark.parametrize("content", [b"", b"PK", b"nonsense" * 40])
def test_damaged_files(own_zoo, content):
    own_zoo.write_bytes(content)
    with pytest.raises(InputError, match=r"is damaged\. Reinstall ratiosym\."):
        load_policy(f"zoo:{own_zoo.stem}")


def test_archives_without_a_description_or_with_code(own_zoo):
    np.savez(own_zoo, x=np.ones(2))
    with pytest.raises(InputError, match="is damaged"):
        zoo.read_archive(own_zoo)
    np.savez(own_zoo, about=np.array([print], object))  # a pickle, which could execute anything
    with pytest.raises(InputError, match="is damaged"):
        zoo.read_archive(own_zoo)


def test_an_unfinished_run(tmp_path):
    with pytest.raises(InputError, match="is not a finished run"):
        zoo.add_run(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("task", zoo.zoo_tasks())
def test_shipped_teams_reach_their_recorded_return(task):
    """Within three standard errors, on other episodes."""
    recorded = zoo.read_team(task).about["result"]
    returns = evaluate(f"zoo:{task}", recorded["episodes"], seed=1).returns
    errors = [s / np.sqrt(recorded["episodes"]) for s in (recorded["std_return"], returns.std())]
    assert abs(returns.mean() - recorded["mean_return"]) < 3 * np.hypot(*errors)
