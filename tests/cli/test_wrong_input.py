"""Every kind of wrong input: one paragraph that says what came, what is allowed and what to do; exit code 2."""

import pytest

from ratiosym.cli import main

TASK = "mpe-spread-3ag"

WRONG = {
    "unknown task": (["mpe-spread-3a"], ["'mpe-spread-3a'", "Closest: 'mpe-spread-3ag'", "ratiosym tasks"]),
    "no task": ([], ["Name a task", "ratiosym tasks"]),
    "unknown objective": ([TASK, "--objective", "mrs"], ["'mrs'", "Closest: 'mars'", "maspo-asymmetric"]),
    "unknown preset": ([TASK, "--preset", "papr"], ["'papr'", "paper, cpu, smoke"]),
    "expansion target below 1": ([TASK, "--b-upper", "0.9"], ["b_upper=0.9", "above 1"]),
    "contraction target above 1": ([TASK, "--b-lower", "1.1"], ["b_lower=1.1", "1"]),
    "contraction target of 0": ([TASK, "--b-lower", "0"], ["b_lower=0"]),
    "b of 2 for additive MARS": ([TASK, "--objective", "mars-additive", "--b", "2"], ["b=2", "2"]),
    "b of 1": ([TASK, "--objective", "mars-multiplicative", "--b", "1"], ["b=1"]),
    "lower epsilon of 1": (
        [TASK, "--objective", "mappo-asymmetric", "--epsilon-lower", "1.0"],
        ["epsilon_lower=1"],
    ),
    "another objective's parameter": ([TASK, "--epsilon", "0.1"], ["'epsilon'", "b_lower", "b_upper"]),
    "budget below one update": ([TASK, "--steps", "1000"], ["1,000 steps", "8,192", "--steps"]),
    "minibatches that do not divide": ([TASK, "--num-minibatches", "5"], ["5 minibatches", "32", "divisor"]),
    "groups that do not divide": ([TASK, "--update-batch-size", "3"], ["64", "3", "--num-envs"]),
    "no environments": ([TASK, "--num-envs", "0"], ["--num-envs is 0", "at least 1"]),
    "negative learning rate": ([TASK, "--actor-learning-rate", "-1"], ["--actor-learning-rate is -1", "above 0"]),
    "discount above 1": ([TASK, "--discount", "1.5"], ["--discount is 1.5", "from 0 to 1"]),
    "negative seed": ([TASK, "--seed", "-1"], ["--seed is -1"]),
    "no seeds": ([TASK, "--num-seeds", "0"], ["--num-seeds is 0"]),
    "resume of nothing": (["--resume", "nowhere"], ["'nowhere'", "does not hold a run", "ratiosym train"]),
    "half of the host options": ([TASK, "--num-processes", "2"], ["--coordinator", "--process-id"]),
}


def message_of(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("name", WRONG)
def test_wrong_training_options(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, expected = WRONG[name]
    message = message_of(["train", *arguments], capsys)
    assert message.startswith("ratiosym: ")
    assert message.strip().count("\n") == 0  # one paragraph
    for words in expected:
        assert words in message
    assert list(tmp_path.iterdir()) == []


def test_an_output_directory_that_holds_something_is_left_alone(capsys, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    message = message_of(["train", TASK, "--preset", "smoke", "--out", str(tmp_path)], capsys)
    assert "not empty" in message
    assert "--out" in message
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_an_output_directory_that_is_a_file(capsys, tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    assert "is a file" in message_of(["train", TASK, "--out", str(path)], capsys)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [["trian"], ["train", TASK, "--no-such-option", "1"], ["train", TASK, "--seed", "x"]]
)
def test_words_that_are_no_command_or_option(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_evaluating_what_is_no_run(capsys, tmp_path):
    assert "does not hold a run" in message_of(["evaluate", str(tmp_path)], capsys)


def test_drawing_what_is_no_run_or_no_picture(capsys, tmp_path):
    assert "No run in" in message_of(["figures", "runs", str(tmp_path)], capsys)
    assert ".png or .pdf" in message_of(["figures", "objectives", "--out", str(tmp_path / "a.gif")], capsys)
    assert list(tmp_path.iterdir()) == []
