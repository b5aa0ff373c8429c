"""Statistics against closed forms and against SciPy."""

import numpy as np
import pytest
import scipy.stats

from ratiosym.report import statistics
from ratiosym.report.statistics import (
    Estimate,
    generator,
    has_interval,
    interval,
    iqm,
    iqm_estimate,
    is_significant,
    mean_curve,
    mean_estimate,
    min_max,
    normalise,
    overlap,
    performance_profile,
    probability_of_improvement,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def draw(rng, sizes=(10, 10, 10), shift=0.0):
    """Scores of an algorithm on a few tasks."""
    return {f"task-{i}": rng.normal(shift + i, 1, size) for i, size in enumerate(sizes)}


# ---------------------------------------------------------------------------------- point estimates


def test_min_max_takes_everything_in():
    assert min_max([np.array([1.0, 2.0]), np.array([[3.0, -4.0]]), np.array([2.5])]) == (-4.0, 3.0)


def test_normalise():
    np.testing.assert_allclose(normalise(np.array([-4.0, 3.0, -0.5]), -4.0, 3.0), [0, 1, 0.5])
    assert normalise(np.array([2.0, 2.0]), 2.0, 2.0).tolist() == [0, 0]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 30, 101])
def test_iqm_is_scipys_trimmed_mean(rng, n):
    x = rng.normal(size=(6, n))
    np.testing.assert_allclose(iqm(x), scipy.stats.trim_mean(x, 0.25, axis=-1))


def test_iqm_of_a_list_that_anyone_can_count():
    assert iqm(np.array([100.0, 1, 2, 3, 4, 5, 6, -100])) == 3.5


def test_iqm_is_over_all_runs_of_all_tasks(rng):
    scores = draw(rng, (3, 8, 5))
    expected = scipy.stats.trim_mean(np.concatenate(list(scores.values())), 0.25)
    np.testing.assert_allclose(iqm_estimate(scores, rng).value, expected)


@pytest.mark.parametrize("sizes", [(10,), (3, 8, 5)])
def test_improvement_is_mann_whitneys(rng, sizes):
    """P(X > Y) + P(X = Y) / 2 is U / (N K)."""
    x, y = draw(rng, sizes, 0.3), draw(rng, sizes[::-1])
    x, y = (
        {task: np.round(s, 1) for task, s in scores.items()} for scores in (x, y)
    )  # so that there are ties
    us = [scipy.stats.mannwhitneyu(x[t], y[t]).statistic / (len(x[t]) * len(y[t])) for t in x]
    np.testing.assert_allclose(probability_of_improvement(x, y, rng).value, np.mean(us))


def test_improvement_at_its_ends(rng):
    low, high = {"a": np.arange(5.0), "b": np.zeros(4)}, {"a": np.arange(5.0) + 9, "b": np.ones(3)}
    assert probability_of_improvement(high, low, rng) == (1, 1, 1)
    assert probability_of_improvement(low, high, rng) == (0, 0, 0)
    ones = {"a": np.ones(4)}
    assert probability_of_improvement(ones, ones, rng) == (0.5, 0.5, 0.5)


def test_improvement_needs_the_same_tasks(rng):
    with pytest.raises(ValueError, match="must be of the same tasks"):
        probability_of_improvement({"a": np.ones(3)}, {"b": np.ones(3)}, rng)


def test_mean_curve_weighs_tasks_equally(rng):
    rows = {"a": np.array([[0.0, 1.0], [2.0, 3.0]]), "b": np.array([[10.0, 10.0]] * 3)}
    np.testing.assert_allclose(mean_curve(rows, rng).value, [5.5, 6.0])
    scores = {task: x[:, 0] for task, x in rows.items()}
    assert mean_estimate(scores, rng).value == 5.5


def test_a_score_at_the_threshold_is_not_above_it(rng):
    scores = {"task": np.array([0.0, 0.5, 1.0, 1.0])}
    found = performance_profile(scores, np.array([0.0, 0.5, 1.0]), rng)
    np.testing.assert_allclose(found.value, [0.75, 0.5, 0.0])


def test_profile_is_one_minus_the_distribution_function(rng):
    scores, thresholds = {"a": rng.normal(size=40)}, np.linspace(-3, 3, 25)
    expected = 1 - scipy.stats.ecdf(scores["a"]).cdf.evaluate(thresholds)
    curve = performance_profile(scores, thresholds, rng)
    np.testing.assert_allclose(curve.value, expected, atol=1e-12)
    assert (curve.low <= curve.value).all()
    assert (curve.value <= curve.high).all()


# ---------------------------------------------------------------------------------------- intervals


def test_interval_of_two_runs_is_known(rng):
    """Of 0 and 1 the resampled mean is 0, 1/2 or 1, with 1/4, 1/2 and 1/4."""
    assert mean_estimate({"a": np.array([0.0, 1.0])}, rng) == (0.5, 0, 1)


def test_interval_of_a_mean_is_that_of_the_normal_distribution(rng):
    """The bootstrap's standard error is the (biased) standard deviation over the root of n, in
    closed form.
    """
    x = rng.normal(size=200)
    found = mean_estimate({"a": x}, rng, 20_000)
    half = 1.96 * x.std() / np.sqrt(len(x))
    np.testing.assert_allclose(
        [found.low, found.high], [x.mean() - half, x.mean() + half], atol=0.05 * half
    )


def test_stratified_interval_in_closed_form(rng):
    """Runs are drawn within tasks, so what tasks differ by is no part of it: Var = 1/M² Σ_m σ_m² /
    N_m.
    """
    scores = {"a": rng.normal(0, 1, 100), "b": rng.normal(50, 2, 50), "c": rng.normal(-50, 1, 100)}
    half = 1.96 / 3 * np.sqrt(sum(x.var() / len(x) for x in scores.values()))
    found = mean_estimate(scores, rng, 20_000)
    np.testing.assert_allclose([found.value - found.low, found.high - found.value], half, rtol=0.06)


@pytest.mark.parametrize("n", [8, 30])
def test_interval_of_one_task_is_scipys(rng, n):
    x = rng.normal(size=n)
    found = iqm_estimate({"a": x}, rng, 20_000)
    other = scipy.stats.bootstrap(
        (x,),
        lambda s, axis: scipy.stats.trim_mean(s, 0.25, axis=axis),
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    np.testing.assert_allclose([found.low, found.high], [other.low, other.high], atol=0.05)


def test_improvement_interval_is_scipys(rng):
    x, y = rng.normal(0.5, 1, 12), rng.normal(0, 1, 9)

    def statistic(x, y, axis=-1):
        return (x[..., :, None] > y[..., None, :]).mean(axis=(-2, -1))

    found = probability_of_improvement({"a": x}, {"a": y}, rng, 20_000)
    other = scipy.stats.bootstrap(
        (x, y), statistic, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    np.testing.assert_allclose([found.low, found.high], [other.low, other.high], atol=0.02)


def test_curve_intervals_are_those_of_each_point(rng):
    rows = {"a": rng.normal(size=(10, 3)), "b": rng.normal(size=(6, 3))}
    curve = mean_curve(rows, rng, 20_000)
    for k in range(3):
        point = mean_estimate({task: x[:, k] for task, x in rows.items()}, rng, 20_000)
        np.testing.assert_allclose([c[k] for c in curve], point, atol=0.03)


def test_the_generator_decides_everything(rng):
    scores = draw(rng)
    first, again, other = (iqm_estimate(scores, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert first == again
    assert first.value == other.value
    assert first != other


def test_percentiles():
    low, high = interval(np.arange(1001.0)[:, None] * [1, 2])
    np.testing.assert_allclose([low, high], [[25, 50], [975, 1950]])


def test_an_estimate_knows_whether_it_has_an_interval():
    assert Estimate(0.5, 0.4, 0.6).has_interval
    assert not Estimate(0.5, np.nan, np.nan).has_interval


def test_both_sides_of_a_comparison_need_runs_enough(rng):
    """Ten runs against one: what the one would have been next time is not known."""
    many, one = draw(rng, (10,)), draw(rng, (1,))
    assert not probability_of_improvement(many, one, rng).has_interval
    assert not probability_of_improvement(one, many, rng).has_interval
    assert probability_of_improvement(many, many, rng).has_interval


def test_each_estimate_has_random_numbers_of_its_own():
    first = generator(0, "iqm", "mpe").normal(size=3)
    np.testing.assert_array_equal(first, generator(0, "iqm", "mpe").normal(size=3))
    for other in (generator(1, "iqm", "mpe"), generator(0, "iqm", "smax"), generator(0, "iqm")):
        assert not np.array_equal(first, other.normal(size=3))


def test_five_runs_are_enough():
    """Fewer are called rough in reports and drawn one by one in figures."""
    assert statistics.ENOUGH_RUNS == 5


@pytest.mark.parametrize("sizes", [(1,), (10, 1)])
def test_one_run_has_no_interval(rng, sizes):
    scores = draw(rng, sizes)
    assert not has_interval(scores)
    others = draw(rng, sizes)
    for found in (
        iqm_estimate(scores, rng),
        mean_estimate(scores, rng),
        probability_of_improvement(scores, others, rng),
    ):
        assert np.isfinite(found.value)
        assert not found.has_interval
        assert np.isnan([found.low, found.high]).all()
    curve = mean_curve({task: x[:, None] for task, x in scores.items()}, rng)
    assert np.isnan([curve.low, curve.high]).all()


def test_overlap():
    a, b, c = Estimate(0.5, 0.4, 0.6), Estimate(0.65, 0.6, 0.7), Estimate(0.8, 0.75, 0.9)
    assert overlap(a, b)
    assert overlap(b, a)
    assert not overlap(b, c)
    assert not overlap(c, a)
    assert overlap(Estimate(0.5, 0, 1), b)
    assert not overlap(a, Estimate(0.5, np.nan, np.nan))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((0.9, 0.8, 1.0), True),
        ((0.6, 0.5, 0.7), False),  # it contains 0.5
        ((0.6, 0.45, 0.7), False),
        ((0.5, 0.51, 0.6), False),  # a percentile interval need not contain the value
        ((0.1, 0.0, 0.2), False),  # significantly worse is no improvement
        ((0.9, np.nan, np.nan), False),
    ],
)
def test_significance(found, expected):
    assert is_significant(Estimate(*found)) is expected


# ----------------------------------------------------------------------------------------- coverage


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iqm", "mean", "improvement"])
def test_intervals_cover_at_their_rate(kind):
    """Of 600 intervals about 95% hold the truth; percentile intervals of 40 runs a task miss a
    little more.
    """
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(600):
        scores = {"a": rng.normal(0, 1, 40), "b": rng.normal(0, 1, 40)}
        if kind == "improvement":
            others = {"a": rng.normal(-0.5, 1, 40), "b": rng.normal(-0.5, 1, 40)}
            found = probability_of_improvement(scores, others, rng, 1000)
            truth = scipy.stats.norm.cdf(0.5 / np.sqrt(2))
        else:
            estimate = iqm_estimate if kind == "iqm" else mean_estimate
            found, truth = estimate(scores, rng, 1000), 0.0
        hits += found.low <= truth <= found.high
    assert 0.915 < hits / 600 < 0.975


def test_intervals_of_few_runs_are_too_narrow():
    """What the report says of fewer than five runs: of three, an interval that claims 95% holds the
    truth far less.
    """
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(300):
        found = mean_estimate({"a": rng.normal(size=3)}, rng, 500)
        hits += found.low <= 0 <= found.high
    assert 0.6 < hits / 300 < 0.85
    assert statistics.ENOUGH_RUNS > 3
