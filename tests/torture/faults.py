"""Faults: processes that end, a disk that is full."""

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from time import monotonic, sleep

FAULTS = ("kill", "worker", "terminate", "disk", "clock")
PATIENCE = 1800.0  # seconds after which a command counts as hanging


def workers_of(pid: int) -> list[int]:
    """The worker processes of a command."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(n) for n in children if b"worker" in Path(f"/proc/{n}/cmdline").read_bytes()]
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    """Whether a process is still there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def send(pid: int, number: signal.Signals) -> None:
    """A signal to a process that may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def full_disk(directory: Path, num_free: int) -> Iterator[None]:
    """Fill the file system of a directory but for some bytes; make room again in the end."""
    ballast = directory / "ballast"
    try:
        with open(ballast, "wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
            os.truncate(ballast, max(0, ballast.stat().st_size - num_free))
        yield
    finally:
        ballast.unlink(missing_ok=True)


def strike(fault: str, process: subprocess.Popen[bytes], disk: Path, draw: Random) -> None:
    """Let a fault happen to a command, and wait until the command has ended."""
    workers = workers_of(process.pid)
    if fault == "disk":
        with full_disk(disk, draw.randrange(0, 1 << 16)):
            wait(process)
    elif fault == "worker" and workers:
        send(draw.choice(workers), signal.SIGKILL)
    elif fault in ("kill", "worker"):
        process.kill()
    elif fault == "terminate":
        process.terminate()
    wait(process)
    wait_for(lambda: not any(map(is_alive, workers)))


def wait(process: subprocess.Popen[bytes]) -> None:
    """Until a process has ended; TimeoutError for one that hangs."""
    wait_for(lambda: process.poll() is not None)


def wait_for(condition: Callable[[], bool]) -> None:
    """Until something holds."""
    deadline = monotonic() + PATIENCE
    while not condition():
        if monotonic() > deadline:
            raise TimeoutError(f"Still waiting after {PATIENCE:.0f} s.")
        sleep(0.05)
