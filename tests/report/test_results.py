"""A study is read as runs write it; what cannot be used is named, never dropped."""

import re
import shutil

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.report.results import load
from ratiosym.runs import provenance
from ratiosym.runs.files import read_json, write_json
from ratiosym.runs.tables import read_table
from tests.report.studies import PROVENANCE, make_plan, write_run, write_study

FIRST = "runs/mpe-spread-3ag/mars/seed-0"


@pytest.fixture
def copy(study, tmp_path):
    """The study, to be damaged."""
    return shutil.copytree(study, tmp_path / "study")


def test_every_run_is_read(study):
    results = load(study)
    assert len(results.runs) == 2 * 3 * 3
    assert results.absent == ()
    (only,) = results.studies
    assert only.plan == make_plan()
    assert only.details["commit"] == "0123abc"
    run = results.of("connector-5x5x3a", "mappo")[2]
    assert (run.task, run.label, run.seed) == ("connector-5x5x3a", "mappo", 2)
    assert str(run.path) == "runs/connector-5x5x3a/mappo/seed-2"
    assert run.absolute == pytest.approx(0.74)
    np.testing.assert_allclose(run.episodes, [0.64, 0.84])
    assert run.config.objective_parameters == {"epsilon": 0.2}
    np.testing.assert_allclose(run.returns, 0.74 * np.arange(7) / 6)
    assert run.steps[-1] == run.training["steps"][-1] == 512
    assert run.departures == ()


def test_the_tests_write_what_runs_write(study, whole):
    """Whatever is read from a made-up run is in a real one."""
    made = study / FIRST
    for name in ("config.json", "summary.json"):
        assert set(read_json(made / name)) <= set(read_json(whole / name)), name
    assert set(read_json(made / "config.json")["config"]) == set(
        read_json(whole / "config.json")["config"]
    )
    for key in ("mean_return", "episodes"):
        assert key in read_json(whole / "summary.json")["absolute_metric"]
    for name in ("evaluations.csv", "training.csv", "absolute_metric.csv"):
        assert set(read_table(made / name)) <= set(read_table(whole / name)), name
    assert set(PROVENANCE) == set(provenance.provenance())


def test_a_real_run_is_read(whole, tmp_path):
    config = read_json(whole / "config.json")["config"]
    options = {"steps": config["steps"], "num_evaluations": config["num_evaluations"]}
    plan = make_plan(tasks=("mpe-spread-3ag",), labels=("mars",), seeds=1, options=options)
    write_json(tmp_path / "plan.json", {"plan": plan.to_dict(), **PROVENANCE})
    shutil.copytree(whole, tmp_path / FIRST)
    (run,) = load(tmp_path).runs
    assert run.departures == ()
    assert run.absolute == read_json(whole / "summary.json")["absolute_metric"]["mean_return"]
    assert len(run.training["ratio_max"]) == 12


# ------------------------------------------------------------------------------------------- damage


def absent(study):
    """{path: reason} of the runs that are not compared; all the others are there."""
    results = load(study)
    assert len(results.runs) + len(results.absent) == 18
    return {str(a.path): a.reason for a in results.absent}


def test_missing_unfinished_and_failed_runs_are_named(copy):
    shutil.rmtree(copy / FIRST)
    (copy / "runs/mpe-spread-3ag/mars/seed-1/summary.json").unlink()
    (copy / "runs/mpe-spread-3ag/mars/seed-2/summary.json").unlink()
    (copy / "runs/mpe-spread-3ag/mars/seed-2/evaluations.csv").unlink()
    (copy / "runs/mpe-spread-3ag/mappo/seed-0/summary.json").unlink()
    (copy / "runs/mpe-spread-3ag/mappo/seed-0/failure.txt").write_text(
        "MemoryError: no room\n\nTraceback\n  ...\n"
    )
    assert absent(copy) == {
        FIRST: "not started",
        "runs/mpe-spread-3ag/mars/seed-1": "not finished (512 of 512 steps)",
        "runs/mpe-spread-3ag/mars/seed-2": "not finished",
        "runs/mpe-spread-3ag/mappo/seed-0": "failed: MemoryError: no room",
    }


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", "{", "damaged: .* cannot be read"),
        ("config.json", "{}", "damaged: .*needs"),
        ("summary.json", '{"absolute_metric": {"mean_return"', "damaged: .* cannot be read"),
        ("summary.json", "{}", "damaged: 'absolute_metric' is missing"),
        ("summary.json", '{"absolute_metric": {"mean_return": null}}', "damaged: "),
        ("evaluations.csv", "update,steps,mean_return\n0,0,1.5\n1,12\n", "damaged: "),
        ("evaluations.csv", "update,steps\n0,0\n", "damaged: 'mean_return' is missing"),
        ("evaluations.csv", "update,steps,mean_return\n", "damaged: a table is empty"),
        ("evaluations.csv", "", "damaged: 'steps' is missing"),
        (
            "evaluations.csv",
            "update,steps,mean_return\n0,0,nan\n",
            "damaged: a return is not a finite number",
        ),
        ("training.csv", "update,steps,ratio_min\n1,128,0.9\n", "damaged: 'ratio_max' is missing"),
        (
            "absolute_metric.csv",
            "episode,return\n",
            "damaged: absolute_metric.csv and summary.json",
        ),
        ("absolute_metric.csv", "episode\n0\n", "damaged: 'return' is missing"),
    ],
)
def test_a_damaged_run_is_named(copy, name, content, said):
    (copy / FIRST / name).write_text(content)
    (reason,) = (reasons := absent(copy)).values()
    assert list(reasons) == [FIRST]
    assert re.match(said, reason), reason


def test_a_run_of_something_else_is_named(copy):
    other = make_plan().runs()[1].config  # mappo
    write_run(copy / FIRST, other, 1.0, 1.0)
    assert absent(copy) == {FIRST: "it is another run: its config.json says objective mappo"}


def test_other_settings_are_told(copy):
    details = read_json(copy / FIRST / "config.json")
    details["config"]["hyperparameters"]["discount"] = 0.5
    details["config"]["shape"]["num_epochs"] = 7
    write_json(copy / FIRST / "config.json", details)
    assert load(copy).runs[0].departures == ("discount", "num_epochs")


def test_no_study(tmp_path):
    with pytest.raises(
        InputError, match=r"holds no study: there is no plan.json in it.*ratiosym study run"
    ):
        load(tmp_path)
    with pytest.raises(InputError, match=r"nowhere' does not exist\. Start one with"):
        load(tmp_path / "nowhere")
    (tmp_path / "plan.json").write_text('{"plan": {"name": "half')
    with pytest.raises(InputError, match=r"plan\.json' cannot be read"):
        load(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(InputError, match="contains no plan"):
        load(tmp_path)


def test_nothing_has_finished(tmp_path):
    plan = make_plan(seeds=1)
    write_json(tmp_path / "plan.json", {"plan": plan.to_dict(), **PROVENANCE})
    first = r"runs/mpe-spread-3ag/mars/seed-0: not started"
    message = rf"None of the 6 runs in .* has finished \({first}\)\. Resume with"
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_write_study_is_whole(tmp_path):
    plan = make_plan(seeds=1)
    assert len(load(write_study(tmp_path, plan)).runs) == len(plan.runs())


def test_episodes_of_another_run_are_found_out(copy):
    """The absolute metric is the mean of its episodes; runs of 0.1 kept none."""
    (copy / FIRST / "absolute_metric.csv").write_text("episode,return\n0,5.0\n")
    (copy / "runs/mpe-spread-3ag/mars/seed-1/absolute_metric.csv").unlink()
    results = load(copy)
    (absence,) = results.absent
    assert absence.reason == (
        "damaged: absolute_metric.csv and summary.json are of different episodes"
    )
    assert results.of("mpe-spread-3ag", "mars")[0].episodes is None


# --------------------------------------------------------------------------- several as one study


def test_several_directories_are_one_study(tmp_path):
    """One task each; the order of tasks and algorithms is that of the first plans."""
    one = make_plan(tasks=("smax-2s3z",), labels=("mars", "mappo"), seeds=2, name="one")
    other = make_plan(tasks=("mpe-spread-3ag",), labels=("maspo", "mars"), seeds=3, name="other")
    write_study(tmp_path / "one", one)
    write_study(tmp_path / "other", other)
    shutil.rmtree(tmp_path / "other/runs/mpe-spread-3ag/mars/seed-2")
    results = load(tmp_path / "one", tmp_path / "other")
    assert (results.name, results.about) == ("one + other", "A study of nothing.")
    assert results.tasks == ("smax-2s3z", "mpe-spread-3ag")
    assert [a.label for a in results.algorithms] == ["mars", "mappo", "maspo"]
    assert results.seeds == (0, 1, 2)
    assert len(results.runs) == 2 * 2 + 2 * 3 - 1
    run = results.of("mpe-spread-3ag", "mars")[0]
    assert run.directory == tmp_path / "other/runs/mpe-spread-3ag/mars/seed-0"
    assert run.directory.is_dir()
    assert [a.path for a in results.absent] == [tmp_path / "other/runs/mpe-spread-3ag/mars/seed-2"]


def test_what_would_count_twice_is_refused(study, tmp_path):
    other = write_study(tmp_path, make_plan(tasks=("mpe-spread-3ag",), labels=("mars",), seeds=1))
    with pytest.raises(InputError, match=r"'mars' on 'mpe-spread-3ag' with seed 0 is planned both"):
        load(study, other)


def test_one_label_is_one_objective(study, tmp_path):
    plan = make_plan(tasks=("smax-2s3z",), labels=(("mars", "mappo"),), seeds=1)
    with pytest.raises(InputError, match=r"The label 'mars' is mars in .* and mappo in"):
        load(study, write_study(tmp_path, plan))
