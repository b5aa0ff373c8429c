"""The numbers of a study, computed once for its tables, figures and page."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ratiosym.envs.suites import SUITES, suite_of
from ratiosym.objectives import get_objective
from ratiosym.report import statistics
from ratiosym.report.response import Region, response_of
from ratiosym.report.results import RATIOS, RunResult, StudyResults
from ratiosym.report.statistics import Curve, Estimate, generator

THRESHOLDS = np.linspace(0, 1, 101)  # of the performance profile
MOST_POINTS = 120  # of a curve of ratios, as a run may have thousands of updates
ALL = "all"  # name of all suites together
TOO_SHORT = 10_000  # environment steps, in which nothing can be learned


class Series(NamedTuple):
    """A curve over environment steps."""

    steps: Float[np.ndarray, "N"]
    curve: Curve


@dataclass(frozen=True)
class TaskNumbers:
    """Numbers of one task, with returns that are not normalised."""

    name: str
    suite: str
    low: float  # of min-max
    high: float
    absolute: dict[str, Estimate]  # by algorithm: mean over runs of the absolute metric
    returns: dict[str, Series]
    ratios: dict[str, dict[str, Series]]  # ratio_max, ratio_min


@dataclass(frozen=True)
class SuiteNumbers:
    """Normalised scores of one suite, over tasks that all its algorithms have finished."""

    name: str
    title: str
    tasks: tuple[str, ...]
    scores: dict[str, Estimate]  # by algorithm: IQM (Table 1)
    improvement: dict[str, Estimate]  # P(reference > algorithm)
    returns: dict[str, Series]

    @property
    def best(self) -> str | None:
        """Algorithm with the highest score."""
        return max(self.scores, key=lambda label: self.scores[label].value) if self.scores else None

    def is_best(self, label: str) -> bool:
        """Whether a score equals the highest one in the two digits shown."""
        return self.best is not None and shown(self.scores[label].value) == shown(
            self.scores[self.best].value
        )

    def has_star(self, label: str) -> bool:
        """Whether its interval overlaps that of the highest score, or for that one, any other."""
        others = (
            [other for other in self.scores if other != self.best]
            if label == self.best
            else [self.best]
        )
        return any(
            statistics.overlap(self.scores[label], self.scores[o]) for o in others if o is not None
        )


@dataclass(frozen=True)
class Analysis:
    """Numbers of the whole study."""

    results: StudyResults
    titles: dict[str, str]  # of the algorithms
    reference: str  # the algorithm that the others are compared with
    suites: dict[str, SuiteNumbers]
    overall: SuiteNumbers  # all suites together
    profile: dict[str, Curve]  # over THRESHOLDS
    tasks: dict[str, TaskNumbers]
    verdicts: dict[str, str]  # by suite: one sentence about the reference
    response: tuple[Region, ...]  # returns by trust region, if the study or its searches vary it
    notes: tuple[str, ...]


def shown(value: float) -> str:
    """Format a score as in the tables."""
    return f"{value:.2f}"


def analyse(
    results: StudyResults, seed: int = 0, searches: Sequence[str | os.PathLike[str]] = ()
) -> Analysis:
    """Compute all numbers of a study.

    The random numbers of the bootstrap depend on the seed and on what is estimated. ``searches``
    are further directories that vary the trust region.
    """
    titles = {
        a.label: get_objective(a.objective).title if a.label == a.objective else a.label
        for a in results.algorithms
    }
    reference = find_reference(results)
    order = [*SUITES, *sorted({suite_of(task).name for task in results.tasks} - set(SUITES))]
    finished = {run.task for run in results.runs}
    names = sorted(
        (t for t in results.tasks if t in finished), key=lambda t: order.index(suite_of(t).name)
    )
    tasks = {task: task_numbers(results, task, seed) for task in names}
    suites = {
        name: suite_numbers(
            results, name, [t for t in tasks.values() if t.suite == name], reference, seed
        )
        for name in dict.fromkeys(t.suite for t in tasks.values())
    }
    overall = suite_numbers(results, ALL, list(tasks.values()), reference, seed)
    scores = normalised_scores(results, [tasks[name] for name in overall.tasks], overall.scores)
    profile = {
        label: statistics.performance_profile(x, THRESHOLDS, generator(seed, "profile", label))
        for label, x in scores.items()
    }
    verdicts = {s.name: verdict(s, reference, titles) for s in suites.values() if s.improvement}
    response = response_of(results, searches, seed)
    notes = tuple(notes_on(results, suites, tasks, titles))
    return Analysis(
        results, titles, reference, suites, overall, profile, tasks, verdicts, response, notes
    )


def find_reference(results: StudyResults) -> str:
    """Return MARS if the study has it, else the plan's first algorithm."""
    algorithms = results.algorithms
    named = [a.label for a in algorithms if a.label == "mars"] + [
        a.label for a in algorithms if a.objective == "mars"
    ]
    return (named or [algorithms[0].label])[0]


# -------------------------------------------------------------------------------------------- tasks


def task_numbers(results: StudyResults, task: str, seed: int) -> TaskNumbers:
    """Compute the curves, absolute metrics and range of one task."""
    runs = [run for run in results.runs if run.task == task]
    labels = [a.label for a in results.algorithms if results.of(task, a.label)]
    low, high = statistics.min_max(
        [*(r.returns for r in runs), np.array([r.absolute for r in runs])]
    )
    end = min(run.steps[-1] for run in runs)
    absolute, returns = {}, {}
    ratios: dict[str, dict[str, Series]] = {name: {} for name in RATIOS}
    for label in labels:
        own = results.of(task, label)
        scores = np.array([run.absolute for run in own])
        absolute[label] = statistics.mean_estimate(
            {task: scores}, generator(seed, "absolute", task, label)
        )
        steps = common_steps(own, end)
        rows = {task: on_steps(own, steps)}
        returns[label] = Series(
            steps, statistics.mean_curve(rows, generator(seed, "returns", task, label))
        )
        for name in RATIOS:
            ratios[name][label] = ratio_series(own, name, end, generator(seed, name, task, label))
    return TaskNumbers(task, suite_of(task).name, low, high, absolute, returns, ratios)


def common_steps(runs: Sequence[RunResult], end: float) -> Float[np.ndarray, "N"]:
    """Return the evaluation steps of the first run, up to the end of the shortest."""
    start = max(run.steps[0] for run in runs)
    steps = runs[0].steps
    return steps[(steps >= start) & (steps <= end)]


def on_steps(
    runs: Iterable[RunResult], steps: Float[np.ndarray, "N"]
) -> Float[np.ndarray, "runs N"]:
    """Return the returns at these steps, interpolated if a run was evaluated at others."""
    return np.stack([np.interp(steps, run.steps, run.returns) for run in runs])


def ratio_series(
    runs: Sequence[RunResult], name: str, end: float, rng: np.random.Generator
) -> Series:
    """Compute the largest (or smallest) ratio over training, as the geometric mean over runs.

    Training is divided into at most ``MOST_POINTS`` intervals, and the extreme of each is used, so
    that single spikes stay visible. Ratios are clipped to 1e-12 and 1e12, as in
    ``figures.ratios_figure``.
    """
    num = min(MOST_POINTS, *((run.training["steps"] <= end).sum() for run in runs))
    if num == 0:
        return Series(np.zeros(0), Curve(*[np.zeros(0)] * 3))
    edges = np.linspace(0, end, int(num) + 1)
    rows = np.stack([np.log(np.clip(extremes(run, name, edges), 1e-12, 1e12)) for run in runs])
    curve = statistics.mean_curve({name: rows}, rng)
    return Series(edges[1:], Curve(*map(np.exp, curve)))


def extremes(run: RunResult, name: str, edges: Float[np.ndarray, "K"]) -> Float[np.ndarray, "K-1"]:
    """Return the extreme of each interval (edge, next edge] of a run's training.

    An interval without an update takes the value of the next one.
    """
    steps, values = run.training["steps"], run.training[name]
    pick = np.fmax if name == "ratio_max" else np.fmin
    bounds = np.searchsorted(steps, edges, side="right")
    starts = np.minimum(bounds[:-1], len(steps) - 1)
    return np.array(
        [pick.reduce(values[a : max(b, a + 1)]) for a, b in zip(starts, bounds[1:], strict=True)],
    )


# ------------------------------------------------------------------------------------------- suites


def suite_numbers(
    results: StudyResults, name: str, tasks: Sequence[TaskNumbers], reference: str, seed: int
) -> SuiteNumbers:
    """Aggregate over the tasks that all algorithms of a suite have finished."""
    labels = [
        a.label for a in results.algorithms if any(a.label in task.absolute for task in tasks)
    ]
    # Averages over different tasks would not be comparable.
    shared = [task for task in tasks if all(label in task.absolute for label in labels)]
    title = "All tasks" if name == ALL else suite_of(name).title
    if not shared:
        return SuiteNumbers(name, title, (), {}, {}, {})
    scores = normalised_scores(results, shared, labels)
    estimates = {
        label: statistics.iqm_estimate(scores[label], generator(seed, "iqm", name, label))
        for label in labels
    }
    improvement = {
        label: statistics.probability_of_improvement(
            scores[reference], scores[label], generator(seed, "improvement", name, label)
        )
        for label in labels
        if reference in labels and label != reference
    }
    returns = {
        label: suite_curve(results, shared, label, generator(seed, "suite", name, label))
        for label in labels
    }
    return SuiteNumbers(name, title, tuple(t.name for t in shared), estimates, improvement, returns)


def normalised_scores(
    results: StudyResults, tasks: Sequence[TaskNumbers], labels: Iterable[str]
) -> dict[str, dict[str, Float[np.ndarray, "_"]]]:
    """Return the min-max normalised absolute metrics by algorithm and task."""

    def scores(task: TaskNumbers, label: str) -> Float[np.ndarray, "runs"]:
        absolute = np.array([run.absolute for run in results.of(task.name, label)])
        return statistics.normalise(absolute, task.low, task.high)

    return {label: {task.name: scores(task, label) for task in tasks} for label in labels}


def suite_curve(
    results: StudyResults, tasks: Sequence[TaskNumbers], label: str, rng: np.random.Generator
) -> Series:
    """Compute the mean normalised return over tasks and runs, up to the end of the shortest."""
    names = [task.name for task in tasks]
    end = min(run.steps[-1] for run in results.runs if run.task in names)
    own = {task.name: results.of(task.name, label) for task in tasks}
    steps = common_steps([run for runs in own.values() for run in runs], end)
    rows = {
        t.name: statistics.normalise(on_steps(own[t.name], steps), t.low, t.high) for t in tasks
    }
    return Series(steps, statistics.mean_curve(rows, rng))


# ----------------------------------------------------------------------------------------- verdicts


def verdict(suite: SuiteNumbers, reference: str, titles: Mapping[str, str]) -> str:
    """Say in one sentence whether the reference is better or worse than the others, or neither."""
    found = [compare(found, titles[label]) for label, found in suite.improvement.items()]
    text = ", ".join(found[:-1]) + (" and " if len(found) > 1 else "") + found[-1]
    return f"On {suite.title} {titles[reference]} {text}."


def compare(improvement: Estimate, other: str) -> str:
    """Compare the reference to another algorithm, with the probability and its interval."""
    value, low, high = map(shown, improvement)
    if not improvement.has_interval:
        return f"has P = {value} against {other}, from too few runs for an interval"
    numbers = f"(P = {value}, 95% interval {low} to {high})"
    if statistics.is_significant(improvement):
        return f"is better than {other} {numbers}"
    if improvement.value < 0.5 and improvement.high < 0.5:
        return f"is worse than {other} {numbers}"
    return f"is not clearly different from {other} {numbers}"


# -------------------------------------------------------------------------------------------- notes


def notes_on(
    results: StudyResults,
    suites: Mapping[str, SuiteNumbers],
    tasks: Mapping[str, TaskNumbers],
    titles: Mapping[str, str],
) -> Iterable[str]:
    """Yield sentences that a reader has to know in addition to the numbers."""
    yield from notes_on_runs(results, titles)
    for suite in suites.values():
        left_out = [
            t.name for t in tasks.values() if t.suite == suite.name and t.name not in suite.tasks
        ]
        if left_out:
            yield (
                f"{suite.title} is compared without {', '.join(left_out)}: not every algorithm of "
                f"the study has a "
                f"finished run there."
            )
    for task in tasks.values():
        ends = {run.steps[-1] for run in results.runs if run.task == task.name}
        if len(ends) > 1:
            yield (
                f"Runs on {task.name} end at {min(ends):,.0f} to {max(ends):,.0f} steps: curves go "
                f"as far as all of "
                f"them reach; the absolute metric is that of each run's own budget."
            )
    flat = [task.name for task in tasks.values() if task.low == task.high]
    if flat:
        yield f"All returns on {', '.join(flat)} are equal: the normalised score is 0 for everyone."


def notes_on_runs(results: StudyResults, titles: Mapping[str, str]) -> Iterable[str]:
    """Yield sentences on the number of runs and on differences between them."""
    tiny = [run.steps[-1] for run in results.runs if run.config.steps <= TOO_SHORT]
    if tiny:
        yield (
            f"Runs of {max(tiny):,.0f} environment steps prove nothing about an algorithm: they "
            f"show that everything works."
        )
    counts = {(r.task, r.label): len(results.of(r.task, r.label)) for r in results.runs}
    fewest, most = min(counts.values()), max(counts.values())
    if most < statistics.FEWEST_RUNS:
        yield (
            "One seed only: no interval is possible, since a single run says nothing about how "
            "much runs differ."
        )
    elif fewest < statistics.FEWEST_RUNS:
        alone = [f"{titles[label]} on {task}" for (task, label), num in counts.items() if num == 1]
        yield f"Only one run of {', '.join(alone)}: where it counts there is no interval."
    if most >= statistics.FEWEST_RUNS and fewest < statistics.ENOUGH_RUNS:
        few = max(fewest, statistics.FEWEST_RUNS)
        yield (
            f"Intervals of fewer than {statistics.ENOUGH_RUNS} runs (here {few}) are rough: most "
            f"are too narrow."
        )
    if fewest != most:
        yield (
            f"Numbers of finished runs differ ({fewest} to {most}): those with more weigh more in "
            f"the IQM."
        )
    if results.absent:
        total = len(results.runs) + len(results.absent)
        yield (
            f"{len(results.absent)} of {total} planned runs are not part of the comparison; they "
            f"are listed."
        )
    departures = sorted({name for run in results.runs for name in run.departures})
    if departures:
        num = sum(bool(run.departures) for run in results.runs)
        yield (
            f"Runs with other settings than the plan's ({', '.join(departures)}): {num} of "
            f"{len(results.runs)}."
        )
    commits = sorted({run.commit or "an installed package" for run in results.runs})
    if len(commits) > 1:
        yield f"Runs were made at {len(commits)} different commits: {', '.join(commits)}."
    versions = {tuple(sorted((k, str(v)) for k, v in run.versions.items())) for run in results.runs}
    if len(versions) > 1:
        names = sorted(
            {k for v in versions for k, x in v if any((k, x) not in other for other in versions)}
        )
        yield f"Runs were made with different versions of {', '.join(names)}."
