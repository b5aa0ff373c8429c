"""What other tools read."""

import csv
import io
import json
import shutil

import numpy as np
import pytest

from ratiosym.report.analysis import analyse
from ratiosym.report.export import to_csv, to_marl_eval
from ratiosym.report.results import load


def test_marl_evals_structure(analysis):
    """environment -> task -> algorithm -> seed -> step, and absolute_metrics last among the
    steps.
    """
    data = json.loads(to_marl_eval(analysis))
    assert set(data) == {"mpe", "connector"}
    assert set(data["mpe"]) == {"mpe-spread-3ag"}
    assert set(data["mpe"]["mpe-spread-3ag"]) == {"mars", "mappo", "maspo"}
    runs = data["mpe"]["mpe-spread-3ag"]["mars"]
    assert list(runs) == ["seed_0", "seed_1", "seed_2"]
    steps = runs["seed_2"]
    assert list(steps) == [*(f"step_{k}" for k in range(7)), "absolute_metrics"]
    assert steps["step_0"] == {"step_count": 0, "mean_episode_return": [0.0]}
    assert steps["step_6"] == {"step_count": 512, "mean_episode_return": [0.94]}
    episodes = steps["absolute_metrics"]["mean_episode_return"]
    np.testing.assert_allclose(episodes, [0.84, 1.04])  # every one


def test_runs_without_episodes_have_their_mean(study, tmp_path):
    place = shutil.copytree(study, tmp_path / "study")
    for path in place.rglob("absolute_metric.csv"):
        path.unlink()
    data = json.loads(to_marl_eval(analyse(load(place))))
    run = data["mpe"]["mpe-spread-3ag"]["mars"]["seed_2"]
    assert run["absolute_metrics"] == {"mean_episode_return": [0.94]}


def expected_scores(analysis, suite):
    """What marl-eval makes of our file: absolute metrics between the least and the largest number
    that it has of a task, episodes of the absolute metric included.
    """
    (task,) = analysis.suites[suite].tasks
    runs = [run for run in analysis.results.runs if run.task == task]
    every = np.concatenate([x for run in runs for x in (run.returns, run.episodes)])
    low, high = every.min(), every.max()
    return {
        label: [(run.absolute - low) / (high - low) for run in analysis.results.of(task, label)]
        for label in analysis.titles
    }


def test_scores_follow_from_it_by_marl_evals_rule_as_we_read_it(analysis):
    """marl-eval itself is not needed: the next test uses it where it is installed."""
    for suite, tasks in json.loads(to_marl_eval(analysis)).items():
        ((_, algorithms),) = tasks.items()
        every = [
            x
            for runs in algorithms.values()
            for run in runs.values()
            for step in run.values()
            for x in step["mean_episode_return"]
        ]
        low, high = min(every), max(every)
        for label, expected in expected_scores(analysis, suite).items():
            found = [
                (np.mean(run["absolute_metrics"]["mean_episode_return"]) - low) / (high - low)
                for run in algorithms[label].values()
            ]
            np.testing.assert_allclose(found, expected)


def test_marl_eval_itself_gets_these_scores_where_it_is_installed(analysis):
    """pip install --no-deps id-marl-eval==0.0.4 colorama: the pandas that it pins does not build on
    Python 3.11, and what reads the file does not need it.
    """
    marl_eval = pytest.importorskip("marl_eval.utils.data_processing_utils")
    processed = marl_eval.data_process_pipeline(
        json.loads(to_marl_eval(analysis)), ["mean_episode_return"]
    )
    for suite in analysis.suites:
        copied = json.loads(json.dumps(processed, default=float))
        matrices, curves = marl_eval.create_matrices_for_rliable(
            copied, suite, ["mean_episode_return"]
        )
        for label, expected in expected_scores(analysis, suite).items():
            matrix = matrices["mean_norm_mean_episode_return"][label]  # [runs, tasks]
            # It adds 1e-6 to the range that it divides by.
            np.testing.assert_allclose(matrix[:, 0], expected, rtol=1e-5)
            assert curves["mean_norm_mean_episode_return"][label].shape == (3, 1, 7)


def test_tidy_csv(analysis):
    rows = list(csv.DictReader(io.StringIO(to_csv(analysis))))
    assert len(rows) == 18 * (7 + 1)
    first = [
        row
        for row in rows
        if row["task"] == "mpe-spread-3ag" and row["algorithm"] == "mappo" and row["seed"] == "1"
    ]
    assert [row["kind"] for row in first] == ["evaluation"] * 7 + ["absolute"]
    assert first[-1] == {
        "suite": "mpe",
        "task": "mpe-spread-3ag",
        "algorithm": "mappo",
        "seed": "1",
        "kind": "absolute",
        "steps": "512",
        "mean_return": "0.72",
        "normalised_return": first[-1]["normalised_return"],
    }
    np.testing.assert_allclose(float(first[-1]["normalised_return"]), 0.72 / 0.94)
    assert [float(row["normalised_return"]) for row in first[:1]] == [0.0]
