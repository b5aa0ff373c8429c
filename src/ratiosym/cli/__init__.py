"""The command line: ``ratiosym COMMAND``; ``ratiosym --help`` lists the commands.

Importing a command's module and checking its arguments is cheap; JAX, environments and learner are
imported only when a command runs, so that help and errors appear instantly.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ratiosym.cli.arguments import Command, translate
from ratiosym.cli.commands import Asked, build_command, find_command
from ratiosym.cli.text import printable
from ratiosym.errors import InputError, LostProcessError, missing_library


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Errors that users can fix end with a message and exit code 2."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked: Asked | None = None
    command: Command | None = None
    try:
        check_text(words)
        asked = find_command(words)
        command = build_command(asked)
        command.check()
        command.run()
    except LostProcessError as error:
        stop_alone(str(error))
    except InputError as error:
        fail(translate(str(error), asked.options if asked else ()))
    except ModuleNotFoundError as error:
        missing = missing_library(error)
        if missing is None:
            raise
        fail(str(missing))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output has closed it, as in 'ratiosym tasks | head'
        sys.stderr.close()
        raise SystemExit(141) from None
    except OSError as error:
        if error.strerror is None:
            raise
        fail(describe_failure(error, getattr(command, "out", None)))


def stop_alone(message: str) -> None:
    """Report that another process has stopped, and exit at once: an orderly exit would wait for it
    for minutes, and then abort.
    """
    with suppress(SystemExit):
        fail(message)
    sys.stdout.flush()
    os._exit(2)


def describe_failure(error: OSError, out: Path | None) -> str:
    """Describe an operating-system error. Files for ``out`` are first written under other names."""
    path = Path(error.filename) if isinstance(error.filename, str) else None
    if out is not None and path is not None and path.absolute().parent == out.absolute().parent:
        return f"'{out}' cannot be written ({error.strerror}). Choose another --out."
    where = f"'{path}' cannot be read or written" if path else "A file cannot be read or written"
    return f"{where} ({error.strerror})."


def check_text(words: Sequence[str]) -> None:
    """Reject names that are not UTF-8, as they can be neither recorded nor printed."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word!a} is not UTF-8 text. Use another name.") from None


def fail(message: str) -> None:
    """Print a message to standard error and exit with code 2."""
    print(f"ratiosym: {printable(message)}", file=sys.stderr, flush=True)
    raise SystemExit(2) from None
