"""Jobs that cost nothing."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from ratiosym.errors import InputError
from ratiosym.experiments.jobs import perform


@dataclass(frozen=True)
class FileJob:
    """Writes a file: the process's cores. ``how`` it goes about it: well, slowly, stubbornly (it
    does not end when asked to), or not at all.
    """

    directory: Path
    name: str = "job"
    how: str = "well"

    @property
    def path(self):
        return self.directory / "work" / self.name

    @property
    def result(self):
        return self.directory / self.name

    @property
    def failure(self):
        return self.directory / f"{self.name}.failure"

    def is_over(self):
        return self.result.exists() or self.failure.exists()

    def progress(self):
        return len(list(self.directory.glob(f"{self.name}.part-*")))

    def run(self):
        if self.how == "stubbornly":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.how in ("slowly", "stubbornly"):
            self.path.with_name(f"{self.name}.started").touch()
            time.sleep(600)
        if self.how == "refused":
            raise InputError("This cannot be done.")
        if self.how == "broken":
            raise RuntimeError("Something is broken.")
        self.result.write_text(str(sorted(os.sched_getaffinity(0))))

    def give_up(self, reason):
        self.failure.write_text(reason)


class Here:
    """An executor in this process, one job after another."""

    def __init__(self):
        self.over, self.order = [], []

    def capacity(self):
        return 1

    def has_room(self):
        return not self.over

    def start(self, job):
        self.order.append(job.name)
        perform(job)
        self.over.append((job, ""))

    def ended(self):
        over, self.over = self.over, []
        return over

    def close(self):
        pass


class Deadly(Here):
    """Workers that die, as long as ``deaths`` last; ``advance(job)`` is what each does before."""

    def __init__(self, deaths, advance=lambda job: None):
        super().__init__()
        self.deaths, self.advance = deaths, advance

    def start(self, job):
        if not self.deaths:
            super().start(job)
            return
        self.deaths -= 1
        self.order.append(job.name)
        self.advance(job)
        self.over.append((job, "The worker process was killed by SIGKILL.\nits last words"))
