"""A run that kills itself, with SIGKILL: ``python -m tests.runs.killed MOMENT DIRECTORY
[NUM_SEEDS]``.

It is the run of ``tests.example_runs``, with a checkpoint at every evaluation; a directory that
holds it already is resumed. The moments:

    start                   before anything has been evaluated or saved
    update-N                after update N
    evaluation-N            after the evaluation, the checkpoint and the tables of update N
    appears:PATTERN         as soon as such a path is in the directory
    instead-of:END          in place of moving a finished file or checkpoint to a path with this end
    torn:TABLE-N            in the middle of the line of update N, in the table or its journal
"""

import os
import signal
import sys
from pathlib import Path
from threading import Thread
from time import sleep

from ratiosym.experiments.presets import configure
from ratiosym.learning.devices import start_jax
from ratiosym.runs import loop, tables
from ratiosym.runs.directory import run_directories
from tests.example_runs import SETTINGS, TASK, TRACK


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def watch(moment, progress):
    kind = "evaluation" if progress.evaluations else "update" if progress.rows else "start"
    if moment in (kind, f"{kind}-{progress.update}"):
        die()


def wait_for(pattern, directory):
    while not any(directory.glob(pattern)):
        sleep(0.0002)
    die()


def replace_until(end, replace=os.replace):
    def guarded(source, destination, **options):
        if str(destination).endswith(end):
            die()
        return replace(source, destination, **options)

    os.replace = guarded


def tear(table, update, append=tables.Table.append, write=tables._write_all):
    def torn(self, row):
        if row["update"] == int(update) and ("mean_return" in row) == (table != "training"):
            tables._write_all = half
        append(self, row)

    def half(file, data):
        if table == "journal":  # the table itself is whole
            write(file, data)
            tables._write_all = lambda file, data: (write(file, data[:7]), die())
            return
        write(file, data[:-9])
        die()

    tables.Table.append = torn


def main(moment, directory, num_seeds="1"):
    directory, how, what = Path(directory), *moment.partition(":")[::2]
    loop.CHECKPOINT_SECONDS = 0.0
    if how == "appears":
        Thread(target=wait_for, args=(what, directory), daemon=True).start()
    if how == "instead-of":
        replace_until(what)
    if how == "torn":
        tear(*what.split("-"))
    start_jax()

    def on_progress(progress):
        watch(moment, progress)

    if run_directories(directory) or (directory / "seeds.json").exists():
        loop.resume(directory, on_progress=on_progress)
    else:
        config = configure(TASK, **SETTINGS)
        loop.start(config, directory, int(num_seeds), on_progress, TRACK)


if __name__ == "__main__":
    main(*sys.argv[1:])
