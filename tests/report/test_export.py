"""What other tools read."""

import csv
import io
import json

import numpy as np

from ratiosym.report.export import to_csv, to_marl_eval


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
    assert steps["absolute_metrics"] == {"mean_episode_return": [0.94]}


def test_marl_eval_gets_our_scores_from_it(analysis):
    """Min and max as marl-eval takes them, over all steps and absolute metrics of a task; then the
    same scores.
    """
    for suite, tasks in json.loads(to_marl_eval(analysis)).items():
        ((_, algorithms),) = tasks.items()
        every = [
            x
            for runs in algorithms.values()
            for run in runs.values()
            for s in run.values()
            for x in s["mean_episode_return"]
        ]
        low, high = min(every), max(every)
        for label, runs in algorithms.items():
            scores = [
                (np.mean(run["absolute_metrics"]["mean_episode_return"]) - low) / (high - low)
                for run in runs.values()
            ]
            np.testing.assert_allclose(analysis.suites[suite].scores[label].value, np.mean(scores))


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
