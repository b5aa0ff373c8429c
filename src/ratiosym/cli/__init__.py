"""The command line: ``ratiosym COMMAND``; ``ratiosym --help`` lists the commands.

Importing a command's module is light; JAX, the environments and the learner are imported when a
command runs, so that help and errors come at once.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from ratiosym.cli.arguments import Command, translate
from ratiosym.cli.commands import Asked, build_command, find_command
from ratiosym.cli.text import printable
from ratiosym.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Whatever the user can put right ends with one paragraph on standard error
    and exit code 2.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked: Asked | None = None
    command: Command | None = None
    try:
        check_text(words)
        asked = find_command(words)
        command = build_command(asked)
        command.run()
    except InputError as error:
        fail(translate(str(error), asked.options if asked else ()))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output has gone, as in 'ratiosym tasks | head'
        sys.stderr.close()
        raise SystemExit(141) from None
    except OSError as error:
        if error.strerror is None:
            raise
        fail(describe_failure(error, getattr(command, "out", None)))


def describe_failure(error: OSError, out: Path | None) -> str:
    """What the operating system refused. A file on its way to ``out`` has another name there."""
    path = Path(error.filename) if isinstance(error.filename, str) else None
    if out is not None and path is not None and path.absolute().parent == out.absolute().parent:
        return f"'{out}' cannot be written ({error.strerror}). Choose another --out."
    where = f"'{path}' cannot be read or written" if path else "Something cannot be read or written"
    return f"{where} ({error.strerror})."


def check_text(words: Sequence[str]) -> None:
    """Names that are not UTF-8 can neither be recorded nor printed."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word!a} is not UTF-8 text. Use another name.") from None


def fail(message: str) -> None:
    """One paragraph and exit code 2."""
    print(f"ratiosym: {printable(message)}", file=sys.stderr)
    raise SystemExit(2) from None
