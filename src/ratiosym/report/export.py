"""Export of runs for other tools: marl-eval's JSON and a tidy CSV."""

import csv
import io
import json
from typing import Any

from ratiosym.report.analysis import Analysis
from ratiosym.report.statistics import normalise

METRIC = "mean_episode_return"  # the usual name in marl-eval


def to_marl_eval(analysis: Analysis) -> str:
    """Return the nested JSON that marl-eval (Gorsane et al. 2022) reads.

    environment -> task -> algorithm -> seed_S -> step_K -> {step_count, mean_episode_return}, and
    absolute_metrics next to the steps. The list of a step contains one number, the mean over the
    evaluation's episodes; that of absolute_metrics contains every episode's return, or only the
    mean for a run that kept no episodes.
    """
    data: dict[str, Any] = {}
    for run in analysis.results.runs:
        steps: dict[str, Any] = {
            f"step_{k}": {"step_count": int(count), METRIC: [float(value)]}
            for k, (count, value) in enumerate(zip(run.steps, run.returns, strict=True))
        }
        episodes = [run.absolute] if run.episodes is None else run.episodes.tolist()
        steps["absolute_metrics"] = {METRIC: episodes}
        task = data.setdefault(analysis.tasks[run.task].suite, {}).setdefault(run.task, {})
        task.setdefault(run.label, {})[f"seed_{run.seed}"] = steps
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def to_csv(analysis: Analysis) -> str:
    """Return one row per evaluation of a finished run, and one (kind: absolute) for its absolute
    metric.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("suite", "task", "algorithm", "seed", "kind", "steps", "mean_return", "normalised_return")
    )
    for run in analysis.results.runs:
        task = analysis.tasks[run.task]
        who = (task.suite, run.task, run.label, run.seed)
        scores = normalise(run.returns, task.low, task.high)
        for steps, value, score in zip(run.steps, run.returns, scores, strict=True):
            writer.writerow((*who, "evaluation", int(steps), float(value), float(score)))
        absolute = normalise(run.returns[:1] * 0 + run.absolute, task.low, task.high)
        writer.writerow((*who, "absolute", int(run.steps[-1]), run.absolute, float(absolute[0])))
    return text.getvalue()
