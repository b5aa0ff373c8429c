"""The files of a checkpoint: the full training state of a run (``runs/state.py``) as arrays.

A checkpoint is a directory ``checkpoint/<update>/`` of one seed. It is created atomically, can be
moved, and lists its files with their checksums. It contains no curves, so its size is constant;
instead it records the length of the tables (``tables.Extent``).

    files.json   format version, and the checksum of every other file
    meta.json    update, settings, sizes of the environment, versions, extents of the tables
    state/       the arrays, written by Orbax
"""

import asyncio
import ctypes
import errno
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ratiosym.errors import InputError
from ratiosym.plain import read_record

FORMAT = 2
# Parallel seeds may be killed one checkpoint apart; all of them then have the previous one.
NUM_KEPT = 2

LISTING = "files.json"
META = "meta.json"
STATE = "state"
UNFINISHED = ".writing-"  # prefix of incomplete checkpoints


class CheckpointError(InputError):
    """A checkpoint that cannot be used."""


@dataclass(frozen=True)
class Meta:
    """Metadata of a checkpoint."""

    update: int
    config: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    returns: dict[str, Any] = field(default_factory=dict)  # summary of the evaluations so far
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> Extent as plain data


class Checkpoint(NamedTuple):
    """Contents of a checkpoint directory."""

    arrays: dict[str, np.ndarray]  # state of one seed, by path
    meta: Meta


def save(directory: Path, arrays: dict[str, np.ndarray], meta: Meta) -> None:
    """Write ``directory/<update>`` and remove all but the newest checkpoints.

    Raises OSError on failure, in which case existing checkpoints are kept.
    """
    directory.mkdir(exist_ok=True)  # not its parents, so that a moved run does not reappear
    clear_leftovers(directory)
    final = directory / str(meta.update)
    temporary = (directory / f"{UNFINISHED}{meta.update}-{secrets.token_hex(8)}").absolute()
    temporary.mkdir()
    identity = directory.stat()
    try:
        _write_state(temporary / STATE, arrays)
        if not os.path.samestat(directory.stat(), identity):
            # Moved or removed, and created anew by the library: a moved run must not reappear.
            shutil.rmtree(temporary, ignore_errors=True)
            with suppress(OSError):  # not empty: somebody else has put something there
                directory.rmdir()
                directory.parent.rmdir()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
        (temporary / META).write_text(json.dumps(vars(meta), indent=2))
        listing = {"format": FORMAT, "files": checksums(temporary)}
        (temporary / LISTING).write_text(json.dumps(listing, indent=2))
        _sync(temporary)
        if final.exists():  # from before a resume, with the same numbers
            discard(final)
        os.replace(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for old in updates(directory)[:-NUM_KEPT]:
        discard(directory / str(old))
    _return_memory()


def _return_memory() -> None:
    """Return what the library has freed to the system.

    Over 600 checkpoints, a process grew by 23 MB without this and by 17 MB with it.
    """
    with suppress(AttributeError, OSError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


def _write_state(path: Path, state: dict[str, np.ndarray]) -> None:
    """Write the arrays. All errors of the library become OSErrors, as it only writes."""
    import orbax.checkpoint as ocp

    quiet_library()
    # Zero-size arrays contain nothing but their shape, which the program knows.
    arrays = {name: x for name, x in state.items() if x.size}
    try:
        with writer() as library:
            library.save(path, args=ocp.args.PyTreeSave(arrays))
    except OSError:
        raise
    except Exception as error:
        raise OSError(_storage_reason(error)) from error


def _storage_reason(error: Exception) -> str:
    """Extract the operating system's message from a long one of the library, or its beginning."""
    found = re.search(r"os_error_code='(\d+)'", str(error))
    if found:
        return os.strerror(int(found[1]))
    return " ".join(str(error).split())[:120] or type(error).__name__


def _sync(path: Path) -> None:
    """Flush the files of a checkpoint to disk before it gets its final name."""
    for file in path.rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def quiet_library() -> None:
    """Silence the library's logging, as its errors are also raised as exceptions."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)


def clear_leftovers(directory: Path) -> None:
    """Remove leftovers of interrupted saves."""
    for unfinished in directory.glob(f"{UNFINISHED}*"):
        if unfinished.is_symlink() or not unfinished.is_dir():
            unfinished.unlink(missing_ok=True)
        else:
            shutil.rmtree(unfinished)


def discard(path: Path) -> None:
    """Remove a checkpoint; if interrupted, the rest is not mistaken for a checkpoint."""
    remains = path.with_name(f"{UNFINISHED}{path.name}-{secrets.token_hex(8)}-old")
    os.replace(path, remains)
    shutil.rmtree(remains)


def reader() -> Any:
    """Return an Orbax checkpointer to read with."""
    import orbax.checkpoint as ocp

    options = only_process()
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=options)
    return ocp.Checkpointer(handler, multiprocessing_options=options)


def writer() -> Any:
    """Return an Orbax checkpointer to write NumPy arrays with."""
    import orbax.checkpoint as ocp

    options = only_process()
    handlers = ocp.type_handlers.create_type_handler_registry((np.ndarray, patient_handler()))
    handler = ocp.PyTreeCheckpointHandler(
        multiprocessing_options=options, type_handler_registry=handlers
    )
    return ocp.Checkpointer(handler, multiprocessing_options=options)


@cache
def patient_handler() -> Any:
    """Return Orbax's handler of NumPy arrays, which also waits for all writes if one fails.

    Orbax stops at the first failure and closes its event loop. The remaining writes then report to
    a closed loop, with one traceback each on standard error, and still write to a directory that
    is being removed.
    """
    import orbax.checkpoint as ocp

    class PatientHandler(ocp.type_handlers.NumpyHandler):  # type: ignore[misc]
        async def _background_serialize(self, *args: Any, **kwargs: Any) -> None:
            try:
                await super()._background_serialize(*args, **kwargs)
            finally:
                others = asyncio.all_tasks() - {asyncio.current_task()}
                await asyncio.gather(*others, return_exceptions=True)

    return PatientHandler()


def only_process() -> Any:
    """Return the options with which Orbax waits for no other process."""
    import jax
    import orbax.checkpoint as ocp

    own = jax.process_index()
    return ocp.options.MultiprocessingOptions(
        primary_host=own, active_processes={own}, barrier_sync_key_prefix=f"ratiosym{own}"
    )


def updates(directory: Path) -> list[int]:
    """List the checkpoints in a directory, oldest first."""
    if not directory.is_dir():
        return []
    names = (p.name for p in directory.iterdir() if p.is_dir())
    return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]{0,17}", name))


def load(directory: Path, update: int | None = None) -> Checkpoint:
    """Read a checkpoint, the newest by default; raise ``CheckpointError`` if it is unusable."""
    present = updates(directory)
    if not present:
        raise CheckpointError(
            f"There is no checkpoint in '{directory}'. Name the directory of a run that has "
            f"reached its first evaluation; 'ratiosym train TASK --out DIR' creates one."
        )
    path = directory / str(present[-1] if update is None else update)
    verify(path)
    return Checkpoint(_read_state(path), _read_meta(path))


def _read_state(path: Path) -> dict[str, np.ndarray]:
    import orbax.checkpoint as ocp

    quiet_library()
    try:
        with reader() as library:
            found = library.restore((path / STATE).absolute(), args=ocp.args.StandardRestore())
        return {name: np.asarray(x) for name, x in found.items()}
    except Exception as error:
        raise CheckpointError(damaged(path, f"{type(error).__name__} while reading it")) from error


def _read_meta(path: Path) -> Meta:
    try:
        meta = read_record(Meta, json.loads((path / META).read_text()), META)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(damaged(path, f"{META}: {error}")) from None
    if str(meta.update) != path.name:
        raise CheckpointError(damaged(path, f"{META} is of update {meta.update}"))
    return meta


def verify(path: Path) -> None:
    """Raise ``CheckpointError`` unless all files match their checksums.

    Orbax does not detect all kinds of damage.
    """
    try:
        listing = json.loads((path / LISTING).read_text())
        number, files = listing["format"], listing["files"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(damaged(path, f"{LISTING}: {type(error).__name__}")) from None
    if number != FORMAT:
        raise CheckpointError(
            f"The checkpoint '{path}' has format {number!r}; this version of ratiosym reads format "
            f"{FORMAT}. Use the version that wrote it (config.json names it), or start a new run."
        )
    # An empty listing would disable the check.
    if not isinstance(files, Mapping) or META not in files or len(files) < 2:
        raise CheckpointError(damaged(path, f"{LISTING} does not list its files"))
    found = checksums(path)
    different = sorted(n for n in files if n not in found or found[n] != files[n])
    if different:
        state = "has changed" if different[0] in found else "is missing"
        raise CheckpointError(damaged(path, f"its file {different[0]} {state}"))
    # A shortened listing would disable the check of a file. Hidden files are not ours.
    unlisted = sorted(n for n in found.keys() - files.keys() if not Path(n).name.startswith("."))
    if unlisted:
        raise CheckpointError(damaged(path, f"its file {unlisted[0]} is not in {LISTING}"))


def damaged(path: Path, reason: str) -> str:
    """Build the message for a checkpoint that exists but cannot be read."""
    others = [u for u in updates(path.parent) if str(u) != path.name]
    way_out = (
        f"The one after update {others[-1]} is still there: remove '{path}' to resume from it."
        if others
        else "Nothing was changed; start a new run in another directory."
    )
    return f"The checkpoint '{path}' is damaged ({reason}). {way_out}"


def checksums(path: Path) -> dict[str, str]:
    """Compute SHA-256 of every file of a checkpoint except the listing."""
    files = (p for p in sorted(path.rglob("*")) if p.is_file() and p.name != LISTING)
    return {
        p.relative_to(path).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }
