"""A worker process: ``python -m ratiosym.experiments.jobs.worker`` reads one job from its standard
input and carries it out.
"""

import os
import pickle
import signal
import sys
from threading import Thread
from typing import Any

from ratiosym.errors import InputError
from ratiosym.experiments.jobs.job import ending, perform
from ratiosym.learning.devices import start_jax


def main() -> None:
    """Read cores and a job, as ``executors.send_job`` writes them, and carry the job out."""
    cores = pickle.load(sys.stdin.buffer)
    if cores and hasattr(os, "sched_setaffinity"):
        # Before JAX starts, which takes its devices and threads from this.
        os.sched_setaffinity(0, cores)
    signal.signal(signal.SIGTERM, _interrupt)
    job = pickle.load(sys.stdin.buffer)
    Thread(target=_exit_with_input, daemon=True).start()
    start_jax()
    try:
        perform(job)
    except InputError as error:
        sys.exit(str(error))  # one sentence for the log; other errors with their traceback


def _interrupt(number: int, frame: Any) -> None:
    """Asked to end: as with Ctrl-C, so that files are closed."""
    ending.set()
    raise KeyboardInterrupt


def _exit_with_input() -> None:
    """End with the process that started this one: its end of the pipe closes however it dies.
    Otherwise workers would stay behind, on cores that the next start wants (Decision 53). Work
    since the last checkpoint is lost.
    """
    # Not through sys.stdin, whose lock a thread must not hold when Python exits.
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
