"""Provenance of a run: versions, commit, machine, command."""

import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ratiosym.machine import processor_name

PACKAGES = ("ratiosym", "jax", "jaxlib", "numpy", "optax", "orbax-checkpoint", "jaxmarl", "jumanji")


def versions() -> dict[str, str | None]:
    """Return the versions of everything that results depend on."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """Return the commit of the source tree, or None for an installed package.

    '+changes' is appended if files have been edited.
    """
    root = Path(__file__).parent
    try:
        run = {"cwd": root, "capture_output": True, "text": True, "timeout": 10, "check": True}
        tracked = subprocess.run(["git", "ls-files", "--error-unmatch", __file__], **run)  # type: ignore[call-overload]
        name = subprocess.run(["git", "rev-parse", "HEAD"], **run).stdout.strip()  # type: ignore[call-overload]
        status = subprocess.run(["git", "status", "--porcelain", "--", "."], **run)  # type: ignore[call-overload]
    except (OSError, subprocess.SubprocessError):
        return None
    return name + ("+changes" if status.stdout.strip() else "") if tracked else None


def provenance(command: str | None = None) -> dict[str, Any]:
    """Describe what ran and where. ``command`` repeats it; by default the one that was typed."""
    import jax

    typed = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {
        "versions": versions(),
        "commit": commit(),
        "devices": [d.device_kind for d in jax.devices()],
        "platform": platform.platform(),
        "processor": processor_name(),
        "command": command or typed,
        "started_by": typed,  # a worker of a study, a script, a command
    }


def train_command(record: Path, num_seeds: int) -> str:
    """Return a command that repeats a run with the settings in its record."""
    words = ["ratiosym", "train", "--config", str(record)]
    return shlex.join([*words, *(["--num-seeds", str(num_seeds)] if num_seeds > 1 else [])])
