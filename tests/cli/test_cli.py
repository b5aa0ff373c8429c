"""End-to-end tests of the commands: messages for wrong input, output and results.

Help and options are tested in test_commands.py and test_train.py.
"""

import dataclasses
import importlib.metadata
import json
import os
import pty
import re
import shutil
import subprocess
from functools import partial

import matplotlib.image
import pytest

from ratiosym.envs.tasks import TASKS, Task
from ratiosym.experiments.presets import preset
from ratiosym.runs import checkpoint, loop
from ratiosym.runs.files import read_json
from ratiosym.runs.tables import read_table
from tests.example_runs import COMMAND, STEPS, TASK, contents, environment, run_command
from tests.runs.test_loop import BrokenSoon


def expect_picture(path):
    assert path.read_bytes().startswith(b"\x89PNG")
    assert matplotlib.image.imread(path)[..., :3].std() > 0.02  # not blank


# -------------------------------------------------------------------------------------- wrong input

SMOKE = ("train", TASK, "--preset", "smoke")

WRONG = {
    "unknown task": (
        ("train", "mpe-spread-3agents"),
        (
            "Unknown task 'mpe-spread-3agents'.",
            "Closest: 'mpe-spread-3ag'.",
            "List all with 'ratiosym tasks'",
        ),
    ),
    "task like no other": (
        ("train", "zzz"),
        ("Unknown task 'zzz'. List all with 'ratiosym tasks'",),
    ),
    "empty task": (("train", ""), ("Unknown task ''.", "'ratiosym tasks'")),
    "no task": (
        ("train",),
        ("Name a task, as in 'ratiosym train mpe-spread-3ag'", "'ratiosym tasks'"),
    ),
    "unknown objective": (
        (*SMOKE, "--objective", "marz"),
        ("Unknown objective 'marz'.", "Closest: 'mars'.", "Choose one of: mars, mappo, maspo,"),
    ),
    "unknown preset": (
        ("train", TASK, "--preset", "papr"),
        ("Unknown preset 'papr'.", "Choose one of: paper, cpu, smoke."),
    ),
    "preset without a name": (
        ("train", TASK, "--preset"),
        ("--preset needs a value. 'ratiosym train --help' explains all options.",),
    ),
    "upper bound below 1": (
        (*SMOKE, "--b-upper", 0.9),
        (
            "Objective 'mars': --b-upper is 0.9; it must be a finite number above 1",
            "for example 2.",
        ),
    ),
    "lower bound above 1": (
        (*SMOKE, "--b-lower", 1.1),
        (
            "'mars': --b-lower is 1.1",
            "above 0 and below 1",
        ),
    ),
    "lower bound of 0": (
        (*SMOKE, "--b-lower", 0),
        (
            "'mars': --b-lower is 0.0",
            "above 0 and below 1",
        ),
    ),
    "lower bound below 0": (
        (*SMOKE, "--b-lower", -0.5),
        (
            "'mars': --b-lower is -0.5",
            "above 0 and below 1",
        ),
    ),
    "bound of 1": (
        (*SMOKE, "--b-upper", 1),
        (
            "'mars': --b-upper is 1.0",
            "above 1",
        ),
    ),
    "bound that is no number": (
        (*SMOKE, "--b-upper", "nan"),
        ("--b-upper is nan; it must be a finite number",),
    ),
    "infinite bound": (
        (*SMOKE, "--b-upper", "inf"),
        ("--b-upper is inf; it must be a finite number",),
    ),
    "multiplicative b below 1": (
        (*SMOKE, "--objective", "mars-multiplicative", "--b", 0.5),
        (
            "'mars-multiplicative': --b is 0.5",
            "above 1",
        ),
    ),
    "additive b of 2": (
        (*SMOKE, "--objective", "mars-additive", "--b", 2),
        (
            "'mars-additive': --b is 2.0",
            "above 1 and below 2",
        ),
    ),
    "additive b above 2": (
        (*SMOKE, "--objective", "mars-additive", "--b", 3.5),
        (
            "'mars-additive': --b is 3.5",
            "above 1 and below 2",
        ),
    ),
    "epsilon of 1": (
        (*SMOKE, "--objective", "mappo", "--epsilon", 1),
        (
            "'mappo': --epsilon is 1.0",
            "above 0 and below 1",
        ),
    ),
    "epsilon below 0": (
        (*SMOKE, "--objective", "maspo", "--epsilon", -0.2),
        (
            "'maspo': --epsilon is -0.2",
            "above 0 and below 1",
        ),
    ),
    "lower epsilon of 1": (
        (*SMOKE, "--objective", "mappo-asymmetric", "--epsilon-lower", 1),
        (
            "'mappo-asymmetric': --epsilon-lower is 1.0",
            "above 0 and below 1",
        ),
    ),
    "lower epsilon above 1": (
        (*SMOKE, "--objective", "maspo-asymmetric", "--epsilon-lower", 1.5),
        (
            "'maspo-asymmetric': --epsilon-lower is 1.5",
            "above 0 and below 1",
        ),
    ),
    "another objective's parameter": (
        (*SMOKE, "--objective", "mappo", "--b-upper", 2),
        ("Objective 'mappo' has no parameter --b-upper. It takes: --epsilon (0.2).",),
    ),
    "unknown task before a small budget": (
        ("train", "mpe-spread-3agents", "--steps", 1),
        ("Unknown task 'mpe-spread-3agents'.",),
    ),
    "unknown task of your own": (
        ("train", "nowhere.py:make"),
        ("The task 'nowhere.py:make' cannot be loaded: there is no file",),
    ),
    "unknown network": (
        (*SMOKE, "--network", "gur"),
        ("Unknown network 'gur'. Closest: 'gru'.",),
    ),
    "distribution of discrete actions": (
        ("train", "connector-5x5x3a", "--preset", "smoke", "--action-distribution", "clipped"),
        (
            "--action-distribution is 'clipped', but the actions of 'connector-5x5x3a' are",
            "discrete.",
        ),
    ),
    "untuned settings": (
        ("train", "paxmen-5a", "--tuned"),
        ("There are no tuned settings for mars on 'paxmen-5a'.", "Omit --tuned"),
    ),
    "seed of an evaluation": (
        ("evaluate", "nowhere", "--seed", -1),
        ("--seed is -1; it must be from 0 to 4294967295.",),
    ),
    "large seed of a film": (
        ("render", "paxmen-4a", "--seed", 99999999999999),
        ("--seed is 99999999999999; it must be from 0 to 4294967295.",),
    ),
    "seed of scripted teams": (
        ("baselines", "paxmen-4a", "--seed", -1),
        ("--seed is -1; it must be from 0 to 4294967295.",),
    ),
    "film nowhere": (
        ("render", TASK, "--out", "/proc/film.gif"),
        ("'/proc/film.gif' cannot be written (", "Choose another --out."),
    ),
    "figure nowhere": (
        ("figures", "objectives", "--out", "/proc/figure.png"),
        ("'/proc/figure.png' cannot be written (", "Choose another --out."),
    ),
    "directory that is not UTF-8": (
        ("train", TASK, "--out", "run-\udcff"),
        ("'run-\\udcff' is not UTF-8 text. Use another name.",),
    ),
    "small budget": (
        (*SMOKE, "--steps", 127),
        (
            "A budget of 127 steps is smaller than one update, which takes 128",
            "(8 environments x 16",
            "Raise --steps",
        ),
    ),
    "no budget": (
        (*SMOKE, "--steps", 0),
        ("--steps is 0; it must be from 1 to ",),
    ),
    "minibatches": (
        (*SMOKE, "--num-minibatches", 3),
        (
            "4 environments per group",
            "cannot be split into 3 equal minibatches. Make --num-minibatches a divisor of 4",
        ),
    ),
    "groups": (
        (*SMOKE, "--update-batch-size", 3),
        ("8 environments cannot be split into 3 equal groups", "Make --num-envs a multiple"),
    ),
    "no seeds": ((*SMOKE, "--num-seeds", 0), ("--num-seeds is 0; it must be at least 1.",)),
    "seed": ((*SMOKE, "--seed", -1), ("--seed is -1; it must be from 0 to 4294967295.",)),
    "learning rate": (
        (*SMOKE, "--actor-learning-rate", 0),
        ("--actor-learning-rate is 0; it must be a number above 0.",),
    ),
    "discount": (
        (*SMOKE, "--discount", 1.5),
        ("--discount is 1.5; it must be a number from 0 to 1.",),
    ),
    "evaluations": (
        (*SMOKE, "--num-evaluations", 0),
        ("--num-evaluations is 0; it must be from 1 to ",),
    ),
    "resume of nothing": (
        ("train", "--resume", "nowhere"),
        (
            "'nowhere' does not hold a run: there is no config.json in it.",
            "ratiosym train TASK --out 'nowhere'",
        ),
    ),
    "hosts": (
        (*SMOKE, "--num-processes", 2),
        (
            "Several hosts need all three of --coordinator (HOST:PORT), --num-processes (N) and "
            "--process-id",
        ),
    ),
    "evaluation of nothing": (
        ("evaluate", "nowhere"),
        ("'nowhere' does not hold a run: there is no config.json in it.",),
    ),
    "pictures of nothing": (
        ("figures", "runs", "nowhere"),
        ("No run in: nowhere.", "Name directories created by 'ratiosym train'."),
    ),
    "response of nothing": (
        ("figures", "response", "nowhere"),
        ("'nowhere' is not a directory. Name a study or searches.",),
    ),
    "pictures of no directory": (
        ("figures", "runs"),
        ("No run in: (no directory was given).", "Name directories"),
    ),
    "picture of another kind": (
        ("figures", "objectives", "--out", "figure.jpeg"),
        ("--out is 'figure.jpeg'; its name must end in .png or .pdf.",),
    ),
    "demo of another task": (
        ("demo", "--task", "zzz"),
        ("Unknown task 'zzz'.", "List all with 'ratiosym tasks'"),
    ),
    "demo of a small budget": (
        ("demo", "--steps", 10),
        ("A budget of 10 steps is smaller than one update",),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_paragraph_and_exit_code_2(ask, here, name):
    words, parts = WRONG[name]
    message = ask(*words, code=2)
    assert message.startswith("ratiosym: ")
    assert message.count("\n") == 1
    assert "Traceback" not in message
    for part in parts:
        assert part in message
    assert list(here.iterdir()) == []


def test_a_directory_that_holds_a_run_is_left_alone(ask, whole):
    before = contents(whole)
    message = ask(*SMOKE, "--out", whole, code=2)
    assert message == (
        f"ratiosym: '{whole}' already holds a run. Resume it: ratiosym train --resume "
        f"'{whole}'. "
        f"Or choose another --out; nothing was changed.\n"
    )
    assert contents(whole) == before


def test_a_damaged_checkpoint_is_one_paragraph(whole, here):
    """Runs in its own process, to check that no library prints errors of its own."""
    directory = shutil.copytree(whole, here / "run")
    files = [p for p in (directory / "checkpoint" / "12").rglob("*") if p.is_file()]
    for path in files:
        if path.stat().st_size > 10_000:
            path.write_bytes(b"nonsense")
    before = contents(directory)
    for words in (("train", "--resume", directory), ("evaluate", directory)):
        done = run_command(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(
            f"ratiosym: The checkpoint '{directory / 'checkpoint' / '12'}' is damaged ("
        )
        assert "The one after update 0 is still there" in done.stderr
        assert done.stderr.count("\n") == 1
    assert contents(directory) == before


def test_a_loss_that_is_not_finite(ask, here, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setitem(TASKS, "broken", Task("broken", partial(BrokenSoon, 40)))
    words = ("--steps", 6 * STEPS, "--num-evaluations", 6, "--out", "run")
    message = ask("train", "broken", "--preset", "smoke", *words, code=2)
    assert message.startswith(
        "ratiosym: The loss of seed 0 is not a finite number after update 3. The environment is the"
    )
    assert message.endswith("The last good checkpoint is in 'run'.\n")
    assert message.count("\n") == 1
    assert checkpoint.updates(here / "run" / "checkpoint") == [1, 2]
    assert checkpoint.load(here / "run" / "checkpoint").meta.update == 2


@pytest.mark.slow
def test_a_learning_rate_that_is_far_too_large(ask, here):
    message = ask(*SMOKE, "--actor-learning-rate", 1e30, "--out", "run", code=2)
    assert re.match(
        r"ratiosym: The loss of seed 0 is not a finite number after update \d\. Lower the learning",
        message,
    )
    assert "ratiosym train --from 'run' --actor-learning-rate 2.5e+29)." in message
    assert checkpoint.load(here / "run" / "checkpoint").meta.update == 0
    words = ("--actor-learning-rate", 2.5e-4, "--steps", 2 * STEPS)
    text = ask("train", "--from", "run", *words, "--out", "second")  # the advice works
    assert "Directory: second" in text
    record = read_json(here / "second" / "config.json")
    assert record["parent"]["run"] == str(here / "run")
    assert record["parent"]["update"] == 0
    assert record["config"]["hyperparameters"]["actor_learning_rate"] == 2.5e-4


# -------------------------------------------------------------------------------------------- train


def test_resume_refuses_other_settings(ask, whole):
    before = contents(whole)
    message = ask("train", "--resume", whole, "--b-upper", 2, code=2)
    assert message.count("\n") == 1
    assert "Omit --b-upper; only --steps can be given" in message
    assert contents(whole) == before


def test_train_and_resume(ask, here):
    text = ask(*SMOKE, "--out", "run", "--seed", 4)
    lines = text.splitlines()
    assert re.fullmatch(rf"{TASK} mars  0 of 512 steps  return -\d+\.\d\d", lines[0])
    assert re.fullmatch(
        rf"{TASK} mars  256 of 512 steps  return -\d+\.\d\d  [\d,]+ steps/s  \d+:\d\d left",
        lines[1],
    )
    assert re.fullmatch(
        rf"{TASK} mars  512 of 512 steps  return -\d+\.\d\d  [\d,]+ steps/s  0:00 left", lines[2]
    )
    assert lines[-1] == "Directory: run"
    assert "…" not in text  # the table fits a terminal of 80 columns
    summary = read_json(here / "run" / "summary.json")
    assert f"{summary['absolute_metric']['mean_return']:.2f} ±" in text
    assert read_json(here / "run" / "config.json")["config"]["seed"] == 4
    text = ask("train", "--resume", "run", "--steps", 6 * STEPS)
    assert re.match(rf"{TASK} mars  512 of 768 steps  return -\d+\.\d\d  compiling \.\.\.", text)
    assert read_table(here / "run" / "evaluations.csv")["update"].tolist() == [0, 2, 4, 6]


def test_train_without_a_directory(ask, here):
    ask(*SMOKE, "--steps", STEPS)
    assert (here / "runs" / TASK / "mars" / "seed-0" / "summary.json").exists()


@pytest.mark.slow
def test_train_seeds_side_by_side(ask, here):
    text = ask(*SMOKE, "--num-seeds", 2, "--seed", 5, "--out", "run")
    assert f"{TASK} mars x2  512 of 512 steps" in text
    assert sorted(p.name for p in (here / "run").iterdir()) == ["seed-5", "seed-6", "seeds.json"]
    for seed in (5, 6):
        assert read_json(here / "run" / f"seed-{seed}" / "summary.json")["seed"] == seed
        assert f"Directory: run/seed-{seed}" in text


OUR_LINES = "|".join(
    (
        rf"{TASK} mars  [\d,]+ of [\d,]+ steps  return -?[\d.]+"
        r"(  compiling \.\.\.|  [\d,]+ steps/s  \d+:\d\d left)?",
        rf"{TASK} mars *",
        r"[┏┡└][━┳┓╇┩─┴┘]+",
        r"┃ seed ┃ +before ┃ +after ┃ +best ┃ +absolute ┃ +steps ┃ +steps/s ┃",
        r"│ +0 │ +-[\d.]+ │ +-[\d.]+ │ +-[\d.]+ │ +-[\d.]+ ± [\d.]+ │ +[\d,]+ │ +[\d,]+ │",
        r"Mean returns of evaluation episodes\. The absolute metric is the mean over 320 *",
        r"fresh episodes with the best parameters \(± standard error\)\.",
        r"Directory: .*",
    )
)


def expect_no_chatter(done):
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 12
    for line in lines:
        assert re.fullmatch(OUR_LINES, line), line


def test_train_says_only_what_is_ours(here):
    expect_no_chatter(run_command(*SMOKE, "--out", "run"))


@pytest.mark.slow
def test_a_second_start_is_as_quiet_and_compiles_nothing(here):
    """Only checks the learner's programs: whether JAX caches small ones depends on the machine's
    load.
    """
    cache = {"RATIOSYM_CACHE": str(here / "cache")}

    def programs():
        names = [p.name for p in (here / "cache").rglob("*-cache")]
        return {
            name
            for name in names
            if name.startswith(("jit_collect", "jit_optimise", "jit_evaluate", "jit_init_state"))
        }

    expect_no_chatter(run_command(*SMOKE, "--out", "first", env=cache))
    kept = programs()
    assert {name.split("-")[0] for name in kept} >= {"jit_collect", "jit_optimise", "jit_evaluate"}
    expect_no_chatter(run_command(*SMOKE, "--out", "second", env=cache))
    assert programs() == kept
    assert (here / "first" / "evaluations.csv").read_bytes() == (
        here / "second" / "evaluations.csv"
    ).read_bytes()


def test_on_a_terminal_there_is_a_bar_with_return_speed_and_time_left(here):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *SMOKE, "--steps", str(24 * STEPS), "--out", "run"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm-256color", COLUMNS="140"),
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    assert re.search(rf"{TASK} mars ━+ *return -\d+\.\d\d  [\d,]+ steps/s  0:00 left", text)
    assert "compiling ..." in text
    assert "Directory: run" in text
    assert "of 3,072 steps" not in text  # lines are only printed to files


# ------------------------------------------------------------------------------- the other commands


def test_tasks(ask):
    text = ask("tasks")
    assert f"{len(TASKS)} tasks" in text
    assert all(name in text for name in TASKS)


def test_tasks_whose_sizes_are_not_known(ask, monkeypatch):
    monkeypatch.setitem(TASKS, "other-1", Task("other-1", "no.such.library:make"))
    text = ask("tasks")
    assert re.search(r"other-1 +other *\n", text)
    assert re.search(r"mpe-spread-3ag +mpe +3 ", text)
    assert json.loads(ask("tasks", "--json"))[-1] == {"task": "other-1", "suite": "other"}


def test_tasks_for_programs(ask):
    rows = json.loads(ask("tasks", "--json"))
    assert [row["task"] for row in rows] == list(TASKS)
    assert rows[list(TASKS).index("mpe-spread-3ag")] == {
        "task": "mpe-spread-3ag",
        "suite": "mpe",
        "num_agents": 3,
        "action_kind": "continuous",
        "action_size": 5,
        "observation_size": 18,
        "state_size": 54,
        "time_limit": 26,
    }


def test_doctor_finds_this_installation_well(ask):
    text = ask("doctor")
    for name in (
        "python",
        "jax",
        "jaxlib",
        "orbax-checkpoint",
        "commit",
        "devices",
        "accelerator",
        "lock",
        "jaxmarl",
        "wandb",
    ):
        assert re.search(rf"^ *(ok|-) +{name} ", text, re.MULTILINE), name
    assert re.search(r"devices +2 x cpu; compiled programs in", text)
    assert re.search(r"lock +\d+ packages match requirements\.lock", text)


def test_doctor_says_how_to_get_an_absent_part(ask, monkeypatch):
    monkeypatch.setattr("ratiosym.cli.doctor.find_spec", lambda name: None)
    text = " ".join(ask("doctor").split())
    for part in ("jaxmarl", "jumanji", "pettingzoo", "wandb", "cluster", "report", "tune"):
        assert f"pip install 'ratiosym[{part}]'" in text


def test_doctor_finds_a_package_that_is_not_as_pinned(ask, monkeypatch):
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.0.1" if name == "jax" else version(name)
    )
    text = " ".join(ask("doctor", code=1).split())
    assert f"wrong lock jax 0.0.1 instead of {version('jax')}" in text
    assert "'make install' installs the pinned ones." in text


def test_figures_of_the_objectives(ask, here):
    assert ask("figures", "objectives").split() == ["objectives.png"]
    expect_picture(here / "objectives.png")
    ask("figures", "objectives", "--out", "deep/down/figure.pdf")
    assert (here / "deep" / "down" / "figure.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_figures_of_aerojax(ask, here):
    names = [f"aerojax-{what}.png" for what in ("turns", "energy", "glide", "stall")]
    assert ask("figures", "aerojax").split() == names
    for name in names:
        expect_picture(here / name)


def test_figures_of_runs(ask, here, whole, whole_seeds):
    assert ask("figures", "runs", whole).split() == ["curves.png", "curves-ratios.png"]
    ask("figures", "runs", whole_seeds, whole, "--out", "both.png")
    ask(
        "figures",
        "runs",
        whole,
        "--show",
        "mean_return",
        "covered",
        "entropy",
        "--out",
        "three.png",
    )
    for name in ("curves", "curves-ratios", "both", "both-ratios", "three"):
        expect_picture(here / f"{name}.png")
    heights, widths = zip(
        *(matplotlib.image.imread(here / f"{n}.png").shape[:2] for n in ("curves", "three")),
        strict=True,
    )
    assert heights[0] == heights[1]
    assert widths[1] == 2 * widths[0]
    message = ask("figures", "runs", whole, "--show", "wins", code=2)
    assert "These runs have no column 'wins'. They have: active_approximate_kl, " in message


def test_figures_of_runs_that_do_not_go_together(ask, here, whole):
    other = here / "other"
    shutil.copytree(whole, other, ignore=shutil.ignore_patterns("checkpoint"))
    details = read_json(other / "config.json")
    details["config"]["task"] = "mpe-spread-5ag"
    (other / "config.json").write_text(json.dumps(details))
    message = ask("figures", "runs", whole, other, code=2)
    assert "of different tasks (mpe-spread-3ag, mpe-spread-5ag); draw one task at a time" in message
    (other / "evaluations.csv").unlink()
    message = ask("figures", "runs", other, code=2)
    assert "has no evaluations.csv yet: it has not reached its first evaluation" in message


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("evaluations.csv", "update,steps\n1,2,3\n", "its line 2 has 3 entries, not 2"),
        ("training.csv", "updates\n", "training.csv' has no column 'steps'"),
        ("training.csv", "", "has no training.csv yet: it has not reached its first evaluation"),
        ("evaluations.csv", "steps,mean_return\n", "has no evaluations.csv yet"),
    ],
)
def test_figures_of_damaged_tables(ask, here, whole, name, text, message):
    run = here / "run"
    shutil.copytree(whole, run, ignore=shutil.ignore_patterns("checkpoint"))
    (run / name).write_text(text)
    assert message in ask("figures", "runs", run, code=2)


def test_evaluate(ask, whole, whole_seeds):
    text = ask("evaluate", whole)
    absolute = read_json(whole / "summary.json")["absolute_metric"]
    assert re.search(r"episodes +│ +320 ", text)
    assert re.search(rf"mean return +│ +{absolute['mean_return']:.4g} ", text)
    for name in ("std return", "min return", "max return", "mean length", "covered", "collisions"):
        assert name in text
    fewer = ask("evaluate", whole, "--episodes", 11, "--which", "last", "--seed", 3)
    assert re.search(r"episodes +│ +11 ", fewer)
    assert "holds several seeds (seed-0, seed-1). Name one" in ask("evaluate", whole_seeds, code=2)
    assert "--episodes is 0; it must be at least 1" in ask(
        "evaluate", whole, "--episodes", 0, code=2
    )
    said = ask("evaluate", whole, "--task", "mpe-spread-5ag", code=2)
    assert f"A policy of '{TASK}' cannot play 'mpe-spread-5ag' (num agents 5, not 3;" in said
    assert "Unknown task 'mpe-spread-4ag'. Closest:" in ask(
        "evaluate", whole, "--task", "mpe-spread-4ag", code=2
    )


@pytest.mark.slow
def test_demo_compares_two_objectives_and_is_reused(ask, here, monkeypatch):
    """Uses the sizes of a smoke run, which are already compiled; a slow test runs the real demo."""
    small = dataclasses.asdict(preset("smoke", TASK).shape)
    regions = {"mars": {"b_lower": 0.4, "b_upper": 3.0}, "mappo": {"epsilon": 0.3}}
    shipped = {TASK: {name: {"options": {**small, **own}} for name, own in regions.items()}}
    monkeypatch.setattr("ratiosym.experiments.settings.read_shipped", lambda: shipped)
    text = ask("demo", "--task", TASK, "--steps", 4096)
    assert f"{TASK}, 4,096 steps, one seed each" in text
    for objective, region in (("mars", "0.4 to 3"), ("mappo", "0.7 to 1.3")):
        summary = read_json(here / "demo" / objective / "summary.json")
        assert (summary["objective"], summary["steps"]) == (objective, 4096)
        error = summary["absolute_metric"]["std_return"] / 320**0.5
        training = read_table(here / "demo" / objective / "training.csv")
        lowest, highest = training["ratio_min"].min(), training["ratio_max"].max()
        assert re.search(
            rf"│ {objective} +│ +{region} │ .*"
            rf"{summary['absolute_metric']['mean_return']:.2f} ± {error:.2f} "
            rf"│ +{lowest:.2g} to {highest:.2g} │",
            text,
        )
    for name in ("curves.png", "curves-ratios.png"):
        expect_picture(here / "demo" / name)
        assert f"Picture: demo/{name}" in text
    assert (here / "demo" / "episode.gif").read_bytes().startswith(b"GIF89a")
    assert "Film: demo/episode.gif" in text
    assert checkpoint.updates(here / "demo" / "mars" / "checkpoint")[-1] == 4096 // STEPS
    assert "Checkpoint: demo/mars/checkpoint" in text
    before = contents(here / "demo" / "mars")

    again = ask("demo", "--task", TASK, "--steps", 4096)
    assert "mars has already been trained: demo/mars" in again
    assert "mappo has already been trained: demo/mappo" in again
    assert again.splitlines()[-9:] == text.splitlines()[-9:]
    assert contents(here / "demo" / "mars") == before

    (here / "demo" / "mappo" / "summary.json").unlink()  # as if it had been killed
    taken_up = ask("demo", "--task", TASK, "--steps", 4096)
    assert f"{TASK} mappo  4,096 of 4,096 steps" in taken_up
    assert (here / "demo" / "mappo" / "summary.json").exists()

    message = ask("demo", "--task", TASK, "--steps", 8192, code=2)
    assert (
        "'demo/mars' holds a run with other settings. Choose another --out; nothing was changed."
        in message
    )
    assert contents(here / "demo" / "mars") == before


@pytest.mark.slow
def test_demo_as_it_is(here):
    done = run_command("demo", "--steps", 8192)
    assert (done.returncode, done.stderr) == (0, "")
    for objective in ("mars", "mappo"):
        assert read_json(here / "demo" / objective / "summary.json")["steps"] == 8192
        assert re.search(rf"│ {objective} +│", done.stdout)
    for name in ("curves.png", "curves-ratios.png"):
        expect_picture(here / "demo" / name)


def test_a_reader_that_goes_away_is_no_error():
    done = subprocess.run(
        f"{COMMAND} tasks --json | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("[\n", "")
