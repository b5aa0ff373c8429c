"""The layer between dataclasses and argparse."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from ratiosym.cli.arguments import (
    Arg,
    Command,
    UsageError,
    closest_flag,
    field_docs,
    options_of,
    parse,
    read_int,
    show_help,
    translate,
)
from ratiosym.cli.text import printable


@dataclass(frozen=True)
class Cook(Command):
    """Cook a meal.

    examples:
      kitchen cook soup     the usual

    A long paragraph about the art of cooking, which is wrapped to the width of the terminal and not
    to that of the source.
    """

    dish: Annotated[str, Arg("DISH", is_positional=True)]
    """What to cook."""
    guests: int = 4
    """How many eat, 20% more on
    Sundays."""
    salt: Annotated[float, Arg(flag="--salt-in-grams")] = 2.5
    """How much salt."""
    style: Literal["plain", "fancy"] = "plain"
    """How it looks."""
    notes: Annotated[tuple[Path, ...], Arg("FILE")] = ()
    """Where it is written down."""
    loud: bool = False
    """Whether to sing."""
    floor: Annotated[int | None, Arg(low=0, high=3)] = None
    """Where the kitchen is."""


def read(*words):
    return parse("kitchen cook", Cook, words, options_of(Cook))


def test_only_what_was_given_is_collected():
    assert read("soup") == {"dish": "soup"}
    assert Cook.build(read("soup")) == Cook("soup")
    given = read("--guests", "7", "--style=fancy", "soup", "--loud", "--notes", "a", "b")
    notes = (Path("a"), Path("b"))
    assert given == {"dish": "soup", "guests": 7, "style": "fancy", "loud": True, "notes": notes}
    assert read("soup", "--salt-in-grams", "-1.5") == {"dish": "soup", "salt": -1.5}
    assert read("soup", "--salt_in_grams", "1") == {"dish": "soup", "salt": 1.0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "DISH is missing."),
        (("soup", "stew"), "Unexpected argument 'stew'."),
        (("soup", "--guests"), "--guests needs a value."),
        (("soup", "--guests", "many"), "--guests is 'many'; it must be a whole number."),
        (("soup", "--guests", "1.5"), "--guests is '1.5'; it must be a whole number."),
        (("soup", "--salt-in-grams", "some"), "--salt-in-grams is 'some'; it must be a number."),
        (("soup", "--style", "fanci"), "must be one of plain, fancy. Closest: 'fancy'."),
        (("soup", "--floor", "4"), "--floor is 4; it must be from 0 to 3."),
        (("soup", "--floor", "-1"), "--floor is -1; it must be from 0 to 3."),
        (("soup", "--guest", "3"), "Unknown option '--guest'. Closest: '--guests'."),
        (("soup", "--salt=3"), "Unknown option '--salt'. Closest: '--salt-in-grams'."),
        (("--zzz", "3", "soup"), "Unknown option '--zzz'."),
        (("soup", "-g", "3"), "Unknown option '-g'."),
    ],
)
def test_wrong_words(words, said):
    with pytest.raises(UsageError) as caught:
        read(*words)
    assert said in str(caught.value)
    assert str(caught.value).endswith(" 'kitchen cook --help' explains all options.")


def test_help_has_every_option_with_its_default(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    show_help("kitchen cook", Cook, ["soup"], options_of(Cook))
    text = capsys.readouterr().out
    assert text.startswith("usage: kitchen cook DISH [options]\n\nCook a meal.\n\nexamples:\n")
    assert "\n  kitchen cook soup     the usual\n" in text
    assert re.search(r"A long paragraph[^\n]*\n[^\n]*of the source\.\n", text)
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    assert "--guests INT How many eat, 20% more on Sundays. (default: 4)" in flat
    assert "--salt-in-grams FLOAT How much salt. (default: 2.5)" in flat
    assert "--style {plain,fancy} How it looks. (default: plain)" in flat
    assert "--loud Whether to sing. --floor FLOOR" in flat.replace("INT", "FLOOR")
    assert "None" not in text


def test_help_comes_also_when_the_words_are_wrong(capsys):
    show_help("kitchen cook", Cook, ["--guests", "many"], options_of(Cook))
    assert "How many eat" in capsys.readouterr().out


def test_whole_numbers():
    assert [read_int(word) for word in ("7", "-7", "1_000", "1e6")] == [7, -7, 1000, 1_000_000]
    assert {read_int(word) for word in ("x", "", "1.5", "nan", "inf", "1e400", "1e30")} == {None}


def test_the_closest_option():
    flags = ["--actor-learning-rate", "--num-epochs", "--steps", "--seed"]
    assert closest_flag("--num_epoch", flags) == "--num-epochs"
    assert closest_flag("--epochs", flags) == "--num-epochs"
    assert closest_flag("--step", flags) == "--steps"
    assert closest_flag("--colour", flags) is None


def test_python_names_become_options():
    message = "`salt` is 0; raise `salt` or ask `dish`. `draw` is a method."
    assert translate(message, options_of(Cook)) == (
        "--salt-in-grams is 0; raise --salt-in-grams or ask DISH. `draw` is a method."
    )


def test_docstrings_below_fields():
    assert field_docs(Cook)["guests"] == "How many eat, 20% more on Sundays."


def test_nothing_can_steer_the_terminal():
    assert printable("a\x1b[2J\x07b\n\x9bé") == "a\\x1b[2J\\x07b\n\\x9bé"
