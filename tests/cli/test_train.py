"""``ratiosym train`` makes the same configuration of its options as Python."""

import inspect
from pathlib import Path

import pytest

import ratiosym.api
from ratiosym.cli.commands import build_command, find_command
from ratiosym.cli.train import setting_options
from ratiosym.envs.tasks import TASKS, VARIANTS
from ratiosym.errors import InputError
from ratiosym.experiments.presets import PRESETS, configure, option_types
from ratiosym.experiments.settings import read_shipped
from ratiosym.objectives import OBJECTIVES
from tests.example_runs import TASK


def train(*words):
    return build_command(find_command(["train", *map(str, words)]))


def from_python(monkeypatch, task, **options):
    """Return the configuration with which ``ratiosym.train`` starts a run."""
    found = []
    monkeypatch.setattr(ratiosym.api, "start", lambda config, *rest, **more: found.append(config))
    ratiosym.api.train(task, **options)
    return found[0]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_command_line_and_python_agree_for_every_task(monkeypatch, preset):
    for task in (*TASKS, *VARIANTS):
        config = train(task, "--preset", preset).run_config()
        assert config == from_python(monkeypatch, task, preset=preset), task
    assert train("aerojax-2v2-l4", "--preset", "paper").run_config().steps == 240_000_000


def test_the_command_line_and_python_agree_for_every_option(monkeypatch):
    """Give every option that Python knows a value other than its default."""
    values = {
        int: 2,
        float: 0.5,
        bool: True,
        "objective": "mars-additive",
        "network": "feedforward",
        "critic": "local",
        "action_distribution": "clipped",
        "time_limit": "bootstrap",
        "steps": 4096,
        "b": 1.5,
    }
    kinds = {k: v for k, v in option_types("mars-additive").items() if k != "task"}
    assert set(kinds) <= {option.name for option in setting_options(None)}
    options = {name: values.get(name, values.get(kind)) for name, kind in kinds.items()}
    words = []
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        words += [] if value is True else [value]
    config = train(TASK, "--preset", "smoke", *words).run_config()
    assert config == from_python(monkeypatch, TASK, preset="smoke", **options)
    assert config != configure(TASK, "smoke")
    assert (config.shape.critic, config.shape.actor_hidden_size, config.seed) == ("local", 2, 2)
    assert config.objective_parameters == {"b": 1.5}
    assert config.anneal_learning_rates


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives_start_from_equal_settings_unless_tuned(monkeypatch, objective):
    task = next(iter(read_shipped()))
    config = train(task, "--objective", objective).run_config()
    assert config.shape == train(task).run_config().shape
    assert config.hyperparameters == train(task).run_config().hyperparameters
    if objective in read_shipped()[task]:
        tuned = train(task, "--objective", objective, "--tuned").run_config()
        assert tuned == from_python(monkeypatch, task, objective=objective, tuned=True)
        assert tuned != config


def test_options_change_what_the_tuned_settings_say():
    task = next(iter(read_shipped()))
    assert train(task, "--tuned", "--b-upper", 3).run_config().objective_parameters["b_upper"] == 3


def test_both_widths_at_once():
    shape = train(TASK, "--hidden-size", 32, "--critic-hidden-size", 64).run_config().shape
    assert (shape.actor_hidden_size, shape.critic_hidden_size) == (32, 64)


def test_switches_can_be_turned_off():
    assert train(TASK, "--mask-inactive").run_config().shape.mask_inactive
    assert not train(TASK, "--no-mask-inactive").run_config().shape.mask_inactive


def test_the_task_may_stand_anywhere():
    for words in (["jaxnav-8x8x2a", "--preset", "paper"], ["--preset", "paper", "jaxnav-8x8x2a"]):
        assert train(*words).run_config().steps == 240_000_000


def test_large_numbers_may_be_written_short():
    assert train(TASK, "--steps", "2e6").run_config().steps == 2_000_000


def test_trackers_and_networks_of_your_own():
    words = ("--track", "tensorboard", "wandb", "mine:log", "--network", "mine:make")
    command = train(TASK, *words)
    assert command.track == ("tensorboard", "wandb", "mine:log")
    assert command.run_config().shape.network == "mine:make"


def test_python_offers_every_option_by_name():
    """The command line and the typed options of Python have the same names."""
    names = {option.name for option in setting_options(None)}
    own = set(inspect.signature(ratiosym.api.train).parameters)
    offered = set(ratiosym.api.TrainOptions.__annotations__) - {"objective_parameters"}
    assert names == offered | (own & {"objective", "seed"})


# ------------------------------------------------------------------------------------------- resume


def test_resume_takes_its_budget_from_the_run_unless_another_is_given():
    train("--resume", "run").check_resume()
    for steps in (512, 1_000_000, 2_000_000):  # including the preset's own number
        for words in (["--resume", "run", "--steps", steps], [f"--steps={steps}", "--resume=run"]):
            command = train(*words)
            command.check_resume()
            assert command.settings == {"steps": steps}
            assert command.resume == Path("run")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([TASK], "TASK"),
        (["--b-upper", "2"], "--b-upper"),  # even if it is the default
        (["--num-envs", "4", "--discount", "0.5"], "--num-envs, --discount"),
        (["--seed", "0"], "--seed"),
        (["--num-seeds", "2"], "--num-seeds"),
        (["--num-seeds", "1"], "--num-seeds"),
        (["--preset", "smoke"], "--preset"),
        (["--preset", "cpu"], "--preset"),  # even if it is the default
        (["--from", "x"], "--from"),
        (["--tuned"], "--tuned"),
        (["--out", "x"], "--out"),
        (["--config", "x.json"], "--config"),
        (["--objective", "mappo"], "--objective"),
    ],
)
def test_resume_refuses_other_settings(words, named):
    with pytest.raises(InputError, match=f"Omit {named};"):
        train("--resume", "run", *words).check_resume()


@pytest.mark.parametrize(
    ("words", "named"),
    [([TASK], "TASK"), (["--preset", "cpu"], "--preset"), (["--tuned"], "--tuned")],
)
def test_a_file_of_settings_is_not_mixed_with_others(whole, words, named):
    command = train("--config", str(whole / "config.json"), *words)
    with pytest.raises(InputError, match=f"--config provides the task and all.* Omit {named}"):
        command.run_config()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([TASK], "TASK"),
        (["--preset", "cpu", "--num-seeds", "1"], "--preset, --num-seeds"),
        (["--config", "x.json"], "--config"),
    ],
)
def test_a_branch_takes_its_settings_from_its_parent(whole, words, named):
    with pytest.raises(InputError, match=f"--from takes the task and all.* Omit {named}"):
        train("--from", str(whole), *words).check()
