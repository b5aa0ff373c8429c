"""A study beside the paper's Table 1 and other published numbers."""

import dataclasses

from ratiosym.envs.suites import SUITES
from ratiosym.envs.tasks import TASKS
from ratiosym.report.analysis import analyse
from ratiosym.report.published import published_table, read_published, sign, signs_table
from ratiosym.report.results import load
from ratiosym.report.statistics import Estimate
from ratiosym.report.tables import to_latex, to_markdown
from tests.report.studies import make_plan, write_study


def test_the_papers_table_is_whole():
    table = read_published()["table1"]
    assert set(table) == set(SUITES)
    for scores in table.values():
        assert set(scores) == {"mars", "mappo", "maspo"}
        assert all(low <= value <= high for value, low, high in scores.values())
    assert table["paxmen"]["mars"] == [0.72, 0.59, 0.79]


def test_published_numbers_are_of_our_tasks_and_have_a_source():
    numbers = read_published()["numbers"]
    assert len(numbers) == 16
    for entry in numbers:
        assert set(entry) == {"task", "metric", "value", "source"}
        assert entry["task"] in TASKS
        assert "steps" in entry["value"]


def test_a_sign_needs_intervals_that_do_not_overlap():
    assert sign(Estimate(0.9, 0.8, 1.0), Estimate(0.5, 0.4, 0.6)) == "higher"
    assert sign(Estimate(0.5, 0.4, 0.6), Estimate(0.9, 0.8, 1.0)) == "lower"
    assert sign(Estimate(0.7, 0.5, 0.9), Estimate(0.5, 0.4, 0.6)) == "no clear difference"
    assert sign(Estimate(0.7, float("nan"), float("nan")), Estimate(0.5, 0.4, 0.6)) == "no interval"


def test_signs_beside_the_papers(analysis):
    """Here MARS is above both everywhere; in the paper MAPPO equals it on Connector."""
    table = signs_table(analysis)
    assert list(table.columns.values()) == [
        "than MAPPO, here",
        "than MAPPO, in the paper",
        "than MASPO, here",
        "than MASPO, in the paper",
    ]
    found = {row.suite: [cell.text for cell in row.cells] for row in table.rows}
    assert found == {
        "mpe": ["higher"] * 4,
        "connector": ["higher", "no clear difference", "higher", "higher"],
    }
    assert "| Connector | higher | no clear difference | higher | higher |" in to_markdown(table)
    assert r"Connector & higher & no clear difference & higher & higher \\" in to_latex(table)


def test_without_mars_or_the_papers_baselines_there_are_no_signs(tmp_path):
    for k, labels in enumerate((("mappo", "maspo"), ("mars", "mars-additive"))):
        plan = make_plan(tasks=("mpe-spread-3ag",), labels=labels, seeds=2)
        assert signs_table(analyse(load(write_study(tmp_path / str(k), plan)))) is None


def test_ours_beside_published_numbers(analysis):
    table = published_table(analysis)
    mpe, connector = sorted(table.rows, key=lambda row: row.suite, reverse=True)
    assert [cell.text for cell in mpe.cells] == [
        "mean return",
        "0.92",
        "0.72",
        "0.52",
        "512",
        "-6.2 to -5.8 at 20 million steps",
        "Mava's benchmark, central recurrent PPO",
    ]
    assert connector.name == "connector-5x5x3a"
    assert list(table.columns)[1:4] == ["mars", "mappo", "maspo"]


def test_ours_has_the_unit_of_the_published_number(analysis):
    """SMAX is published as the share of battles won."""
    run = analysis.results.runs[0]
    won = dataclasses.replace(
        run, task="smax-2s3z", absolute_metric={"mean_return": 1.5, "won": 0.25}
    )
    results = dataclasses.replace(analysis.results, runs=(won,))
    numbers = dataclasses.replace(
        analysis, results=results, tasks={"smax-2s3z": analysis.tasks["mpe-spread-3ag"]}
    )
    rows = published_table(numbers).rows
    assert [row.cells[1].text for row in rows] == ["0.25", "0.25"]
    assert [row.cells[2].text for row in rows] == ["–", "–"]


def test_tasks_without_published_numbers_have_no_table(tmp_path):
    plan = make_plan(tasks=("paxmen-4a",), seeds=2)
    assert published_table(analyse(load(write_study(tmp_path, plan)))) is None
