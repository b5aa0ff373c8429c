"""Check that worker processes can load all parts of a run from the names in its configuration."""

from ratiosym.envs.registry import REGISTERED
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.objectives import BUILT_IN

_WAY_OUT = (
    "Name it as package.module:name or path/to/file.py:name instead, which every process can load"
)


def check_portable(config: RunConfig) -> None:
    """Raise ``InputError`` for a part that is only registered in this process."""
    if config.task in REGISTERED:
        raise InputError(
            f"The task '{config.task}' was registered in this process (register_task), so "
            f"worker processes cannot find it. {_WAY_OUT}, or give its package an entry point "
            f"'ratiosym.tasks'."
        )
    if ":" not in config.objective and config.objective not in BUILT_IN:
        raise InputError(
            f"The objective '{config.objective}' was registered in this process "
            f"(register_objective), so worker processes cannot find it. {_WAY_OUT}."
        )
