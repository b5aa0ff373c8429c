"""The table of commands, and how a command line selects one."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

from ratiosym.cli.arguments import (
    Command,
    Option,
    UsageError,
    fill,
    parse,
    show_help,
    summary,
)

# The module of each command, imported only for that command or for the list of all commands.
COMMANDS = {
    "train": "ratiosym.cli.train:Train",
    "tune": "ratiosym.cli.tune:Tune",
    "evaluate": "ratiosym.cli.evaluate:Evaluate",
    "reproduce": "ratiosym.cli.reproduce:Reproduce",
    "study run": "ratiosym.cli.study:RunStudy",
    "study status": "ratiosym.cli.study:StudyStatus",
    "report": "ratiosym.cli.report:Report",
    "baselines": "ratiosym.cli.baselines:Baselines",
    "render": "ratiosym.cli.render:Render",
    "play": "ratiosym.cli.play:Play",
    "tasks": "ratiosym.cli.tasks:Tasks",
    "figures": "ratiosym.cli.figures:Figures",
    "demo": "ratiosym.cli.demo:Demo",
    "doctor": "ratiosym.cli.doctor:Doctor",
}

ABOUT = "MARS, Multi-Agent Ratio Symmetry: train, evaluate and compare seven ratio objectives."
FIRST_STEPS = """\
first steps:
  ratiosym demo                                      watch MARS learn a task
  ratiosym tasks                                     list the tasks
  ratiosym train mpe-spread-3ag --out runs/first     train a policy
  ratiosym evaluate runs/first                       evaluate it

'ratiosym COMMAND --help' explains a command and its options."""
HELP = ("-h", "--help")


class Asked(NamedTuple):
    """The command selected by a command line."""

    name: str
    command: type[Command]
    words: list[str]  # the rest of the command line
    options: list[Option]


def find_command(words: Sequence[str]) -> Asked:
    """Split a command line into command and arguments; list all commands if there is none."""
    if words[:1] == ["--version"]:
        from ratiosym import __version__

        print(f"ratiosym {__version__}")
        raise SystemExit(0)
    name = next((n for n in COMMANDS if list(words[: len(n.split())]) == n.split()), None)
    if name is None:
        _without_command(words)
    assert name is not None
    command = load_command(name)
    rest = list(words[len(name.split()) :])
    return Asked(name, command, rest, command.options(rest))


def build_command(asked: Asked) -> Command:
    """Build the command from its options, or print its help if requested."""
    program = f"ratiosym {asked.name}"
    if any(word in HELP for word in asked.words):
        words = [word for word in asked.words if word not in HELP]
        show_help(program, asked.command, words, asked.options)
        raise SystemExit(0)
    return asked.command.build(parse(program, asked.command, asked.words, asked.options))


def load_command(name: str) -> type[Command]:
    """Import the class of a command."""
    module, _, attribute = COMMANDS[name].partition(":")
    command: type[Command] = getattr(import_module(module), attribute)
    return command


def _without_command(words: Sequence[str]) -> None:
    """Show help for a command line without a command, or with half of one."""
    first = words[0] if words else ""
    family = [name for name in COMMANDS if name.startswith(f"{first} ")] if first else []
    names = family or list(COMMANDS)
    second = words[1:] if family else words
    if not second or second[0] in HELP:
        stream = sys.stdout if second else sys.stderr
        stream.write(overview(names))
        raise SystemExit(0 if second else 2)
    word = f"{first} {second[0]}" if family else first
    if word.startswith("-"):
        raise UsageError(f"Name a command before '{word}'. 'ratiosym --help' lists all commands.")
    match = "".join(f" Closest: '{m}'." for m in get_close_matches(word, names, n=1, cutoff=0.5))
    raise UsageError(f"Unknown command '{word}'.{match} 'ratiosym --help' lists all commands.")


def overview(names: Sequence[str]) -> str:
    """List the commands, with one line each."""
    is_whole = len(names) == len(COMMANDS)
    program = "ratiosym" if is_whole else f"ratiosym {names[0].split()[0]}"
    width = max(map(len, names)) + 2
    lines = [
        fill(f"  {name:{width}}{summary(load_command(name))}", indent=width + 2) for name in names
    ]
    parts = [
        f"usage: {program} COMMAND [options]",
        fill(ABOUT) if is_whole else "",
        "\n".join(["commands:", *lines]),
        FIRST_STEPS if is_whole else f"'{program} COMMAND --help' explains a command.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"
