"""Settings and trust regions of every algorithm, and where they came from."""

from ratiosym.report.analysis import analyse
from ratiosym.report.results import load
from ratiosym.report.settings import settings_table
from ratiosym.runs.files import write_json
from tests.report.studies import make_plan, write_study, write_sweep


def cells(table, task, algorithm):
    """The row of an algorithm on a task, by column."""
    (row,) = [r for r in table.rows if (r.name, r.algorithm) == (task, algorithm)]
    return dict(zip(table.columns, (cell.text for cell in row.cells), strict=True))


def test_every_algorithm_on_every_task(analysis):
    table = settings_table(analysis)
    assert [(row.name, row.algorithm) for row in table.rows] == [
        (task, label) for task in analysis.tasks for label in analysis.titles
    ]
    assert cells(table, "connector-5x5x3a", "mappo") == {
        "algorithm": "MAPPO",
        "targets": "0.8 to 1.2",
        "actor_learning_rate": "0.00025",
        "critic_learning_rate": "0.00025",
        "entropy_coefficient": "0.01",
        "value_clip": "0.2",
        "num_epochs": "2",
        "num_minibatches": "2",
        "num_envs": "8",
        "steps": "512",
        "source": "plan tiny",
    }


def test_targets_are_those_of_the_runs(tmp_path):
    table = settings_table(analyse(load(write_sweep(tmp_path))))
    assert cells(table, "mpe-spread-3ag", "mars-0.5-2")["targets"] == "0.5 to 2"
    assert cells(table, "mpe-spread-3ag", "mappo-0.2")["targets"] == "0.8 to 1.2"


def test_settings_come_from_searches(tmp_path):
    """As 'ratiosym reproduce' writes them: settings.json beside the plan."""
    write_study(tmp_path, make_plan(tasks=("mpe-spread-3ag",), seeds=1))
    entry = {
        "objective": "mars",
        "options": {},
        "value": 1.625,
        "trials": {"complete": 5, "pruned": 1, "diverged": 0},
        "search": "tuning/mpe-spread-3ag/mars",
    }
    found = {"mpe-spread-3ag": {"mars": entry}}
    write_json(tmp_path / "settings.json", {"settings": found})
    table = settings_table(analyse(load(tmp_path)))
    assert cells(table, "mpe-spread-3ag", "mars")["source"] == (
        "search of 6 trials (tuning/mpe-spread-3ag/mars), value 1.625"
    )
    assert cells(table, "mpe-spread-3ag", "mappo")["source"] == "plan tiny"


def test_settings_of_separate_searches_and_of_the_package(tmp_path):
    """'study run --tuned DIR' copies what was found into the plan; tuned = true uses ours."""
    found = {"mpe-spread-3ag": {"mars": {"b_lower": 0.5, "b_upper": 2.0}}}
    options = {"steps": 1024}  # an update with the environments of our settings
    plan = make_plan(
        tasks=("mpe-spread-3ag",), seeds=1, options=options, tuned=True, settings=found
    )
    table = settings_table(analyse(load(write_study(tmp_path, plan))))
    mars, mappo = (cells(table, "mpe-spread-3ag", label) for label in ("mars", "mappo"))
    assert (mars["targets"], mars["source"]) == ("0.5 to 2", "searches given by --tuned")
    assert mappo["source"] == "settings shipped with the package"
