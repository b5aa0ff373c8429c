"""Selection of commands, and their help texts."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from ratiosym import cli
from ratiosym.cli.arguments import field_docs, to_flag
from ratiosym.cli.commands import COMMANDS, build_command, find_command, load_command
from ratiosym.cli.demo import Demo
from ratiosym.cli.evaluate import Evaluate
from ratiosym.experiments.built_in import BUILT_IN
from ratiosym.experiments.settings import read_shipped
from ratiosym.learning.config import Hyperparameters, RunShape
from ratiosym.objectives import OBJECTIVES, Objective, Parameter, additive, barrier
from ratiosym.runs.directory import default_directory
from tests.example_runs import TASK, environment

SMOKE = ("train", TASK, "--preset", "smoke")


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def flat(text):
    return " ".join(text.split())


# --------------------------------------------------------------------------------------------- help


def test_the_overview_names_every_command(ask):
    text = ask("--help")
    assert text == ask("-h")
    for name in COMMANDS:
        assert re.search(rf"^  {name} +[A-Z]", text, re.MULTILINE), name
    assert "Train a policy on a task, or resume a run." in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_family_of_commands(ask):
    text = ask("study", "--help")
    assert text.startswith("usage: ratiosym study COMMAND [options]")
    assert "study run " in text
    assert "study status " in text
    assert "train" not in text
    assert "study run" in ask("study", code=2)


def test_the_version(ask):
    assert re.fullmatch(r"ratiosym \d+\.\d+\.\d+\n", ask("--version"))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_and_shows_values(ask, name):
    """Usage, examples and options fit 80 columns, without ``None``, and no text is lost."""
    text = ask(*name.split(), "--help")
    assert text.startswith(f"usage: ratiosym {name} ")
    assert max(map(len, text.splitlines())) <= 80
    assert "None" not in text
    assert not re.search(r"[Dd]ecision \d", text)
    for doc in field_docs(load_command(name)).values():
        # the fields ``settings`` and ``given`` are not options
        is_internal = doc.startswith(("All other options", "The names of all", "Steps, eval"))
        assert flat(doc) in flat(text) or is_internal


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("train", [to_flag(f.name) for f in dataclasses.fields(Hyperparameters)]),
        ("train", [to_flag(f.name) for f in dataclasses.fields(RunShape)]),
        ("train", ["TASK", "--preset", "--objective", "--out", "--resume", "--seed"]),
        ("train", ["--num-seeds", "--steps", "--num-evaluations", "--track", "--tuned"]),
        ("train", ["--coordinator", "--num-processes", "--process-id", "--hidden-size"]),
        ("train", ["--anneal-learning-rates", "--config", *OBJECTIVES]),
        ("train", [to_flag(p.name) for o in OBJECTIVES.values() for p in o.parameters]),
        ("train", ["ratiosym train TASK", "package.module:function", "jumanji:NAME"]),
        ("tune", ["TASK", "--all", "--trials", "--num-seeds", "--storage", "PGPASSWORD"]),
        ("evaluate", ["DIR", "--episodes", "--which", "{best,last}", "--seed"]),
        ("baselines", ["TASK", "--episodes", "--seed"]),
        ("render", ["DIR|TASK", "--team", "--which", "--seed", "--out"]),
        ("play", ["TASK", "--agent", "--team", "--seed"]),
        ("tasks", ["--json"]),
        ("figures", ["{objectives,runs,response,aerojax}", "--out", "--show"]),
        ("study run", ["PLAN", "--out", "--executor", "--workers", "--cpus", "--gpus"]),
        ("study run", ["--retry-failed", "RAY_ADDRESS", "--tuned", "--shard", *BUILT_IN]),
        ("reproduce", ["PLAN", "--out", "--only", "--shard", "--storage", "--name", "--track"]),
        ("reproduce", ["--executor", "--workers", "--cpus", "--gpus", "--retry-failed", *BUILT_IN]),
        ("tune", ["--search", "{paper,trust-region}", "N|all", "--shard"]),
        ("study status", ["DIR"]),
        ("report", ["DIR", "--out", "--seed", "marl-eval.json", "report.html"]),
        ("demo", ["--out", "--task", "--steps"]),
        ("doctor", ["wrong"]),
    ],
)
def test_help_names_every_option(ask, command, options):
    text = flat(ask(*command.split(), "--help"))
    for name in options:
        assert name in text


def test_help_explains_every_option_of_train(ask):
    """Every option has a help text."""
    text = flat(ask("train", "--help").partition("\nrun:\n")[2])
    options = [o for o in find_command(["train"]).options if not o.arg.is_positional]
    assert len(options) > 40
    for option in options:
        said = text.replace(", --no-", " no-").partition(f" {option.flag} ")[2].partition(" --")[0]
        assert len(said.split()) >= 4, option.flag


def test_help_is_grouped(ask):
    text = ask("train", "--help")
    titles = re.findall(r"^(\w+):$", text, re.MULTILINE)
    assert titles == ["examples", "run", "objective", "optimisation", "network", "devices"]
    parts = dict(zip(titles, re.split(r"^\w+:$", text, flags=re.MULTILINE)[1:], strict=True))
    assert "--critic-depth" in parts["network"]
    assert "--b-upper" in parts["objective"]
    assert "--num-epochs" in parts["optimisation"]
    assert "--coordinator" in parts["devices"]
    assert "--out" in parts["run"]


@pytest.mark.parametrize(
    ("words", "defaults"),
    [
        ((), {"steps": 1000000, "num-envs": 32, "b-upper": 2, "objective": "mars"}),
        (("--preset", "paper"), {"steps": 80000000, "num-envs": 128}),
        (("aerojax-2v2-l4", "--preset=paper"), {"steps": 240000000, "num-evaluations": 122}),
        (("--objective", "mappo"), {"objective": "mappo", "epsilon": 0.2}),
        (("--preset", "smoke", "--steps", "9"), {"steps": 512, "actor-hidden-size": 32}),
    ],
)
def test_help_shows_the_defaults_of_what_was_named(ask, words, defaults):
    text = flat(ask("train", *words, "--help"))
    for name, value in defaults.items():
        assert shown_default(text, name) == str(value)


def test_help_shows_tuned_settings(ask):
    task, entries = next(iter(read_shipped().items()))
    text = flat(ask("train", task, "--tuned", "--help"))
    for name, value in entries["mars"]["options"].items():
        assert float(shown_default(text, name.replace("_", "-"))) == pytest.approx(value)


def shown_default(text, name):
    return re.search(rf" --{name} (?:(?! --).)*?\(default: ([^)]*)\)", text)[1]


def test_help_shows_the_objective_of_a_module(ask, here, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(here)])
    (here / "own_objective.py").write_text(
        "from ratiosym.objectives import Objective, Parameter, additive, barrier\n"
        "parameter = Parameter('epsilon_own', 0.3, 0, 1, (0.1,), 'How wide it is.')\n"
        "OBJECTIVE = Objective('own', 'Own', barrier, lambda epsilon_own: additive(epsilon_own), "
        "(parameter,))\n"
    )
    named = ("--objective", "own_objective:OBJECTIVE")
    text = flat(ask("train", *named, "--help"))
    assert "--epsilon-own FLOAT For own_objective:OBJECTIVE: How wide it is. (default: 0.3)" in text
    config = command(*SMOKE, *named, "--epsilon-own", "0.4").run_config()
    assert config.objective_parameters == {"epsilon_own": 0.4}
    assert "Unknown option '--epsilon-own'" in ask(*SMOKE, "--epsilon-own", "0.4", code=2)
    (here / "config.json").write_text(json.dumps({"config": config.to_dict()}))
    again = command("train", "--config", "config.json", "--epsilon-own", "0.5").run_config()
    assert again.objective_parameters == {"epsilon_own": 0.5}
    assert len(default_directory(again, 1).parts) == 4


def test_registered_objectives_have_options(ask, monkeypatch):
    parameter = Parameter("width", 0.3, 0, 1, (0.1,), "How wide it is.")
    own = Objective("own", "Own", barrier, lambda width: additive(width), (parameter,))
    monkeypatch.setitem(OBJECTIVES, "own", own)
    assert "--width FLOAT For own: How wide it is. (default: 0.3)" in flat(ask("train", "--help"))
    config = command(*SMOKE, "--objective", "own", "--width", "0.4").run_config()
    assert config.objective_parameters == {"width": 0.4}


def command(*words):
    return build_command(find_command(words))


# -------------------------------------------------------------------------------------- wrong words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("traim",), "Unknown command 'traim'. Closest: 'train'. 'ratiosym --help' lists all"),
        (("study", "stat"), "Unknown command 'study stat'. Closest: 'study status'."),
        (("zzz",), "Unknown command 'zzz'. 'ratiosym --help' lists all commands."),
        (("--preset", "cpu"), "Name a command before '--preset'."),
        ((), "train"),
        (
            (*SMOKE, "--lr", "3e-4"),
            "Unknown option '--lr'. Closest: '--actor-learning-rate'. 'ratiosym train --help' ex",
        ),
        ((*SMOKE, "--learning_rate", "1"), "Closest: '--actor-learning-rate'."),
        ((*SMOKE, "--gamma", "1"), "Closest: '--discount'."),
        ((*SMOKE, "--wandb", "mine"), "Closest: '--track wandb'."),
        ((*SMOKE, "--task", "mine"), "Closest: 'TASK'."),
        ((*SMOKE, "--num-env", "4"), "Closest: '--num-envs'."),
        (
            (*SMOKE, "--critic", "locl"),
            "--critic is 'locl'; it must be one of central, local, joint, individual.",
        ),
        ((*SMOKE, "--num-envs", "many"), "--num-envs is 'many'; it must be a whole number."),
        ((*SMOKE, "--steps"), "--steps needs a value."),
        (("evaluate",), "DIR is missing. 'ratiosym evaluate --help' explains all options."),
        (("evaluate", "nowhere", "--which", "newest"), "it must be one of best, last."),
        (
            ("figures", "curve"),
            "runs, curves, response, aerojax. Closest: 'curv",
        ),
        (("figures", "objectives", "runs/x"), "Unexpected argument 'runs/x'"),
    ],
)
def test_words_that_are_no_command_line(ask, here, words, said):
    message = ask(*words, code=2)
    assert said in message
    assert "Traceback" not in message
    assert list(here.iterdir()) == []


def test_defaults_of_the_small_commands(here):
    assert command("demo") == Demo()
    assert command("evaluate", str(here)) == Evaluate(str(here))


# ------------------------------------------------------------------------------------------- errors


class Failing(cli.Command):
    error: Exception = OSError(28, "No space left on device", "somewhere/file")

    def run(self):
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "No space left on device", "x/y"),
            "'x/y' cannot be read or written (No space",
        ),
        (
            PermissionError(13, "Permission denied"),
            "cannot be read or written (Permission denied).",
        ),
        (cli.InputError("`steps` is \x1b[2J"), "--steps is \\x1b[2J"),
    ],
)
def test_what_the_user_can_put_right_is_one_sentence(ask, monkeypatch, error, said):
    monkeypatch.setattr(Failing, "error", error)
    monkeypatch.setattr(cli, "build_command", lambda asked: Failing())
    message = ask(*SMOKE, code=2)
    assert message.startswith("ratiosym: ")
    assert said in message
    assert message.count("\n") == 1


def test_a_mistake_of_ours_is_not_hidden(ask, monkeypatch):
    monkeypatch.setattr(Failing, "error", RuntimeError("ours"))
    monkeypatch.setattr(cli, "build_command", lambda asked: Failing())
    with pytest.raises(RuntimeError, match="ours"):
        ask(*SMOKE)


def test_an_interruption_has_its_own_exit_code(ask, monkeypatch):
    monkeypatch.setattr(Failing, "error", KeyboardInterrupt())
    monkeypatch.setattr(cli, "build_command", lambda asked: Failing())
    assert ask(*SMOKE, code=130) == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["train", "--help"],
        ["tasks"],
        ["traim"],
        ["train", TASK, "--steps", "1"],
        ["train", TASK, "--track", "nothing"],
        ["train", TASK, "--num-seeds", "0"],
        ["train", TASK, "--out", __file__],
        *(["train", option, "nothing"] for option in ("--resume", "--from", "--config")),
        *([command, "nothing"] for command in ("evaluate", "render", "play", "baselines")),
        *([command, "zoo:nothing"] for command in ("evaluate", "render")),
        *([command, "nothing"] for command in ("tune", "reproduce", "report")),
        ["study", "run", "nothing"],
        ["study", "status", "nothing"],
        ["figures", "runs", "nothing"],
    ],
    ids=" ".join,
)
def test_help_errors_and_the_list_of_tasks_do_not_wait_for_jax(words):
    """JAX alone takes a second to import."""
    program = (
        "import sys\n"
        "from ratiosym.cli import main\n"
        "try:\n"
        f"    main({words})\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'optax', 'matplotlib', 'optuna'} & set(sys.modules), 'slow'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr
