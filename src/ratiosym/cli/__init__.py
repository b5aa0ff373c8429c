"""The front door: ``ratiosym COMMAND``; ``ratiosym --help`` lists the commands."""

import sys
from collections.abc import Sequence

from ratiosym.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Wrong input ends with one paragraph on standard error and exit code 2."""
    from ratiosym.cli.commands import parse
    from ratiosym.learning.train import NonFiniteLoss

    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        parse(arguments).run()
    except (InputError, NonFiniteLoss) as error:
        print(f"ratiosym: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output has gone, as in 'ratiosym tasks | head'
        sys.stderr.close()
        raise SystemExit(141) from None
