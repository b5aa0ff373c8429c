"""A worker process: ``python -m ratiosym.experiments.jobs.worker`` runs one job read from stdin."""

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
    """Read cores and a job, as written by ``executors.send_job``, and run the job."""
    cores = pickle.load(sys.stdin.buffer)
    if cores and hasattr(os, "sched_setaffinity"):
        # Before JAX starts, as it determines the number of devices and threads.
        os.sched_setaffinity(0, cores)
    signal.signal(signal.SIGTERM, _interrupt)
    job = pickle.load(sys.stdin.buffer)
    Thread(target=_exit_with_input, daemon=True).start()
    start_jax()
    try:
        perform(job)
    except InputError as error:
        sys.exit(str(error))  # only the message in the log; other errors have a traceback


def _interrupt(number: int, frame: Any) -> None:
    """End as with Ctrl-C, so that files are closed."""
    ending.set()
    raise KeyboardInterrupt


def _exit_with_input() -> None:
    """Exit when the parent process ends, which closes its end of the pipe however it dies.

    Otherwise orphaned workers would occupy cores that the next start needs. Work since the last
    checkpoint is lost.
    """
    # Do not use sys.stdin, whose lock a thread must not hold when Python exits.
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
