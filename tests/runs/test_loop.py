"""Runs on disk: complete, resumed bit for bit after a kill at any moment, never overwritten."""

import dataclasses
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.api import render, train
from ratiosym.envs.registry import make
from ratiosym.envs.tasks import TASKS, Task
from ratiosym.errors import InputError, NonFiniteLoss
from ratiosym.experiments.presets import configure, read_settings
from ratiosym.objectives import OBJECTIVES
from ratiosym.runs import checkpoint, loop, tables, trained
from ratiosym.runs.directory import Run, run_directories
from ratiosym.runs.episodes import play_baselines
from ratiosym.runs.files import read_json
from ratiosym.runs.loop import resume, start
from ratiosym.runs.rows import describe
from ratiosym.runs.state import flatten
from ratiosym.runs.tables import read_table
from ratiosym.runs.trained import evaluate, load_policy
from tests import example_runs as runs
from tests.example_runs import SETTINGS, STEPS, TASK, contents, expect_same_numbers, run_python
from tests.probes import Broken


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copied")


@pytest.fixture
def often(monkeypatch):
    """Save a checkpoint at every evaluation."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)


def killed(moment, directory, num_seeds=1):
    done = run_python(
        "-m", "tests.runs.killed", moment, directory, num_seeds, env=runs.SAME_DEVICES
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stderr == ""
    assert all(not (d / "summary.json").exists() for d in run_directories(directory))


def curves_on_tensorboard(directory):
    curves = runs.read_events(directory)
    assert len(curves.pop("training/steps_per_second")) == 12
    assert list(curves["evaluation/mean_return"]) == [STEPS * n for n in (0, 2, 4, 6, 8, 10, 12)]
    return curves


# ------------------------------------------------------------------------------------- what is kept


def test_a_run_leaves_everything(whole):
    assert sorted(p.name for p in whole.iterdir()) == [
        "absolute_metric.csv",
        "checkpoint",
        "config.json",
        "evaluations.csv",
        "summary.json",
        "tensorboard",
        "training.csv",
    ]
    assert checkpoint.updates(whole / "checkpoint") == [0, 12]
    details = read_json(whole / "config.json")
    assert details["config"] == configure(TASK, **SETTINGS).to_dict()
    assert details["spec"]["num_agents"] == 3
    assert {"versions", "commit", "devices", "platform", "processor", "command"} < details.keys()


def test_training_has_the_columns_that_docs_metrics_explains(whole):
    table = read_table(whole / "training.csv")
    ratios = [
        "ratio_min",
        "ratio_max",
        *(f"ratio_q{level}" for level in ("01", "25", "50", "75", "99")),
    ]
    diagnostics = [*ratios, "beyond_target", "approximate_kl"]
    assert list(table) == [
        *("update", "steps", "episodes", "episode_return"),
        *(
            "policy_loss",
            "value_loss",
            "entropy",
            "actor_grad_norm",
            "critic_grad_norm",
            "first_ratio_error",
        ),
        *diagnostics,
        *(f"active_{name}" for name in diagnostics),
        "steps_per_second",
    ]
    explained = (runs.ROOT / "docs" / "concepts" / "run-directory.md").read_text()
    assert all(
        f"`{name}`" in explained for name in table if not name.startswith(("active_", "ratio_q"))
    )
    assert table["update"].tolist() == list(range(1, 13))
    assert table["steps"].tolist() == [STEPS * n for n in range(1, 13)]
    assert all(np.isfinite(table[name]).all() for name in table if name != "episode_return")
    assert np.isnan(table["episode_return"][table["episodes"] == 0]).all()
    assert np.isfinite(table["episode_return"][table["episodes"] > 0]).all()
    assert (
        0 < table["episodes"].sum() <= 12 * STEPS / 26 + 8
    )  # an episode lasts 26 steps, in 8 environments
    levels = np.stack([table[name] for name in ("ratio_min", *ratios[2:], "ratio_max")])
    assert (np.diff(levels, axis=0) >= 0).all()
    assert (table["steps_per_second"] > 0).all()


def test_evaluations_are_evenly_spaced_and_summed_up(whole):
    table = read_table(whole / "evaluations.csv")
    assert table["update"].tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert table["steps"].tolist() == [STEPS * n for n in table["update"]]
    assert (table["episodes"] == 8).all()
    assert (table["mean_length"] == 26).all()
    assert (table["min_return"] < table["mean_return"]).all()
    assert (table["mean_return"] < table["max_return"]).all()
    assert {"covered", "collisions"} < table.keys()
    summary = read_json(whole / "summary.json")
    assert (summary["task"], summary["objective"], summary["seed"]) == (TASK, "mars", 0)
    assert (summary["updates"], summary["steps"]) == (12, 12 * STEPS)
    assert summary["first_return"] == table["mean_return"][0]
    assert summary["final_return"] == table["mean_return"][-1]
    assert summary["best_return"] == table["mean_return"].max()
    assert summary["best_update"] == table["update"][table["mean_return"].argmax()]
    assert summary["absolute_metric"]["episodes"] == 320


def test_every_episode_of_the_absolute_metric_is_kept(whole):
    """The summary follows from them, bit for bit."""
    table = read_table(whole / "absolute_metric.csv")
    absolute = read_json(whole / "summary.json")["absolute_metric"]
    assert table["episode"].tolist() == list(range(320))
    assert table["return"].mean() == absolute["mean_return"]
    assert table["return"].std(ddof=1) == absolute["std_return"]
    assert len(set(table["return"])) > 300
    assert (table["length"] == 26).all()
    assert table["covered"].mean() == pytest.approx(absolute["covered"])


def test_python_gets_what_is_on_disk(tmp_path):
    seen = []
    [done] = train(
        TASK,
        "mars",
        out=tmp_path / "run",
        preset="smoke",
        steps=2 * STEPS,
        b_upper=3.0,
        on_progress=seen.append,
    )
    assert done.config.objective_parameters["b_upper"] == 3.0
    assert done.directory == tmp_path / "run"
    assert read_json(done.directory / "summary.json") == done.summary
    on_disk = read_table(done.directory / "evaluations.csv")["mean_return"]
    assert list(done.evaluations["mean_return"]) == list(on_disk)
    assert list(done.training["update"]) == [1, 2]
    assert [(p.update, bool(p.rows), bool(p.evaluations)) for p in seen] == [
        (0, False, False),
        (1, True, False),
        (0, False, True),  # the evaluation before training, which the first update does not await
        (1, False, True),
        (2, True, False),
        (2, False, True),
    ]


def test_what_a_callback_does_to_its_rows_is_not_recorded(whole, tmp_path):
    def take(progress):
        for row in [*(progress.rows or ()), *(progress.evaluations or ())]:
            row.clear()

    start(configure(TASK, **SETTINGS), tmp_path / "run", on_progress=take)
    expect_same_numbers(tmp_path / "run", whole)


def test_without_a_directory_a_run_goes_where_its_name_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [done] = train(TASK, preset="smoke", seed=3, steps=STEPS)
    assert done.directory.resolve() == tmp_path / "runs" / TASK / "mars" / "seed-3"


# ------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize(
    ("moment", "checkpoints"),
    [
        ("start", []),
        ("instead-of:checkpoint/8", [4, 6]),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("torn:training-5", [2, 4]),
                ("update-3", [0, 2]),
                ("appears:checkpoint/.writing-8*", [4, 6]),
                ("torn:journal-6", [2, 4]),
                ("torn:evaluation-2", [0]),
                ("instead-of:summary.json", [10, 12]),
            ]
        ),
    ],
)
def test_killed_then_moved_and_resumed_it_is_the_same_run(whole, tmp_path, moment, checkpoints):
    killed(moment, tmp_path / "run")
    assert checkpoint.updates(tmp_path / "run" / "checkpoint") == checkpoints
    moved = tmp_path / "somewhere" / "else"
    moved.parent.mkdir()
    shutil.move(tmp_path / "run", moved)
    resume(moved)
    expect_same_numbers(moved, whole)
    one, other = (read_json(d / "summary.json") for d in (moved, whole))
    for measured in ("median_steps_per_second", "seconds_since_start_or_resume"):
        assert one.pop(measured) > 0
        assert other.pop(measured) > 0
    assert one == other
    assert {p.name for p in moved.rglob(".*")} == set()  # no temporary files are left
    assert curves_on_tensorboard(moved) == curves_on_tensorboard(whole)


@pytest.mark.slow
def test_killed_many_times_at_random(whole, tmp_path):
    """By another process, at any moment from the first second on. A run that comes through is
    compared; then anew.
    """
    chance, directory, num_kills = random.Random(0), tmp_path / "run", 0
    words = [sys.executable, "-m", "tests.runs.killed", "never", str(directory)]
    while num_kills < 10:
        process = subprocess.Popen(words, cwd=runs.ROOT, env=runs.environment(**runs.SAME_DEVICES))
        time.sleep(chance.uniform(1.0, 6.0))
        process.kill()
        if process.wait() == 0:
            expect_same_numbers(directory, whole)
            shutil.rmtree(directory)
        else:
            num_kills += 1
    if run_directories(directory):
        resume(directory)
        expect_same_numbers(directory, whole)


@pytest.mark.slow
def test_killed_again_and_again_it_still_arrives(whole, tmp_path):
    directory = tmp_path / "run"
    moments = (
        "start",
        "evaluation-0",
        "update-1",
        "instead-of:checkpoint/4",
        "evaluation-6",
        "update-7",
        "update-7",
    )
    for moment in moments:
        killed(moment, directory)
    done = runs.run_command("train", "--resume", directory, env=runs.SAME_DEVICES)
    assert done.returncode == 0, done.stderr
    expect_same_numbers(directory, whole)


@pytest.mark.slow
def test_seeds_killed_one_checkpoint_apart(whole_seeds, tmp_path):
    directory = tmp_path / "seeds"
    killed("instead-of:seed-1/checkpoint/8", directory, num_seeds=2)
    newest = [checkpoint.updates(directory / f"seed-{s}" / "checkpoint")[-1] for s in (0, 1)]
    assert newest == [8, 6]
    resume(directory)
    for seed in ("seed-0", "seed-1"):
        expect_same_numbers(directory / seed, whole_seeds / seed)
        assert contents(directory / seed).keys() >= {
            "config.json",
            "evaluations.csv",
            "training.csv",
            "summary.json",
        }
        assert read_json(directory / seed / "config.json")["config"]["seed"] == int(seed[-1])
    curves = [(directory / seed / "evaluations.csv").read_bytes() for seed in ("seed-0", "seed-1")]
    assert curves[0] != curves[1]


@pytest.mark.parametrize(
    "moment",
    [
        "instead-of:seed-1/config.json",
        pytest.param("instead-of:seed-1/checkpoint/0", marks=pytest.mark.slow),
    ],
)
def test_seeds_killed_before_they_had_a_common_checkpoint_start_over(whole_seeds, tmp_path, moment):
    """Both seeds start over, which gives the same results."""
    directory = tmp_path / "seeds"
    killed(moment, directory, num_seeds=2)
    assert len(run_directories(directory)) == (1 if "config" in moment else 2)
    resume(directory)
    for seed in ("seed-0", "seed-1"):
        expect_same_numbers(directory / seed, whole_seeds / seed)


def test_seeds_are_resumed_by_themselves_too(whole_seeds, tmp_path):
    directory = shutil.copytree(whole_seeds, tmp_path / "seeds")
    [done] = resume(directory / "seed-1")
    assert done.summary["seed"] == 1
    assert (directory / "seeds.json").read_bytes() == (whole_seeds / "seeds.json").read_bytes()


def test_every_file_of_a_run_comes_to_the_state_of_its_checkpoint(copied, whole):
    """As after a kill between the last checkpoint and the tables, or if files were deleted."""
    (copied / "training.csv").unlink()
    lines = (copied / "evaluations.csv").read_text().splitlines(keepends=True)
    (copied / "evaluations.csv").write_text("".join(lines[:-1]) + lines[-1][:9])
    (copied / "checkpoint" / "evaluations.csv").write_text("".join([*lines, "14,17"]))
    (copied / ".summary.json.0123456789abcdef.writing").write_text("{")
    (copied / "checkpoint" / ".writing-14-0123").mkdir()
    resume(copied)
    expect_same_numbers(copied, whole)
    assert (copied / "training.csv").read_bytes() == (whole / "training.csv").read_bytes()
    assert contents(copied).keys() - contents(whole).keys() <= {
        name for name in contents(copied) if name.startswith("tensorboard/")
    }


def test_rows_that_are_lost_stop_a_resume_and_nothing_is_changed(copied):
    for path in (copied / "training.csv", copied / "checkpoint" / "training.csv"):
        path.write_text(path.read_text()[:300])
    before = contents(copied)
    with pytest.raises(InputError, match=r"The rows of '.*training\.csv' .* are lost"):
        resume(copied, steps=16 * STEPS)
    assert contents(copied) == before


def test_a_run_whose_checkpoints_were_removed_is_not_trained_over(copied):
    shutil.rmtree(copied / "checkpoint")
    before = contents(copied)
    with pytest.raises(
        InputError, match=r"checkpoints of the run in .* are missing.*train --config"
    ):
        resume(copied)
    assert contents(copied) == before


def test_a_checkpoint_does_not_grow_with_the_run(whole):
    """It contains the state, whose shapes are fixed, and the length of the tables."""
    first, last = (checkpoint.load(whole / "checkpoint", update) for update in (0, 12))
    shapes = [{name: x.shape for name, x in found.arrays.items()} for found in (first, last)]
    assert shapes[0] == shapes[1]
    facts = [len((whole / "checkpoint" / n / checkpoint.META).read_text()) for n in ("0", "12")]
    assert facts[1] < facts[0] + 100
    assert last.meta.tables["training"]["num_bytes"] == (whole / "training.csv").stat().st_size


def test_a_record_has_the_command_that_repeats_the_run(whole, whole_seeds):
    command = read_json(whole / "config.json")["command"]
    assert command == f"ratiosym train --config {whole / 'config.json'}"
    command = read_json(whole_seeds / "seed-1" / "config.json")["command"]
    assert command == f"ratiosym train --config {whole_seeds / 'seeds.json'} --num-seeds 2"
    for record in (whole / "config.json", whole_seeds / "seeds.json"):
        assert read_settings(record) == configure(TASK, **SETTINGS)


# -------------------------------------------------------------------------------- a disk that fails


def at_update(number, action):
    def on_progress(progress):
        if progress.update == number and progress.rows:
            action()

    return on_progress


@pytest.mark.usefixtures("often")
def test_a_full_disk_stops_a_run_with_one_sentence_and_resume_is_exact(whole, tmp_path, capfd):
    directory = tmp_path / "run"

    def full(file, data):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(InputError) as error:
        start(
            configure(TASK, **SETTINGS),
            directory,
            on_progress=at_update(3, lambda: patch.setattr(tables, "_write_all", full)),
        )
    assert str(error.value) == (
        f"'{directory}' cannot be written (No space left on device). The run has stopped; "
        f"everything written before is kept. Once the problem is fixed, resume it with: ratiosym "
        f"train --resume '{directory}'"
    )
    assert checkpoint.updates(directory / "checkpoint") == [0, 2]
    assert capfd.readouterr().err == ""
    resume(directory)
    expect_same_numbers(directory, whole)


@pytest.mark.usefixtures("often")
def test_a_run_that_is_moved_away_while_it_trains(whole, tmp_path):
    directory, moved = tmp_path / "run", tmp_path / "moved"
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\)"):
        start(
            configure(TASK, **SETTINGS),
            directory,
            on_progress=at_update(3, lambda: directory.rename(moved)),
        )
    assert not directory.exists()
    resume(moved)
    expect_same_numbers(moved, whole)


def test_a_table_that_is_removed_while_it_grows_is_there_in_the_end(whole, tmp_path):
    directory = tmp_path / "run"
    remove = at_update(3, lambda: (directory / "training.csv").unlink())
    start(configure(TASK, **SETTINGS), directory, on_progress=remove)
    expect_same_numbers(directory, whole)


def test_seeds_without_a_common_checkpoint(whole_seeds, tmp_path):
    directory = shutil.copytree(whole_seeds, tmp_path / "seeds")
    shutil.rmtree(directory / "seed-0" / "checkpoint" / "0")
    shutil.rmtree(directory / "seed-1" / "checkpoint" / "12")
    before = contents(directory)
    with pytest.raises(InputError, match=r"no checkpoint in common, .* Resume each one separately"):
        resume(directory)
    assert contents(directory) == before


def test_more_steps_are_as_if_asked_for_from_the_start(whole, tmp_path):
    directory = tmp_path / "longer"
    start(configure(TASK, **{**SETTINGS, "steps": 8 * STEPS, "num_evaluations": 4}), directory)
    assert read_json(directory / "summary.json")["updates"] == 8
    [done] = resume(directory, steps=12 * STEPS)
    assert (done.config.steps, done.config.num_evaluations) == (12 * STEPS, 6)
    expect_same_numbers(directory, whole)
    assert (
        read_json(directory / "config.json")["config"] == read_json(whole / "config.json")["config"]
    )
    assert read_json(directory / "summary.json")["updates"] == 12


def test_a_raised_budget_is_remembered_and_the_old_summary_goes(copied):
    class StopError(Exception):
        pass

    def stop(progress):
        if progress.rows:
            raise StopError

    with pytest.raises(StopError):
        resume(copied, steps=16 * STEPS, on_progress=stop)
    assert not (copied / "summary.json").exists()
    assert not (copied / "absolute_metric.csv").exists()
    [done] = resume(copied)
    assert done.summary["updates"] == 16
    absolute = read_table(copied / "absolute_metric.csv")["return"].mean()
    assert absolute == done.summary["absolute_metric"]["mean_return"]


def test_fewer_steps_are_refused(copied):
    before = contents(copied)
    with pytest.raises(
        InputError,
        match=r"`steps` is 1,024, less than this run's budget of 1,536\. Omit",
    ):
        resume(copied, steps=8 * STEPS)
    assert contents(copied) == before


def test_a_run_with_annealed_rates_keeps_its_budget(tmp_path):
    """Its learning rates so far followed the smaller budget, so no configuration describes both."""
    config = configure(TASK, "smoke", anneal_learning_rates=True)
    run = Run(tmp_path, config)
    assert loop.extend(run, config.steps).config == config
    with pytest.raises(InputError, match=r"anneals its learning rates to 0 over its .* steps"):
        loop.extend(run, 2 * config.steps)


def test_a_finished_run_is_only_summed_up_again(copied, whole):
    before = contents(copied)
    [done] = resume(copied)
    after = contents(copied)
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"summary.json"}
    assert all(name.startswith("tensorboard/") for name in after.keys() - before.keys())
    assert done.summary["absolute_metric"] == read_json(whole / "summary.json")["absolute_metric"]


def test_resume_of_nothing(tmp_path):
    with pytest.raises(
        InputError, match=r"does not hold a run: there is no config\.json in it\. Start one with"
    ):
        resume(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_stops_a_resume_and_nothing_is_overwritten(copied):
    newest = copied / "checkpoint" / "12"
    largest = max((p for p in newest.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-40])
    before = contents(copied)
    with pytest.raises(
        checkpoint.CheckpointError, match=r"is damaged .*after update 0 is still there: remove '"
    ):
        resume(copied, steps=16 * STEPS)
    assert contents(copied) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"task": "mpe-spread-5ag"},
            "task: mpe-spread-3ag in the checkpoint, mpe-spread-5ag in config.json",
        ),
        (
            {"objective": "mappo", "objective_parameters": {}},
            "objective: mars in the checkpoint, mappo in config.json",
        ),
        ({"seed": 1}, "seed: 0 in the checkpoint, 1 in config.json"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(copied, change, message):
    details = read_json(copied / "config.json")
    details["config"] |= change
    (copied / "config.json").write_text(json.dumps(details))
    before = contents(copied)
    with pytest.raises(checkpoint.CheckpointError, match="from another run") as error:
        resume(copied, steps=16 * STEPS)
    assert message in str(error.value)
    assert contents(copied) == before


def test_a_checkpoint_of_another_environment_is_refused(copied, monkeypatch):
    """The name is the same, but not the sizes, as with a new version of a library."""
    monkeypatch.setitem(TASKS, TASK, TASKS["mpe-spread-5ag"])
    before = contents(copied)
    with pytest.raises(
        checkpoint.CheckpointError,
        match=r"does not match this task and these settings: '.*' should be",
    ):
        resume(copied, steps=16 * STEPS)
    with pytest.raises(checkpoint.CheckpointError, match="does not match this task"):
        evaluate(copied, 8)
    assert contents(copied) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"config\.json' cannot be read"),
        ("[]", "does not contain a JSON object"),
        ("{}", "contains no configuration"),
        (
            '{"config": {"task": "mpe-spread-3ag", "colour": "red"}}',
            r"Unknown name 'colour'\. '.*config\.json' has: task, objective, seed",
        ),
    ],
)
def test_a_broken_config_is_said_to_be_broken(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=message):
        resume(tmp_path)
    assert (tmp_path / "config.json").read_text() == text


# ----------------------------------------------------------------------------------- start of a run


@pytest.mark.parametrize("what", ["a run", "seeds", "something else", "a file"])
def test_a_place_that_is_taken_is_left_alone(whole, whole_seeds, tmp_path, what):
    place = tmp_path / "place"
    if what == "a file":
        place.write_text("mine")
        message = "is a file; `out` must be a new or empty directory"
    elif what == "something else":
        place.mkdir()
        (place / "thesis.tex").write_text("mine")
        message = "is not empty, but contains no run. Choose another `out`"
    else:
        shutil.copytree(whole if what == "a run" else whole_seeds, place)
        message = f"already holds a run. Resume it: ratiosym train --resume '{place}'"
    before = contents(tmp_path)
    with pytest.raises(InputError) as error:
        start(configure(TASK, **SETTINGS), place)
    assert message in str(error.value)
    assert contents(tmp_path) == before


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(
        InputError, match=r"cannot be written \(Not a directory\)\. Choose another `out`"
    ):
        start(configure(TASK, **SETTINGS), tmp_path / "file" / "run")


def test_all_seeds_must_be_seeds(tmp_path):
    with pytest.raises(InputError, match="`seed` is 4294967296; it must be from 0 to 4294967295"):
        start(configure(TASK, **SETTINGS, seed=2**32 - 1), tmp_path / "run", num_seeds=2)
    with pytest.raises(InputError, match="`num_seeds` is 0; it must be at least 1"):
        start(configure(TASK, **SETTINGS), tmp_path / "run", num_seeds=0)
    for number in ("2", 2.0, True, None):
        with pytest.raises(InputError, match=f"`num_seeds` is {number!r}; it must be a whole num"):
            start(configure(TASK, **SETTINGS), tmp_path / "run", num_seeds=number)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------- a loss that breaks


@dataclasses.dataclass(frozen=True)
class BrokenSoon(Broken):
    """Broken, with episodes short enough for evaluations."""

    @property
    def spec(self):
        return dataclasses.replace(super().spec, time_limit=64)


BROKEN = (
    r"The loss of seed 0 is not a finite number after update 3\. The environment is the cause: the "
    r"reward of agent 0 in environment 0 is nan at its step 41\. Other settings will not help"
)


@pytest.mark.usefixtures("often")
def test_a_loss_that_is_not_finite_stops_the_run_at_its_last_good_checkpoint(tmp_path, monkeypatch):
    """Steps from 41 on give NaN; with 16 steps per rollout, that is in the third update."""
    monkeypatch.setitem(TASKS, "broken", Task("broken", partial(BrokenSoon, 40)))
    directory = tmp_path / "run"
    with pytest.raises(NonFiniteLoss, match=BROKEN):
        train("broken", out=directory, preset="smoke", steps=6 * STEPS, num_evaluations=6)
    assert checkpoint.updates(directory / "checkpoint") == [1, 2]
    assert read_table(directory / "training.csv")["update"].tolist() == [1, 2, 3]
    assert not (directory / "summary.json").exists()
    last = checkpoint.load(directory / "checkpoint")
    assert all(
        np.isfinite(x).all() for name, x in last.arrays.items() if name.startswith("params/")
    )
    assert load_policy(directory, "last").spec.name == "broken"
    with pytest.raises(NonFiniteLoss, match=BROKEN):  # the same again, and still nothing is lost
        resume(directory)
    assert checkpoint.updates(directory / "checkpoint") == [1, 2]


def test_a_loss_that_is_not_finite_comes_with_a_command(tmp_path, monkeypatch):
    """It can be copied: no word of the next sentence follows it directly."""
    mars = OBJECTIVES["mars"]
    broken = dataclasses.replace(mars, surrogate=lambda u, a, bounds: u * jnp.nan)
    monkeypatch.setitem(OBJECTIVES, "mars", broken)
    message = rf"\(ratiosym train --from '{tmp_path}/run' --actor-learning-rate 6\.25e-05\)\.$"
    with pytest.raises(NonFiniteLoss, match=message):
        start(configure(TASK, **SETTINGS), tmp_path / "run")


@pytest.mark.parametrize(
    ("num_good", "updates"), [(40, [1, 2, 3]), pytest.param(0, [1], marks=pytest.mark.slow)]
)
def test_rows_up_to_a_broken_loss_are_kept(tmp_path, monkeypatch, num_good, updates):
    """The message sends the user to training.csv: it must be there, however far the next evaluation
    is, with the update that failed, also if that was the first.
    """
    monkeypatch.setitem(TASKS, "broken", Task("broken", partial(BrokenSoon, num_good)))
    with pytest.raises(NonFiniteLoss, match=f"nan at its step {num_good + 1}"):
        train("broken", out=tmp_path / "run", preset="smoke", steps=6 * STEPS, num_evaluations=1)
    table = read_table(tmp_path / "run" / "training.csv")
    assert table["update"].tolist() == updates
    assert np.isfinite(table["value_loss"]).tolist() == [True] * (len(updates) - 1) + [False]


# --------------------------------------------------------------------------------------- the policy


@pytest.mark.parametrize("which", ["best", "last"])
def test_a_policy_acts_for_one_environment_and_for_many(whole, which, key):
    policy, env = load_policy(whole, which), make(TASK)
    _, observation = env.reset(key)
    action, carry = policy.act(observation, policy.initial_carry(), key)
    assert action.shape == (3, 5)
    assert carry.shape == (3, 32)
    assert (jnp.abs(action) < 1).all()
    _, many = jax.vmap(env.reset)(jax.random.split(key, 4))
    actions, carries = policy.act(many, policy.initial_carry((4,)), key)
    assert actions.shape == (4, 3, 5)
    assert carries.shape == (4, 3, 32)
    firsts = jax.tree.map(lambda x: x[2], many)
    one, _ = policy.act(firsts, policy.initial_carry(), key, greedy=True)
    all_of_them, _ = policy.act(many, policy.initial_carry((4,)), key, greedy=True)
    np.testing.assert_allclose(one, all_of_them[2], rtol=1e-4, atol=1e-6)


def test_a_greedy_policy_needs_no_luck_and_a_sampled_one_has_some(whole, key):
    policy, other = load_policy(whole), jax.random.key(7)
    _, observation = make(TASK).reset(key)
    carry = policy.initial_carry()
    greedy = [policy.act(observation, carry, k, greedy=True)[0] for k in (key, other)]
    sampled = [policy.act(observation, carry, k)[0] for k in (key, key, other)]
    np.testing.assert_array_equal(*greedy)
    np.testing.assert_array_equal(sampled[0], sampled[1])
    assert not np.array_equal(sampled[0], sampled[2])


def test_a_policy_remembers(whole, key):
    policy = load_policy(whole)
    _, observation = make(TASK).reset(key)
    first, carry = policy.act(observation, policy.initial_carry(), key, greedy=True)
    second, _ = policy.act(observation, carry, key, greedy=True)
    assert not np.array_equal(first, second)


def test_best_and_last_are_different_parameters_where_the_last_is_not_the_best(whole):
    table = read_table(whole / "evaluations.csv")
    assert table["mean_return"].argmax() < 12 // 2  # so this run can distinguish them
    found = checkpoint.load(whole / "checkpoint").arrays
    best, last = load_policy(whole).params, load_policy(whole, "last").params
    names = flatten(best).keys()
    assert all(np.array_equal(x, found[f"best_params/actor/{n}"]) for n, x in flatten(best).items())
    assert all(np.array_equal(x, found[f"params/actor/{n}"]) for n, x in flatten(last).items())
    assert any(not np.array_equal(flatten(best)[n], flatten(last)[n]) for n in names)


def test_a_policy_in_a_loop_of_ones_own_does_as_well_as_evaluate_says(whole, key):
    policy, env, num_episodes = load_policy(whole), make(TASK), 512
    reset, step = jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))
    state, observation = reset(jax.random.split(key, num_episodes))
    carry, returns = policy.initial_carry((num_episodes,)), np.zeros(num_episodes)
    for time_step in range(env.spec.time_limit):
        act_key, env_key = jax.random.split(jax.random.fold_in(key, time_step))
        action, carry = policy.act(observation, carry, act_key)
        state, outcome = step(jax.random.split(env_key, num_episodes), state, action)
        observation = outcome.observation
        returns += np.asarray(outcome.reward).mean(-1)
    assert np.asarray(outcome.truncated).all()
    said = np.asarray(evaluate(whole, num_episodes, seed=5).returns)
    error = np.sqrt(returns.var() / num_episodes + said.var() / num_episodes)
    assert abs(returns.mean() - said.mean()) < 4 * error
    assert 0.8 < returns.std() / said.std() < 1.25


@pytest.mark.parametrize("num_episodes", [5, 11])
def test_evaluate_plays_as_many_episodes_as_asked(whole, num_episodes):
    episodes = evaluate(whole, num_episodes)
    assert episodes.returns.shape == episodes.lengths.shape == (num_episodes,)
    assert (episodes.lengths == 26).all()
    assert {name: x.shape for name, x in episodes.metrics.items()} == dict.fromkeys(
        ("covered", "collisions"), (num_episodes,)
    )
    assert np.unique(episodes.returns).size == num_episodes  # all episodes differ


def test_evaluate_repeats_the_absolute_metric_and_depends_on_its_seed(whole):
    absolute = read_json(whole / "summary.json")["absolute_metric"]
    assert describe(evaluate(whole, 320)) == absolute
    assert describe(evaluate(whole, 320, seed=1)) != absolute
    assert describe(evaluate(whole, 320, "last")) != absolute


def test_a_policy_plays_tasks_of_its_sizes():
    def fits(own, other):
        trained.check_task_fits(make(own).spec, other)

    fits("paxmen-4a", "paxmen-4a-heldout")
    fits("aerojax-2v2", "aerojax-2v2-l4")
    with pytest.raises(
        InputError, match=r"cannot play 'aerojax-4v4' \(num agents 4, not 2; .*Choose a task"
    ):
        fits("aerojax-2v2", "aerojax-4v4")


@pytest.mark.parametrize("seed", [-1, 2**32, 99999999999999, 0.5])
def test_seeds_that_would_be_others_in_disguise(whole, seed, tmp_path):
    for action in (
        lambda: evaluate(whole, 8, seed=seed),
        lambda: play_baselines("paxmen-4a", 8, seed),
        lambda: render(whole, tmp_path / "film.gif", seed=seed),
    ):
        with pytest.raises(InputError, match=f"`seed` is {seed}; it must be"):
            action()


def test_wrong_questions_about_a_policy(whole, whole_seeds, tmp_path):
    with pytest.raises(InputError, match="`which` is 'newest'; it must be 'best' or 'last'"):
        load_policy(whole, "newest")
    with pytest.raises(InputError, match="`which` is 'newest'; it must be 'best' or 'last'"):
        evaluate(whole, 8, "newest")
    with pytest.raises(InputError, match="`num_episodes` is 0; it must be at least 1"):
        evaluate(whole, 0)
    with pytest.raises(InputError, match=r"`num_episodes` is 2\.5; it must be a whole number"):
        evaluate(whole, 2.5)
    with pytest.raises(
        InputError, match=r"holds several seeds \(seed-0, seed-1\)\. Name one, as in '.*seed-0'"
    ):
        load_policy(whole_seeds)
    with pytest.raises(InputError, match="does not hold a run"):
        load_policy(tmp_path)
    (tmp_path / "config.json").write_text((whole / "config.json").read_text())
    with pytest.raises(checkpoint.CheckpointError, match="There is no checkpoint in"):
        load_policy(tmp_path)
