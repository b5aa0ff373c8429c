"""Commands in the documents: all are understood, and those of the README and of Getting started
print what the documents show.
"""

import re
import shlex
from pathlib import Path

import pytest

from ratiosym.cli.arguments import parse
from ratiosym.cli.commands import find_command
from tests.example_runs import ROOT, run_command, run_python

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
COMMAND = re.compile(r"^(?:    |)(?:RAY_ADDRESS=\S+ |srun |taskset -c 0 )?ratiosym (?P<words>.+)$")
PLACEHOLDER = re.compile(r"\b(TASK|PLAN|DIR|RUN|COMMAND)\b|\.\.\.|\$|'ratiosym|TRAINED")
# Smaller than what the documents show: the shape of the output is the same.
SMALLER = ("--steps 200000", "--preset smoke")


def commands(page):
    """Lines of code that call the command line, whole: a backslash continues a line."""
    text = page.read_text().replace("\\\n", " ")
    for line in text.splitlines():
        found = COMMAND.match(line.rstrip())
        if found and not PLACEHOLDER.search(found["words"]):
            yield found["words"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_understood(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for line in commands(page):
        words = shlex.split(line, comments=True)
        if "--help" in words[1:]:
            words.remove("--help")
        if words == ["--help"]:
            continue
        asked = find_command(words)
        if asked.words or asked.name in ("demo", "tasks", "doctor"):
            parse(f"ratiosym {asked.name}", asked.command, asked.words, asked.options)


def test_there_are_commands_to_check():
    counts = {page.name: len(list(commands(page))) for page in PAGES}
    assert counts["getting-started.md"] >= 5
    assert sum(counts.values()) > 40


def shape(text):
    """Lines with their numbers as #, without the width of columns and the frames around them."""
    lines = (re.sub(r"[─━═┏┓┗┛┡┩╇┳┻├┤┌┐└┘┬┴]+", "", line) for line in text.splitlines())
    lines = (re.sub(r"-?\d[\d,.]*", "#", line) for line in lines)
    return [found for line in lines if (found := " ".join(line.split())) not in ("", "...")]


def shown_outputs(page):
    """Each command with the block of text that follows it."""
    pattern = r"^    ratiosym ([^\n]+)\n\n```text\n(.*?)^```$"
    return re.findall(pattern, page.read_text(), re.M | re.S)


def expect_shape(shown, printed):
    printed = " ".join(shape(printed))  # wherever lines are broken
    missing = [line for line in shape(shown) if line not in printed]
    assert not missing, printed


@pytest.mark.slow
def test_getting_started(tmp_path):
    """Its commands in order, in one directory, and its Python at the end."""
    page = ROOT / "docs/getting-started.md"
    shown = shown_outputs(page)
    assert [line.split()[0] for line, _ in shown] == ["train", "baselines", "evaluate", "render"]
    for line, output in shown:
        result = run_command(
            *shlex.split(line.replace(*SMALLER)), cwd=tmp_path, env={"COLUMNS": "90"}
        )
        assert result.returncode == 0, result.stderr
        expect_shape(output, result.stdout)
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    (tmp_path / "act.py").write_text(code)
    result = run_python(tmp_path / "act.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"return -\d+\.\d\d\n", result.stdout)


@pytest.mark.slow
def test_the_demo(tmp_path):
    """With the shortest training possible; two pages show its table."""
    result = run_command("demo", "--steps", "8192", cwd=tmp_path, env={"COLUMNS": "80"})
    assert result.returncode == 0, result.stderr
    for page in ("README.md", "docs/getting-started.md"):
        (block,) = re.findall(r"```text\n(connector.*?)```", (ROOT / page).read_text(), re.S)
        expect_shape(block, result.stdout)
    for name in ("curves.png", "curves-ratios.png", "episode.gif", "mars/checkpoint"):
        assert (tmp_path / "demo" / name).exists()


@pytest.mark.slow
def test_python_of_the_readme(tmp_path):
    """Ten lines train, load and act; three more use the objective alone."""
    text = Path(ROOT, "README.md").read_text()
    learner, objective = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(learner.strip().splitlines()) <= 11
    small = learner.replace("steps=200_000", "steps=1024, preset='smoke'")
    arrays = "import numpy as np\nlog_ratio = np.zeros(4); advantage = np.ones(4)\n"
    (tmp_path / "readme.py").write_text(f"{small}\n{arrays}{objective}\nassert (gain == 1).all()\n")
    result = run_python(tmp_path / "readme.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
