"""What this machine is. Needs nothing but Python."""

import platform
from pathlib import Path


def cpu_info() -> list[str]:
    """What Linux says of the processors, line by line; nothing elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def processor_name() -> str:
    """The processor as its maker calls it."""
    names = (x.split(":", 1)[1].strip() for x in cpu_info() if x.startswith("model name"))
    return next(names, platform.processor())
