"""Contents of results/: files match the runs, and trials match the shipped settings."""

import csv
from pathlib import Path

import pytest

from ratiosym.experiments.settings import read_shipped
from ratiosym.report.analysis import analyse
from ratiosym.report.export import to_csv, to_marl_eval
from ratiosym.report.page import all_tables
from ratiosym.report.results import load
from ratiosym.report.tables import to_latex, to_markdown
from ratiosym.runs.files import read_json

RESULTS = Path(__file__).parents[1] / "results"
STUDY = RESULTS / "first-results"


@pytest.fixture(scope="module")
def found():
    return analyse(load(STUDY))


def test_it_is_whole(found):
    (study,) = found.results.studies
    plan = study.plan
    assert plan.name == "first-results"
    assert not found.results.absent
    assert len(found.results.runs) == len(plan.runs()) == 30


def test_the_runs_differ_in_nothing_else():
    """They only differ in task, objective and seed, at one commit and with the same versions."""
    files = [read_json(path) for path in sorted(STUDY.glob("runs/*/*/*/config.json"))]
    assert len(files) == 30
    for file in files:
        for name in ("task", "objective", "seed"):
            del file["config"][name]
    first = files[0]
    assert "+changes" not in first["commit"]
    for file in files:
        assert [file[name] for name in ("config", "commit", "versions")] == [
            first[name] for name in ("config", "commit", "versions")
        ]


def test_its_numbers_are_those_of_its_runs(found):
    folder = STUDY / "report-files"
    assert (folder / "runs.csv").read_text() == to_csv(found)
    assert (folder / "marl-eval.json").read_text() == to_marl_eval(found)
    for table in all_tables(found):
        assert (folder / f"{table.name}.md").read_text() == to_markdown(table, found.notes)
        assert (folder / f"{table.name}.tex").read_text() == to_latex(table, found.notes)


def test_the_text_shows_its_tables():
    text = (RESULTS / "README.md").read_text()
    for name in ("table1", "improvement", "tasks"):
        rows = [
            line
            for line in (STUDY / "report-files" / f"{name}.md").read_text().splitlines()
            if line[:1] == "|"
        ]
        assert len(rows) > 2
        assert "\n".join(rows) in text, name


def test_the_text_tells_how_far_the_ratios_go(found):
    """The extremes among all samples of all updates and seeds."""
    rows = []
    for task in found.results.tasks:
        cells = [task]
        for label in found.titles:
            runs = found.results.of(task, label)
            low = min(run.training["ratio_min"].min() for run in runs)
            high = max(run.training["ratio_max"].max() for run in runs)
            cells.append(f"{low:.3g} to {high:.3g}")
        rows.append("| " + " | ".join(cells) + " |")
    assert "\n".join(rows) in (RESULTS / "README.md").read_text()


SHIPPED = [(task, objective) for task, entries in read_shipped().items() for objective in entries]


def test_three_objectives_on_two_tasks_are_tuned():
    tasks, objectives = ("connector-5x5x3a", "mpe-spread-3ag"), ("mars", "mappo", "maspo")
    assert {(t, o) for t in tasks for o in objectives} <= set(SHIPPED)


@pytest.mark.parametrize(("task", "objective"), SHIPPED)
def test_shipped_settings_are_the_best_trial(task, objective):
    entry = read_shipped()[task][objective]
    with open(RESULTS / "tuning" / task / objective / "trials.csv") as file:
        rows = list(csv.DictReader(file))
    best = max(
        (row for row in rows if row["state"] == "complete"), key=lambda row: float(row["value"])
    )
    assert (int(best["trial"]), float(best["value"])) == (entry["trial"], entry["value"])
    assert {name: float(best[name]) for name in entry["options"]} == entry["options"]
    assert {seed: float(best[f"seed-{seed}"]) for seed in entry["seeds"]} == entry["seeds"]
    assert len(rows) == sum(entry["trials"].values())
    search = RESULTS / "tuning" / task / objective
    outcome = read_json(search / "best.json")
    assert {name: outcome[name] for name in ("value", "trial", "trials", "steps", "seeds")} == {
        name: entry[name] for name in ("value", "trial", "trials", "steps", "seeds")
    }
    assert outcome["params"] == entry["options"]
    settings = read_json(search / "search.json")["settings"]
    assert (settings["run"]["task"], settings["run"]["objective"]) == (task, objective)
    assert set(settings["space"]) == set(entry["options"])
    text = (RESULTS.parent / "docs" / "tuning.md").read_text()
    assert f"| `{task}` | `{objective}` |" in text
