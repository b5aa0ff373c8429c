"""Command lines from dataclasses: a thin layer over argparse.

A command is a frozen dataclass. Its docstring is its help text and its fields are its options: a
field's type determines the allowed values, and the docstring below the field explains it.
``Annotated[type, Arg(...)]`` adds what a type cannot express. Only options that the user gave are
collected; defaults come from the dataclass.

Nothing here imports JAX, so that help and errors appear instantly.
"""

import argparse
import ast
import dataclasses
import inspect
import re
import shutil
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from ratiosym.errors import InputError

MAX_SEED = 2**32 - 1
MAX_WIDTH = 100  # of help texts, even on wider terminals


class UsageError(InputError):
    """An invalid command line."""


@dataclass(frozen=True)
class Arg:
    """Properties of an option that a field's type cannot express."""

    metavar: str = ""
    group: str = "options"
    flag: str = ""  # if it differs from the field's name
    is_positional: bool = False
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Option:
    """An option or positional argument of a command."""

    name: str  # in Python
    kind: Any  # the type of its value
    help: str
    arg: Arg = Arg()
    default: Any = None  # shown in the help unless None
    is_required: bool = False
    has_negation: bool = False  # --no-NAME in addition to --NAME

    @property
    def flag(self) -> str:
        """The option as typed: --name, or the metavar of a positional argument."""
        if self.arg.is_positional:
            return self.metavar
        return self.arg.flag or to_flag(self.name)

    @property
    def metavar(self) -> str:
        """Placeholder for its value in the help."""
        if self.arg.metavar:
            return self.arg.metavar
        kind = _without_none(self.kind)
        if get_origin(kind) is Literal:
            return "{" + ",".join(map(str, get_args(kind))) + "}"
        return {int: "INT", float: "FLOAT"}.get(kind, self.name.upper())


@dataclass(frozen=True)
class Command:
    """Base class of all commands."""

    # Other names that people may type for an option, without dashes.
    other_names: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def options(cls, words: Sequence[str]) -> list[Option]:
        """Return the options of this command, which may depend on the command line."""
        return options_of(cls)

    @classmethod
    def build(cls, given: dict[str, Any]) -> "Command":
        """Build the command from the options that the user gave."""
        return cls(**given)

    @classmethod
    def defaults(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return defaults that depend on other options, for the help."""
        return {}

    def check(self) -> None:
        """Reject wrong arguments quickly: nothing that this imports may import JAX."""

    def run(self) -> None:
        """Execute the command."""
        raise NotImplementedError


def to_flag(name: str) -> str:
    """Convert a Python name to an option."""
    return f"--{name.replace('_', '-')}"


# ------------------------------------------------------------------------- dataclasses into options


def options_of(cls: type, skip: Iterable[str] = ()) -> list[Option]:
    """Convert the fields of a dataclass to options."""
    hints = get_type_hints(cls, include_extras=True)
    docs = {name: text for base in reversed(cls.__mro__) for name, text in field_docs(base).items()}
    own = inspect.get_annotations(cls)
    found = []
    # Inherited fields last, so that what is special about a command comes first in its help.
    for field in sorted(dataclasses.fields(cls), key=lambda field: field.name not in own):
        if field.name in skip:
            continue
        kind, arg = _split_annotation(hints[field.name])
        is_required = field.default is field.default_factory is dataclasses.MISSING
        default = None if field.default is dataclasses.MISSING else field.default
        text = docs.get(field.name, "")
        found.append(Option(field.name, kind, text, arg, default, is_required))
    return found


@cache
def field_docs(cls: type) -> Mapping[str, str]:
    """Return the docstrings below the fields of a class, each as one line."""
    try:
        [body] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError):  # built in, or installed without source
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def _split_annotation(hint: Any) -> tuple[Any, Arg]:
    if get_origin(hint) is not Annotated:
        return hint, Arg()
    kind, *extras = get_args(hint)
    return kind, next((extra for extra in extras if isinstance(extra, Arg)), Arg())


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return next(k for k in get_args(kind) if k is not type(None))
    return kind


# ------------------------------------------------------------------------------------------ parsing


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        missing = message.removeprefix("the following arguments are required: ")
        raise UsageError(f"{missing} is missing." if missing != message else message)


def parse(
    program: str, command: type[Command], words: Sequence[str], options: Sequence[Option]
) -> dict[str, Any]:
    """Parse the command line into values by Python name; raise UsageError if it is invalid."""
    see = f"'{program} --help' explains all options."
    parser = make_parser(program, command, options)
    try:
        found, rest = parser.parse_known_intermixed_args(_with_dashes(words, options))
    except argparse.ArgumentError as error:
        message = error.message or ""
        if message.startswith("expected"):
            message = "needs a value"
        raise UsageError(f"{error.argument_name} {message}. {see}") from None
    except UsageError as error:
        raise UsageError(f"{error} {see}") from None
    if rest:
        raise UsageError(f"{_unknown(rest, options, command.other_names)} {see}")
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(found).items()
    }


def make_parser(program: str, command: type[Command], options: Sequence[Option]) -> _Parser:
    """Build an argparse parser with these options in their groups."""
    positional = " ".join(
        option.metavar if option.is_required else f"[{option.metavar}]"
        for option in options
        if option.arg.is_positional
    )
    parser = _Parser(
        prog=program,
        usage=" ".join(filter(None, (program, positional, "[options]"))),
        description=describe(command),
        formatter_class=_Formatter,
        add_help=False,
        allow_abbrev=False,
        exit_on_error=False,
        argument_default=argparse.SUPPRESS,
    )
    groups: dict[str, Any] = {}
    for option in options:
        title = option.arg.group
        if title not in groups:
            groups[title] = parser.add_argument_group(title)
        _add(groups[title], option)
    last = next(reversed(groups.values())) if groups else parser.add_argument_group("options")
    last.add_argument("-h", "--help", action="store_true", help="Show this help.")
    return parser


def _add(group: Any, option: Option) -> None:
    text = option.help + _shown_default(option.default)
    details: dict[str, Any] = {"help": text.replace("%", "%%")}
    kind = _without_none(option.kind)
    if kind is bool:
        details["action"] = argparse.BooleanOptionalAction if option.has_negation else "store_true"
    else:
        if get_origin(kind) is tuple:
            kind, details["nargs"] = get_args(kind)[0], "*" if option.arg.is_positional else "+"
        details |= {"type": _reader(kind, option.arg), "metavar": option.metavar}
    if option.arg.is_positional:
        if not option.is_required and "nargs" not in details:
            details["nargs"] = "?"
        group.add_argument(option.name, **details)
    else:
        group.add_argument(option.flag, dest=option.name, required=option.is_required, **details)


def _shown_default(value: Any) -> str:
    if value is None or value is False or value in ((), ""):
        return ""
    if value is True:
        return " (on by default)"
    words = value if isinstance(value, tuple) else (value,)
    return f" (default: {' '.join(f'{w:g}' if isinstance(w, float) else str(w) for w in words)})"


def _reader(kind: Any, arg: Arg) -> Callable[[str], Any]:
    """Return the function that converts a word to a value of a type."""
    if get_origin(kind) is Literal:
        return partial(_read_choice, get_args(kind))
    if kind in (int, float):
        return partial(_read_number, kind, arg)
    reader: Callable[[str], Any] = kind  # str or Path
    return reader


def _read_choice(choices: tuple[str, ...], word: str) -> str:
    if word not in choices:
        matches = get_close_matches(word, choices, n=1)
        closest = "".join(f". Closest: '{match}'" for match in matches)
        allowed = ", ".join(choices)
        raise argparse.ArgumentTypeError(f"is '{word}'; it must be one of {allowed}{closest}")
    return word


def _read_number(kind: type, arg: Arg, word: str) -> int | float:
    value = read_int(word) if kind is int else read_float(word)
    if value is None:
        allowed = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"is '{word}'; it must be {allowed}")
    if (arg.low is not None and value < arg.low) or (arg.high is not None and value > arg.high):
        limit = f"at least {arg.low}" if arg.high is None else f"from {arg.low} to {arg.high}"
        raise argparse.ArgumentTypeError(f"is {word}; it must be {limit}")
    return value


def read_int(word: str) -> int | None:
    """Read a whole number, also as 1_000_000 or 1e6; return None for anything else."""
    try:
        return int(word)
    except ValueError:
        pass
    value = read_float(word)
    is_exact = value is not None and value.is_integer() and abs(value) < 2**53
    return int(value) if value is not None and is_exact else None


def read_float(word: str) -> float | None:
    """Read a number; return None for anything else."""
    try:
        return float(word)
    except ValueError:
        return None


def _with_dashes(words: Sequence[str], options: Sequence[Option]) -> list[str]:
    """Replace --like_this by --like-this if there is such an option."""
    flags = {option.flag for option in options}

    def change(word: str) -> str:
        flag, equals, value = word.partition("=")
        dashed = flag.replace("_", "-")
        return f"{dashed}{equals}{value}" if dashed in flags else word

    return [change(word) if word.startswith("--") else word for word in words]


def find_value(words: Sequence[str], flag: str) -> str | None:
    """Return the value of a single option, before parsing the rest; None if it is absent."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


# ------------------------------------------------------------------------------- mistyped and wrong


def _unknown(rest: list[str], options: Sequence[Option], other_names: Mapping[str, str]) -> str:
    word = next((w for w in rest if w.startswith("-")), None)
    if word is None:
        return f"Unexpected argument '{rest[0]}'."
    name = word.partition("=")[0]
    flags = [option.flag for option in options if not option.arg.is_positional]
    match = other_names.get(name.strip("-").replace("_", "-")) or closest_flag(name, flags)
    return f"Unknown option '{name}'." + (f" Closest: '{match}'." if match else "")


def closest_flag(name: str, flags: Sequence[str]) -> str | None:
    """Return the option that was probably meant: spelled similarly, or containing the word."""
    words = name.strip("-").replace("_", "-")
    matches = get_close_matches(f"--{words}", flags, n=1, cutoff=0.7)
    inside = [flag for flag in flags if words and words in flag[2:]]
    alike = get_close_matches(f"--{words}", flags, n=1, cutoff=0.5)
    return next(iter([*matches, *inside, *alike]), None)


def translate(message: str, options: Iterable[Option]) -> str:
    """Replace Python arguments in a message by command-line options."""
    flags = {option.name: option.flag for option in options}
    return re.sub(r"`(\w+)`", lambda match: flags.get(match[1], match[0]), message)


# --------------------------------------------------------------------------------------------- help


def show_help(
    program: str, command: type[Command], words: Sequence[str], options: Sequence[Option]
) -> None:
    """Print the help, with defaults that follow from the rest of the command line."""
    try:
        given = parse(program, command, words, options)
    except UsageError:  # help must work for an invalid command line, too
        given = {}
    values = command.defaults(given)
    shown = [
        dataclasses.replace(option, default=values.get(option.name, option.default))
        for option in options
    ]
    sys.stdout.write(make_parser(program, command, shown).format_help())


def summary(command: type[Command]) -> str:
    """Return the first line of a command's docstring."""
    return (command.__doc__ or "").partition("\n")[0]


def describe(command: type[Command]) -> str:
    """Wrap a command's docstring to the terminal, except for indented lines."""
    blocks = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        block if "\n  " in f"\n{block}" else fill(" ".join(block.split())) for block in blocks
    )


def fill(text: str, indent: int = 0) -> str:
    """Wrap text to the terminal, indenting all lines but the first."""
    return textwrap.fill(
        text,
        _width(),
        subsequent_indent=" " * indent,
        drop_whitespace=True,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _width() -> int:
    return min(MAX_WIDTH, shutil.get_terminal_size().columns) - 2


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=_width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
