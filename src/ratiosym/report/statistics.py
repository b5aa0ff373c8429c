"""Statistics of few runs on several tasks, with confidence intervals.

They follow Agarwal et al. 2021 ("Deep RL at the edge of the statistical precipice") and Gorsane et
al. 2022 ("Towards a standardised performance evaluation protocol for cooperative MARL").

The scores of an algorithm are a mapping from tasks to one number (or one row) per run; tasks may
have different numbers of runs. Intervals are percentiles of a bootstrap stratified by task: runs
are resampled with replacement within each task. All randomness comes from the generator that is
passed in.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# By task; the numbers of runs may differ.
Scores = Mapping[str, Float[np.ndarray, "_"]]
Rows = Mapping[str, Float[np.ndarray, "_ N"]]

RESAMPLES = 10_000  # makes two digits of an interval's ends stable between seeds
CURVE_RESAMPLES = 2_000  # per point of a curve
LEVEL = 0.95
FEWEST_RUNS = 2  # for any interval, as one run says nothing about the next
ENOUGH_RUNS = 5  # intervals of fewer runs are rough


class Estimate(NamedTuple):
    """A number and its 95% interval; without an interval, both ends are NaN."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        """Whether there were enough runs for an interval."""
        return bool(np.isfinite(self.low))


class Curve(NamedTuple):
    """A number per point and its 95% interval; without an interval, both ends are NaN."""

    value: Float[np.ndarray, "N"]
    low: Float[np.ndarray, "N"]
    high: Float[np.ndarray, "N"]


# -------------------------------------------------------------------------------------- normalising


def min_max(values: Iterable[Float[np.ndarray, "..."]]) -> tuple[float, float]:
    """Return the range of a task over all algorithms, runs, evaluations and absolute metrics."""
    flat = np.concatenate([np.ravel(x) for x in values])
    return float(flat.min()), float(flat.max())


def normalise(values: Float[np.ndarray, "*b"], low: float, high: float) -> Float[np.ndarray, "*b"]:
    """Return min-max normalised scores in [0, 1].

    z = (x − low) / (high − low)                                       (Gorsane et al. 2022)

    If all values of a task are equal, nothing has been learned, and all scores are 0.
    """
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


# -------------------------------------------------------------------------------------- aggregating


def iqm(scores: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b"]:
    """Return the interquartile mean over the last axis: without the lowest and highest quarter.

    IQM = 1 / (n − 2k) · Σ_{i=k+1}^{n−k} x_(i),  k = ⌊n / 4⌋           (Agarwal et al. 2021)
    """
    n = scores.shape[-1]
    k = n // 4
    return np.asarray(np.sort(scores, axis=-1)[..., k : n - k].mean(axis=-1))


def iqm_estimate(
    scores: Scores, rng: np.random.Generator, num_resamples: int = RESAMPLES
) -> Estimate:
    """Estimate the IQM over runs and tasks, with a stratified bootstrap interval (Table 1)."""
    value = float(iqm(np.concatenate(list(scores.values()))))
    if not has_interval(scores):
        return Estimate(value, np.nan, np.nan)
    drawn = [
        x[rng.integers(len(x), size=(num_resamples, len(x)))] for x in scores.values()
    ]  # [B, runs] each
    return Estimate(value, *map(float, interval(iqm(np.concatenate(drawn, axis=-1)))))


def mean_curve(rows: Rows, rng: np.random.Generator, num_resamples: int = CURVE_RESAMPLES) -> Curve:
    """Return the mean over tasks of the mean over runs per point, with a bootstrap interval.

    m = 1/M Σ_m 1/N_m Σ_n x_{m,n}
    """
    value = np.mean([x.mean(axis=0) for x in rows.values()], axis=0)  # [N]
    if not has_interval(rows):
        nothing = np.full_like(value, np.nan)
        return Curve(value, nothing, nothing)
    means = [_weights(len(x), rng, num_resamples) @ x for x in rows.values()]  # [B, N] each
    return Curve(value, *interval(np.mean(means, axis=0)))


def mean_estimate(
    scores: Scores, rng: np.random.Generator, num_resamples: int = RESAMPLES
) -> Estimate:
    """Estimate the mean over tasks of the mean over runs, with a stratified bootstrap interval."""
    curve = mean_curve({task: x[:, None] for task, x in scores.items()}, rng, num_resamples)
    return Estimate(*(float(x[0]) for x in curve))


def probability_of_improvement(
    x: Scores, y: Scores, rng: np.random.Generator, num_resamples: int = RESAMPLES
) -> Estimate:
    """Return the probability that a run of X is better than one of Y on a random task.

    P(X > Y) = 1/M Σ_m 1/(N K) Σ_{i,j} S(x_{m,i}, y_{m,j}),            (Agarwal et al. 2021)
    S = 1, 1/2, 0 for >, =, <

    The runs of both algorithms are resampled independently.
    """
    if x.keys() != y.keys():
        raise ValueError(
            f"X has scores on {sorted(x)}, Y on {sorted(y)}; they must be of the same tasks."
        )
    better = {task: 0.5 * (1 + np.sign(x[task][:, None] - y[task])) for task in x}  # [N, K] each
    value = float(np.mean([s.mean() for s in better.values()]))
    if not (has_interval(x) and has_interval(y)):
        return Estimate(value, np.nan, np.nan)
    drawn = []
    for s in better.values():
        of_x, of_y = (_weights(num, rng, num_resamples) for num in s.shape)  # [B, N], [B, K]
        drawn.append(((of_x @ s) * of_y).sum(axis=-1))
    return Estimate(value, *map(float, interval(np.mean(drawn, axis=0))))


def performance_profile(
    scores: Scores,
    thresholds: Float[np.ndarray, "N"],
    rng: np.random.Generator,
    num_resamples: int = CURVE_RESAMPLES,
) -> Curve:
    """Return the fraction of runs above each threshold, with a stratified bootstrap interval.

    F(τ) = 1/M Σ_m 1/N_m Σ_n 1[x_{m,n} > τ]                            (Agarwal et al. 2021)
    """
    above = {task: (x[:, None] > thresholds).astype(float) for task, x in scores.items()}
    return mean_curve(above, rng, num_resamples)


# ---------------------------------------------------------------------------------------- intervals


def has_interval(rows: Mapping[str, Float[np.ndarray, "_ ..."]]) -> bool:
    """Whether every task has enough runs for resampling."""
    return all(len(x) >= FEWEST_RUNS for x in rows.values())


def interval(
    drawn: Float[np.ndarray, "B *k"],
) -> tuple[Float[np.ndarray, "*k"], Float[np.ndarray, "*k"]]:
    """Return the percentile interval of bootstrap samples."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return np.asarray(low), np.asarray(high)


def overlap(a: Estimate, b: Estimate) -> bool:
    """Whether two intervals overlap; False if one of them is missing."""
    return a.low <= b.high and b.low <= a.high


def is_significant(improvement: Estimate) -> bool:
    """Whether P(X > Y) is above 0.5 and its interval excludes 0.5 (the paper's Figure 2)."""
    return improvement.value > 0.5 and improvement.low > 0.5


def generator(seed: int, *what: str) -> np.random.Generator:
    """Return the random generator of one estimate, which does not depend on any other estimate."""
    return np.random.default_rng([seed, *"/".join(what).encode()])


def _weights(num: int, rng: np.random.Generator, num_resamples: int) -> Float[np.ndarray, "B num"]:
    """Return the fraction of draws of each run, so that resampled means are a matrix product."""
    return rng.multinomial(num, np.full(num, 1 / num), size=num_resamples) / num
