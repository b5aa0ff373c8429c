"""The numbers of studies whose answer is known."""

import dataclasses
import shutil

import numpy as np
import pytest

from ratiosym.envs.suites import SUITES
from ratiosym.envs.tasks import TASKS
from ratiosym.report.analysis import SuiteNumbers, analyse, verdict
from ratiosym.report.results import load
from ratiosym.report.statistics import Estimate
from ratiosym.runs.files import read_json, write_json
from ratiosym.runs.tables import write_table
from tests.report.studies import final_return, make_plan, write_run, write_study


def of(tmp_path, plan, **options):
    return analyse(load(write_study(tmp_path, plan, **options)))


def test_every_suite_has_a_title():
    assert set(SUITES) == {task.suite.name for task in TASKS.values()}
    assert len(SUITES) == 8


def test_min_max_covers_evaluations_and_absolute_metrics(tmp_path):
    """Curves go from 0 to 0.94; the absolute metric of one algorithm is beyond both ends."""
    ends = {"mars": 2.0, "mappo": 1.0, "maspo": -2.0}
    numbers = of(tmp_path, make_plan(), absolute=lambda task, label, seed: ends[label])
    task = numbers.tasks["mpe-spread-3ag"]
    assert (task.low, task.high) == (-2.0, 2.0)
    suite = numbers.suites["mpe"]
    assert {label: e.value for label, e in suite.scores.items()} == {
        "mars": 1.0,
        "mappo": 0.75,
        "maspo": 0.0,
    }
    np.testing.assert_allclose(
        suite.returns["mars"].curve.value[0], 0.5
    )  # a return of 0 lies half way


def test_scores_of_a_suite(analysis):
    """Absolute metrics are 0.9, 0.92, 0.94 (MARS) and so on, on a scale from 0 to 0.94: without the
    outer ones, ...
    """
    suite = analysis.suites["connector"]
    assert suite.title == "Connector"
    assert suite.tasks == ("connector-5x5x3a",)
    for label, middle in (("mars", 0.92), ("mappo", 0.72), ("maspo", 0.52)):
        found = suite.scores[label]
        assert found.value == pytest.approx(middle / 0.94)  # three runs: a quarter of three is none
        assert found.low == pytest.approx((middle - 0.02) / 0.94)
        assert found.high == pytest.approx((middle + 0.02) / 0.94)
    assert suite.improvement == {"mappo": (1, 1, 1), "maspo": (1, 1, 1)}
    assert analysis.reference == "mars"


def test_curves_of_a_suite(analysis):
    steps, curve = analysis.suites["mpe"].returns["mappo"]
    np.testing.assert_allclose(steps, [512 * k // 6 for k in range(7)])
    np.testing.assert_allclose(curve.value, 0.72 / 0.94 * np.arange(7) / 6)
    assert (curve.low[1:] < curve.value[1:]).all()


def test_profile(analysis):
    """Nine scores: three each at about 0.98, 0.77 and 0.55."""
    value = analysis.profile["mappo"].value
    assert value[0] == value[70] == 1
    assert value[80] == value[-1] == 0
    assert 0 < value[77] < 1


def test_ratios_keep_their_extremes(analysis):
    """24 updates with ratios of 1 + k / 10 and exp(-k / 10), equal in all runs."""
    steps, curve = analysis.tasks["mpe-spread-3ag"].ratios["ratio_max"]["mars"]
    assert len(steps) == 24
    np.testing.assert_allclose(curve.value, 1 + 0.1 * np.arange(1, 25))
    low = analysis.tasks["mpe-spread-3ag"].ratios["ratio_min"]["mars"].curve.value
    np.testing.assert_allclose(low, np.exp(-0.1 * np.arange(1, 25)))


def test_ratios_of_runs_are_averaged_geometrically(tmp_path):
    """A ratio of 4 and one of 1/4 are equally far from 1: on average neither."""
    plan = make_plan(tasks=("mpe-spread-3ag",), labels=("mars",), seeds=2)
    write_study(tmp_path, plan)
    for seed, ratio in enumerate((4.0, 0.25)):
        path = tmp_path / f"runs/mpe-spread-3ag/mars/seed-{seed}/training.csv"
        rows = [
            {"update": k, "steps": 128 * k, "ratio_min": ratio, "ratio_max": ratio} for k in (1, 2)
        ]
        write_table(path, rows)
    ratios = analyse(load(tmp_path)).tasks["mpe-spread-3ag"].ratios
    for name in ("ratio_max", "ratio_min"):
        np.testing.assert_allclose(ratios[name]["mars"].curve.value, [1, 1])  # not 2.125
        np.testing.assert_allclose(ratios[name]["mars"].curve.low, [0.25, 0.25])


def test_scores_are_interquartile_means(tmp_path):
    """Of four runs the best and the worst do not count."""
    plan = make_plan(tasks=("mpe-spread-3ag",), labels=("mars", "mappo"), seeds=4)
    of_run = {"mars": (0.0, 0.1, 0.3, 10.0), "mappo": (5.0, 5.0, 5.0, 5.0)}
    numbers = of(tmp_path, plan, final=lambda task, label, seed: of_run[label][seed])
    assert numbers.suites["mpe"].scores["mars"].value == pytest.approx(0.02)  # a mean has 0.26
    assert numbers.overall.scores["mars"].value == pytest.approx(0.02)
    assert numbers.suites["mpe"].scores["mappo"].value == pytest.approx(0.5)


def test_long_training_is_drawn_in_stretches(tmp_path):
    numbers = of(
        tmp_path, make_plan(tasks=("mpe-spread-3ag",), labels=("mars",), seeds=2), updates=512
    )
    steps, curve = numbers.tasks["mpe-spread-3ag"].ratios["ratio_max"]["mars"]
    assert len(steps) == 120
    assert curve.value[-1] == pytest.approx(
        1 + 0.1 * 512
    )  # the last update's, not a mean over the last ones
    np.testing.assert_allclose(curve.value, 1 + 0.1 * np.floor(steps))
    steps, curve = numbers.tasks["mpe-spread-3ag"].ratios["ratio_min"]["mars"]
    np.testing.assert_allclose(curve.value, np.maximum(np.exp(-0.1 * np.floor(steps)), 1e-12))


def test_more_tasks_are_pooled(tmp_path):
    tasks = ("connector-5x5x3a", "connector-7x7x5a", "smax-2s3z")
    numbers = of(tmp_path, make_plan(tasks=tasks))
    assert list(numbers.suites) == ["smax", "connector"]  # the order of Figure 2
    assert list(numbers.tasks) == ["smax-2s3z", "connector-5x5x3a", "connector-7x7x5a"]
    assert numbers.suites["connector"].tasks == tasks[:2]
    assert numbers.overall.tasks == ("smax-2s3z", *tasks[:2])
    assert set(numbers.overall.improvement) == {"mappo", "maspo"}


def test_the_seed_decides_the_intervals_and_nothing_else(study):
    first, again, other = (analyse(load(study), seed) for seed in (0, 0, 5))
    assert first.suites["mpe"].scores == again.suites["mpe"].scores
    values = [[e.value for e in a.suites["mpe"].scores.values()] for a in (first, other)]
    assert values[0] == values[1]


def test_an_estimate_does_not_depend_on_what_else_is_estimated(tmp_path):
    def noisy(task, label, seed):
        return float(np.random.default_rng([seed, *task.encode(), *label.encode()]).normal())

    small = of(tmp_path / "small", make_plan(tasks=("mpe-spread-3ag",)), final=noisy)
    large = of(tmp_path / "large", make_plan(), final=noisy)
    assert small.suites["mpe"].scores == large.suites["mpe"].scores


def test_the_reference_is_mars_or_else_the_first(tmp_path):
    plans = {
        "mars": make_plan(labels=("mappo", "mars"), seeds=1),
        "wide": make_plan(labels=("mappo", ("wide", "mars")), seeds=1),
        "maspo": make_plan(labels=("maspo", "mappo"), seeds=1),
    }
    for reference, plan in plans.items():
        numbers = of(tmp_path / reference, plan)
        assert numbers.reference == reference
        assert set(numbers.suites["mpe"].improvement) == {a.label for a in plan.algorithms} - {
            reference
        }
    assert of(tmp_path / "wide", plans["wide"]).titles == {"mappo": "MAPPO", "wide": "wide"}


# ----------------------------------------------------------------------------------- bold and stars


def suite(**scores):
    return SuiteNumbers(
        "mpe", "MPE", ("mpe-spread-3ag",), {k: Estimate(*v) for k, v in scores.items()}, {}, {}
    )


def test_stars_are_for_overlap_with_the_best():
    rows = suite(a=(0.9, 0.85, 0.95), b=(0.84, 0.8, 0.86), c=(0.7, 0.6, 0.8))
    assert [rows.has_star(x) for x in "abc"] == [True, True, False]
    assert [rows.is_best(x) for x in "abc"] == [True, False, False]


def test_the_best_has_no_star_where_nothing_overlaps_it():
    """The others overlap each other: that is no business of the best."""
    rows = suite(a=(0.9, 0.88, 0.95), b=(0.84, 0.8, 0.86), c=(0.83, 0.8, 0.85))
    assert [rows.has_star(x) for x in "abc"] == [False, False, False]


def test_what_looks_equal_is_bold_too():
    """As in the paper's Table 1: Connector has two bold 0.95."""
    rows = suite(a=(0.9501, 0.9480, 0.9520), b=(0.9530, 0.9500, 0.9540), c=(0.93, 0.92, 0.935))
    assert [rows.is_best(x) for x in "abc"] == [True, True, False]
    assert [rows.has_star(x) for x in "abc"] == [True, True, False]


def test_without_intervals_there_are_no_stars():
    nan = float("nan")
    rows = suite(a=(0.9, nan, nan), b=(0.9, nan, nan))
    assert [rows.has_star(x) for x in "ab"] == [False, False]


# -------------------------------------------------------------------------------------------- notes


def told(analysis, *parts):
    return any(all(part in note for part in parts) for note in analysis.notes)


def test_one_seed_has_no_interval(tmp_path):
    numbers = of(tmp_path, make_plan(seeds=1))
    assert told(numbers, "One seed only: no interval is possible")
    assert not any(e.has_interval for e in numbers.suites["mpe"].scores.values())
    assert numbers.suites["mpe"].scores["mars"].value == 1.0
    assert len(numbers.notes) == 2  # and that the runs are too short


@pytest.mark.parametrize(("seeds", "expected"), [(2, True), (4, True), (5, False)])
def test_few_seeds_are_rough(tmp_path, seeds, expected):
    numbers = of(tmp_path, make_plan(seeds=seeds))
    assert told(numbers, "are rough") is expected
    assert len(numbers.notes) == 1 + expected  # the first: they are too short


def test_missing_runs_are_told_and_the_rest_is_compared(study, tmp_path):
    copy = shutil.copytree(study, tmp_path / "study")
    shutil.rmtree(copy / "runs/mpe-spread-3ag/maspo/seed-1")
    numbers = analyse(load(copy))
    assert told(numbers, "1 of 18 planned runs are not part of the comparison")
    assert told(numbers, "Numbers of finished runs differ (2 to 3)")
    assert numbers.suites["mpe"].scores["maspo"].value == pytest.approx(0.52 / 0.94)
    assert numbers.suites["mpe"].scores["maspo"].has_interval


def test_one_run_of_one_algorithm(study, tmp_path):
    copy = shutil.copytree(study, tmp_path / "study")
    for seed in (1, 2):
        shutil.rmtree(copy / f"runs/mpe-spread-3ag/maspo/seed-{seed}")
    numbers = analyse(load(copy))
    assert told(
        numbers, "Only one run of MASPO on mpe-spread-3ag: where it counts there is no interval"
    )
    assert not numbers.suites["mpe"].scores["maspo"].has_interval
    assert numbers.suites["mpe"].scores["mars"].has_interval
    assert not numbers.suites["mpe"].improvement["maspo"].has_interval


def test_a_task_that_not_all_have_finished_is_left_out_of_its_suite(tmp_path):
    write_study(tmp_path, make_plan(tasks=("connector-5x5x3a", "connector-7x7x5a")))
    shutil.rmtree(tmp_path / "runs/connector-7x7x5a/mappo")
    numbers = analyse(load(tmp_path))
    assert numbers.suites["connector"].tasks == ("connector-5x5x3a",)
    assert told(numbers, "Connector is compared without connector-7x7x5a")
    assert set(numbers.tasks["connector-7x7x5a"].returns) == {
        "mars",
        "maspo",
    }  # its own curves are there


def test_an_algorithm_without_a_run_does_not_stop_the_others(tmp_path):
    write_study(tmp_path, make_plan())
    for task in make_plan().tasks:
        shutil.rmtree(tmp_path / "runs" / task / "mars")
    numbers = analyse(load(tmp_path))
    assert set(numbers.suites["mpe"].scores) == {"mappo", "maspo"}
    assert numbers.suites["mpe"].improvement == {}


def test_nothing_in_common(tmp_path):
    write_study(
        tmp_path,
        make_plan(tasks=("connector-5x5x3a", "connector-7x7x5a"), labels=("mars", "mappo")),
    )
    shutil.rmtree(tmp_path / "runs/connector-5x5x3a/mars")
    shutil.rmtree(tmp_path / "runs/connector-7x7x5a/mappo")
    numbers = analyse(load(tmp_path))
    assert numbers.suites["connector"].scores == {}
    assert told(numbers, "Connector is compared without connector-5x5x3a, connector-7x7x5a")


def test_runs_of_unequal_length_are_compared_as_far_as_all_reach(tmp_path):
    plan = make_plan(tasks=("mpe-spread-3ag",))
    write_study(tmp_path, plan)
    longer = dataclasses.replace(plan.runs()[0].config, steps=1024, num_evaluations=4)
    write_run(tmp_path / plan.runs()[0].path, longer, 2 * final_return("", "mars", 0), 1.8, num=12)
    numbers = analyse(load(tmp_path))
    assert told(
        numbers, "Runs on mpe-spread-3ag end at 512 to 1,024 steps", "as far as all of them reach"
    )
    assert numbers.results.runs[0].departures == ()
    steps, curve = numbers.tasks["mpe-spread-3ag"].returns["mars"]
    assert steps[-1] == 512
    np.testing.assert_allclose(curve.value[-1], 0.92, rtol=0.01)
    assert numbers.tasks["mpe-spread-3ag"].ratios["ratio_max"]["mars"].steps[-1] == 512
    assert numbers.suites["mpe"].returns["mars"].steps[-1] == 512


def test_equal_returns_are_told(tmp_path):
    numbers = of(tmp_path, make_plan(), final=lambda task, label, seed: 0.0)
    assert told(numbers, "All returns on mpe-spread-3ag, connector-5x5x3a are equal")
    assert numbers.suites["mpe"].scores["mars"] == (0, 0, 0)


def test_runs_made_apart_are_told(study, tmp_path):
    copy = shutil.copytree(study, tmp_path / "study")
    path = copy / "runs/mpe-spread-3ag/mars/seed-0/config.json"
    details = read_json(path)
    details["commit"] = "9876fed"
    details["versions"]["jax"] = "0.11.0"
    details["config"]["hyperparameters"]["discount"] = 0.5
    write_json(path, details)
    numbers = analyse(load(copy))
    assert told(numbers, "Runs were made at 2 different commits: 0123abc, 9876fed")
    assert told(numbers, "different versions of jax.")
    assert told(numbers, "Runs with other settings than the plan's (discount): 1 of 18.")


# ----------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((0.9, 0.6, 1.0), "is better than MAPPO (P = 0.90, 95% interval 0.60 to 1.00)"),
        ((0.1, 0.0, 0.4), "is worse than MAPPO (P = 0.10, 95% interval 0.00 to 0.40)"),
        (
            (0.6, 0.4, 0.8),
            "is not clearly different from MAPPO (P = 0.60, 95% interval 0.40 to 0.80)",
        ),
        (
            (0.4, 0.3, 0.5),
            "is not clearly different from MAPPO (P = 0.40, 95% interval 0.30 to 0.50)",
        ),
        (
            (1.0, np.nan, np.nan),
            "has P = 1.00 against MAPPO, from too few runs for an interval",
        ),
    ],
)
def test_a_verdict_is_one_sentence(found, said):
    suite = SuiteNumbers("mpe", "MPE", ("t",), {}, {"mappo": Estimate(*found)}, {})
    titles = {"mars": "MARS", "mappo": "MAPPO"}
    assert verdict(suite, "mars", titles) == f"On MPE MARS {said}."


def test_without_a_second_algorithm_there_is_no_verdict(tmp_path):
    assert of(tmp_path, make_plan(labels=("mars",))).verdicts == {}


def test_runs_that_are_too_short_prove_nothing(study):
    note = "Runs of 512 environment steps prove nothing about an algorithm"
    assert analyse(load(study)).notes[0].startswith(note)


def test_long_runs_are_not_called_short(tmp_path):
    plan = make_plan(tasks=("mpe-spread-3ag",), labels=("mars",), options={"steps": 20_480})
    assert not any("prove nothing" in note for note in of(tmp_path, plan).notes)
