"""Facts about this machine, from the standard library alone."""

import platform
from pathlib import Path


def cpu_info() -> list[str]:
    """Return the lines of /proc/cpuinfo; empty where there is none."""
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def processor_name() -> str:
    """Return the processor's model name."""
    names = (x.split(":", 1)[1].strip() for x in cpu_info() if x.startswith("model name"))
    return next(names, platform.processor())
