"""Commands that show a team playing: baselines, animations and the terminal game."""

import itertools
import os
import pty
import re
import subprocess

import numpy as np
import pytest
from PIL import Image

from ratiosym.cli import display
from ratiosym.cli.terminal_game import cells_of, half_blocks
from ratiosym.envs.paxmen.render import AGENTS, DOT
from ratiosym.envs.registry import make
from tests.example_runs import COMMAND, TASK, environment


def read_film(path):
    with Image.open(path) as film:
        return [np.asarray((film.seek(i), film.convert("RGB"))[1]) for i in range(film.n_frames)]


# ---------------------------------------------------------------------------------------- baselines


def test_baselines_stand_beside_what_is_known_of_them(ask, monkeypatch):
    monkeypatch.setattr(display.console, "_width", 200)
    text = ask("baselines", "paxmen-4a", "--episodes", 64)
    names = re.search("mean over episodes (.*)", text)[1].replace("┃", "").split()
    assert set(names) >= {"random", "idle", "oracle", "local"}
    returns = dict(zip(names, numbers(text, "return"), strict=True))
    references = dict(zip(names, numbers(text, "reference"), strict=True))
    assert returns["idle"] == references["idle"] == -10
    assert returns["random"] < -8
    assert abs(returns["oracle"] - references["oracle"]) < 5
    scores = dict(zip(names, numbers(text, "normalised score"), strict=True))
    assert abs(scores["random"]) < 0.02
    assert abs(scores["oracle"] - 1) < 0.05
    for name in (
        "rooms visited",
        "rounds cleared",
        "dots eaten",
        "time to first clear",
        "standard error",
    ):
        assert name in text


def numbers(text, label):
    return [float(x) for x in re.search(rf"│ +{label} +│(.*)│", text)[1].split("│")]


def test_every_task_has_a_random_team(ask):
    text = ask("baselines", TASK, "--episodes", 8)
    assert re.search(r"│ return +│ +-\d", text)
    assert "reference" not in text
    assert "random: uniform among the legal actions" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("baselines", "paxmen-4"), "Unknown task 'paxmen-4'. Closest: 'paxmen-4a'."),
        (
            ("baselines", "paxmen-4a", "--episodes", 1),
            "--episodes is 1; it must be at least 2, for a standard error.",
        ),
        (("render", "paxmen-4"), "Unknown task 'paxmen-4'. Closest: 'paxmen-4a'."),
        (
            ("render", "paxmen-4a", "--team", "oracles"),
            "has no scripted team 'oracles'. It has: random, ",
        ),
        (
            ("render", "paxmen-4a", "--out", "film.mp4"),
            "A film is saved as .gif, not as '.mp4' (film.mp4).",
        ),
        (
            ("render", ".", "--team", "oracle"),
            "--team names a script, but '.' is a run with its own policy.",
        ),
        (
            ("render", "aerojax-2v2", "--out", "film.mp4"),
            "A film is saved as .gif or .acmi, not as '.mp4' (film.mp4).",
        ),
        (
            ("render", "paxmen-4a", "--task", "paxmen-4a-heldout"),
            "--task is for a trained team, but 'paxmen-4a' is a",
        ),
        (("render", "."), "'.' does not hold a run: there is no config.json in it."),
        (
            ("play", TASK),
            f"Task '{TASK}' cannot be played by hand; only PaxMen's can, such as 'paxmen-4a'.",
        ),
        (("play", "paxmen-4a", "--agent", 4), "--agent is 4; 'paxmen-4a' has agents 0 to 3."),
        (("play", "paxmen-4a", "--team", "x"), "has no scripted team 'x'."),
    ],
)
def test_wrong_input(ask, here, words, said):
    message = ask(*words, code=2)
    assert said in message
    assert message.count("\n") == 1
    assert list(here.iterdir()) == []


# -------------------------------------------------------------------------------------------- films


def test_tacview_gets_the_whole_episode(ask, here):
    ask("render", "aerojax-2v2-straight", "--team", "L4", "--out", "fight.acmi")
    lines = (here / "fight.acmi").read_text().splitlines()
    assert lines[0] == "FileType=text/acmi/tacview"
    times = [float(line[1:]) for line in lines if line.startswith("#")]
    np.testing.assert_allclose(np.diff(times), 0.2, atol=1e-6)
    assert any(line.startswith("0,Event=Destroyed|") for line in lines)


@pytest.mark.slow
def test_a_film_of_a_scripted_team(ask, here):
    assert ask("render", "paxmen-4a", "--team", "oracle", "--out", "deep/oracle.gif").split() == [
        "deep/oracle.gif"
    ]
    frames = read_film(here / "deep" / "oracle.gif")
    assert len(frames) > 95  # out of 101 states; a GIF merges equal pictures
    assert all((a != b).any() for a, b in itertools.pairwise(frames))
    ask("render", "paxmen-4a", "--team", "oracle", "--out", "again.gif")
    assert (here / "again.gif").read_bytes() == (here / "deep" / "oracle.gif").read_bytes()
    ask("render", "paxmen-4a", "--team", "oracle", "--seed", 1, "--out", "other.gif")
    assert (here / "other.gif").read_bytes() != (here / "again.gif").read_bytes()


def test_a_film_of_a_trained_team(ask, here, whole):
    assert ask("render", whole).split() == ["episode.gif"]
    assert len(read_film(here / "episode.gif")) > 20  # of 27 moments
    assert [path.name for path in here.iterdir()] == ["episode.gif"]


# --------------------------------------------------------------------------------------------- play


def test_a_person_plays_from_a_pipe(here):
    """Everything but the picture works without a terminal; the team plays while the user waits."""
    words = [COMMAND, "play", "paxmen-4a", "--team", "idle"]
    done = subprocess.run(
        words, input="wwww" + " " * 50 + "q", capture_output=True, text=True, env=environment()
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "paxmen-4a   step 54 of 100" in done.stdout
    assert (
        done.stdout.splitlines()[-1] == "paxmen-4a: return -5.40 after 54 of 100 steps"
    )  # 54 steps of -0.1


def test_an_episode_ends_by_itself(here):
    words = [COMMAND, "play", "paxmen-4a", "--team", "idle"]
    done = subprocess.run(words, input=" " * 500, capture_output=True, text=True, env=environment())
    assert done.stdout.splitlines()[-1] == "paxmen-4a: return -10.00 after 100 of 100 steps"


def test_a_person_plays_in_a_terminal_that_is_left_as_it_was(here):
    ours, theirs = pty.openpty()
    before = subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, text=True).stdout
    variables = environment(TERM="xterm-256color", COLORTERM="truecolor", COLUMNS="100", LINES="40")
    process = subprocess.Popen(
        [COMMAND, "play", "paxmen-4a"], stdin=theirs, stdout=theirs, stderr=theirs, env=variables
    )
    text = b""
    while b"q: quit" not in text:
        text += os.read(ours, 4096)
    os.write(ours, b"\x1b[A\x1b[C q")
    while b"steps" not in text:
        text += os.read(ours, 4096)
    assert process.wait(timeout=60) == 0
    assert "▀".encode() in text
    assert b"step 3 of 100" in text
    assert b"after 3 of 100 steps" in text
    assert (
        subprocess.run(["stty", "-g"], stdin=theirs, capture_output=True, text=True).stdout
        == before
    )
    os.close(ours)
    os.close(theirs)


def test_the_terminal_shows_two_cells_per_character(key):
    env = make("paxmen-4a", agent_ids=False)
    state, _ = env.reset(key)
    cells = cells_of(env.draw(state))
    assert cells.shape == (41, 41, 3)
    for agent in range(4):  # each in its own cell of the hub
        assert (cells == AGENTS[agent]).all(-1).sum() == 1
    assert (cells == DOT).all(-1).sum() == 12
    lines = half_blocks(cells).plain.splitlines()
    assert [len(line) for line in lines] == [41] * 21
