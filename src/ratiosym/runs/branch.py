"""Start a new run from a checkpoint of another, with other settings.

The new run starts with copies of the parent's checkpoint and of its tables up to it. From then on
it is an ordinary run, which is resumed separately. Its ``config.json`` names the parent.
"""

import dataclasses
import hashlib
from dataclasses import fields
from pathlib import Path

from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.runs import checkpoint, tables
from ratiosym.runs.checkpoint import Checkpoint
from ratiosym.runs.directory import Parent, Run, read_config, single_run, table_extents
from ratiosym.runs.files import write_whole

# Further settings that the state of a run or its step count depend on.
FREE = ("num_epochs", "num_minibatches", "time_limit", "mask_inactive", "num_eval_episodes")


def find_parent(name: str | Path) -> tuple[Run, int]:
    """Find a run and one of its checkpoints from ``RUN`` (the newest) or ``RUN@UPDATE``."""
    path, at, number = str(name).rpartition("@")
    has_update = bool(at) and number.isdecimal() and not Path(name).is_dir()
    own = single_run(Path(path if has_update else name))
    run = Run(own, read_config(own))
    present = checkpoint.updates(run.checkpoints)
    if not present:
        raise InputError(f"The run in '{run.directory}' has no checkpoint to start from.")
    update = int(number) if has_update else present[-1]
    if update not in present:
        there = ", ".join(map(str, present))
        raise InputError(
            f"The run in '{run.directory}' has no checkpoint after update {update}. It has those "
            f"after: {there}."
        )
    return run, update


def check_settings(parent: Run, update: int, config: RunConfig) -> None:
    """Raise ``InputError`` unless a run with these settings can start from the checkpoint."""
    old = parent.config
    pairs = {name: (getattr(old, name), getattr(config, name)) for name in ("task", "seed")}
    for f in fields(config.shape):
        if f.name not in FREE:
            pairs[f.name] = (getattr(old.shape, f.name), getattr(config.shape, f.name))
    for name, (there, here) in pairs.items():
        if there != here:
            raise InputError(
                f"`{name}` is {here!r}, but {there!r} in '{parent.directory}'. A run that branches "
                f"from another keeps its task, seed, network and sizes, which are those of its "
                f"checkpoint. Omit `{name}`, or start a new run."
            )
    if config.num_updates <= update:
        per_update = config.shape.steps_per_update
        raise InputError(
            f"`steps` is {config.steps:,}, but the checkpoint of '{parent.directory}' is after "
            f"{update * per_update:,} steps. Choose a larger number."
        )


def default_out(parent: Run, update: int) -> Path:
    """Return a directory next to the parent's."""
    directory = parent.directory.absolute()
    return directory.with_name(f"{directory.name}-from-{update}")


def describe_parent(parent: Run, update: int) -> Parent:
    """Return the description of the parent for the record."""
    listing = parent.checkpoints / str(update) / checkpoint.LISTING
    try:
        checksum = hashlib.sha256(listing.read_bytes()).hexdigest()
    except OSError:
        checksum = ""
    return Parent(str(parent.directory.absolute()), update, checksum)


def copy_parent(run: Run, parent: Run, found: Checkpoint) -> None:
    """Copy the parent's tables and then its checkpoint to a new run."""
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    for name, extent in table_extents(parent, found).items():
        data = tables.read_beginning(*parent.table_files(name), extent)
        for path in run.table_files(name) if data else ():
            write_whole(path, data)
    meta = dataclasses.replace(found.meta, config=run.config.to_dict())
    checkpoint.save(run.checkpoints, found.arrays, meta)


def complete_copy(run: Run, recorded: Parent) -> None:
    """Repeat the copy of the parent if it was interrupted."""
    if checkpoint.updates(run.checkpoints):
        return
    parent = Run(Path(recorded.run), run.config)
    is_there = describe_parent(parent, recorded.update) == recorded
    if not is_there:
        raise InputError(
            f"The run in '{run.directory}' has no checkpoint, and that of its parent "
            f"'{recorded.run}' after update {recorded.update} is missing or changed. It cannot be "
            f"resumed."
        )
    found = checkpoint.load(parent.checkpoints, recorded.update)
    for name, extent in table_extents(parent, found).items():
        table = run.table_files(name)[0]
        if table.exists() and table.stat().st_size > extent.num_bytes:
            raise InputError(
                f"The checkpoints of the run in '{run.directory}' are missing, so it cannot be "
                f"resumed. Its tables were not changed; branch from '{recorded.run}' again."
            )
    copy_parent(run, parent, found)
