"""Save and restore everything a run is: parameters, optimiser, environments, carries, keys, best
parameters, curves.

One checkpoint is one directory, ``checkpoint/<update>/``, of one seed. It appears whole or not at
all, can be moved, and lists its files with their checksums.
"""

import hashlib
import json
import logging
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ratiosym.errors import InputError
from ratiosym.learning.learner import Learner, TrainState, fresh_state, place_state

FORMAT = 1
NUM_KEPT = (
    2  # seeds side by side may be killed one checkpoint apart; the one before is then common to all
)

LISTING = "files.json"
UNFINISHED = ".writing-"  # begins the name of what is not, or no longer, a checkpoint

Curves = dict[str, dict[str, np.ndarray]]  # table -> column -> values


class CheckpointError(InputError):
    """A checkpoint that cannot be used."""


class Checkpoint(NamedTuple):
    """What one directory holds."""

    arrays: dict[str, np.ndarray]  # the state of one seed, by path
    curves: Curves
    meta: dict[str, Any]  # update, config, spec


def save(directory: Path, update: int, state: PyTree, curves: Curves, meta: dict[str, Any]) -> None:
    """Write ``directory/<update>`` and forget all but the newest checkpoints."""
    import orbax.checkpoint as ocp

    logging.getLogger("absl").setLevel(logging.ERROR)
    arrays = flatten(state)
    arrays |= {
        f"curves/{table}/{name}": x
        for table, columns in curves.items()
        for name, x in columns.items()
    }
    # Zero-size arrays carry nothing but their shape, which the program knows.
    arrays = {name: x for name, x in arrays.items() if x.size}
    meta = {"update": update, **meta}
    for unfinished in directory.glob(f"{UNFINISHED}*"):  # of a save that was interrupted
        shutil.rmtree(unfinished)
    final, temporary = directory / str(update), (directory / f"{UNFINISHED}{update}").absolute()
    with checkpointer() as writer:
        writer.save(
            temporary,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(arrays), meta=ocp.args.JsonSave(meta)
            ),
        )
    listing = {"format": FORMAT, "files": checksums(temporary)}
    (temporary / LISTING).write_text(json.dumps(listing, indent=2))
    if final.exists():  # from before a resume: the same numbers
        discard(final)
    os.replace(temporary, final)
    for old in updates(directory)[:-NUM_KEPT]:
        discard(directory / str(old))


def discard(path: Path) -> None:
    """Remove a checkpoint; interrupted halfway, what is left of it does not look like one."""
    remains = path.with_name(f"{UNFINISHED}{path.name}-old")
    os.replace(path, remains)
    shutil.rmtree(remains)


def checkpointer() -> Any:
    """Orbax, with this process as the only writer."""
    import orbax.checkpoint as ocp

    own = jax.process_index()
    options = ocp.options.MultiprocessingOptions(
        primary_host=own, active_processes={own}, barrier_sync_key_prefix=f"ratiosym{own}"
    )
    handler = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=options),
        state=ocp.StandardCheckpointHandler(multiprocessing_options=options),
        meta=ocp.JsonCheckpointHandler(multiprocessing_options=options),
    )
    return ocp.Checkpointer(handler, multiprocessing_options=options)


def updates(directory: Path) -> list[int]:
    """The checkpoints in a directory, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(int(p.name) for p in directory.iterdir() if p.name.isdigit())


def load(directory: Path, update: int | None = None) -> Checkpoint:
    """Read a checkpoint, the newest unless said otherwise; CheckpointError where that cannot be
    done.
    """
    import orbax.checkpoint as ocp

    logging.getLogger("absl").setLevel(logging.ERROR)
    present = updates(directory)
    if not present:
        raise CheckpointError(
            f"There is no checkpoint in '{directory}'. Name the directory of a run that has made "
            f"its first "
            f"evaluation; 'ratiosym train TASK --out DIR' makes one."
        )
    path = directory / str(present[-1] if update is None else update)
    verify(path)
    try:
        with checkpointer() as reader:
            found = reader.restore(
                path.absolute(),
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(), meta=ocp.args.JsonRestore()
                ),
            )
    except Exception as error:
        raise CheckpointError(damaged(path, f"{type(error).__name__} while reading it")) from error
    meta, arrays = dict(found["meta"]), {name: np.asarray(x) for name, x in found["state"].items()}
    curves: Curves = {}
    for name in [n for n in arrays if n.startswith("curves/")]:
        _, table, column = name.split("/")
        curves.setdefault(table, {})[column] = arrays.pop(name)
    return Checkpoint(arrays, curves, meta)


def verify(path: Path) -> None:
    """Raise CheckpointError unless all files are as they were written. Orbax fails loudly, or not
    at all.
    """
    try:
        listing = json.loads((path / LISTING).read_text())
        number, files = listing["format"], listing["files"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(damaged(path, f"{LISTING}: {type(error).__name__}")) from None
    if number != FORMAT:
        raise CheckpointError(
            f"The checkpoint '{path}' has format {number!r}; this version of ratiosym reads format "
            f"{FORMAT}. "
            f"Use the version that wrote it (config.json names it), or start a new run."
        )
    found = checksums(path)
    different = sorted(name for name in files if found.get(name) != files[name])
    if different:
        state = "has changed" if different[0] in found else "is missing"
        raise CheckpointError(damaged(path, f"its file {different[0]} {state}"))


def damaged(path: Path, reason: str) -> str:
    """What to say of a checkpoint that is there but cannot be read."""
    others = [u for u in updates(path.parent) if u != int(path.name)]
    way_out = (
        f"The one after update {others[-1]} is still there: remove '{path}' to go on from it."
        if others
        else ("Nothing was changed; start a new run in another directory.")
    )
    return f"The checkpoint '{path}' is damaged ({reason}). {way_out}"


def restore(learner: Learner, checkpoints: list[Checkpoint]) -> TrainState:
    """Seeds side by side again, on the learner's devices."""
    seeds = jax.ShapeDtypeStruct((len(checkpoints),), np.uint32)
    like = jax.eval_shape(partial(fresh_state, learner.env, learner.shape, learner.model), seeds)
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), like)
    state = jax.tree.map(
        lambda *leaves: np.stack(leaves), *(unflatten(c.arrays, one) for c in checkpoints)
    )
    return place_state(
        learner,
        jax.tree.map(
            lambda x, leaf: jax.random.wrap_key_data(x) if is_key(leaf) else x, state, like
        ),
    )


def flatten(tree: PyTree) -> dict[str, np.ndarray]:
    """Leaves by path; random keys as their numbers."""
    return {
        path_name(path): np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def unflatten(arrays: dict[str, np.ndarray], like: PyTree, prefix: str = "") -> PyTree:
    """The leaves of ``like`` from ``arrays``; keys still as numbers. CheckpointError where they do
    not fit.
    """

    def find(path: Any, leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        name = prefix + path_name(path)
        expected = jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf
        if 0 in expected.shape:
            return np.zeros(expected.shape, expected.dtype)
        found = arrays.get(name)
        if found is None or (found.shape, found.dtype) != (expected.shape, expected.dtype):
            has = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise CheckpointError(
                f"The checkpoint does not fit this task and these settings: '{name}' should be "
                f"{expected.dtype}{list(expected.shape)}, but it holds {has}. It may come from "
                f"another task, another "
                f"version of an environment, or other sizes; config.json beside it says which."
            )
        return found

    return jax.tree_util.tree_map_with_path(find, like)


def is_key(leaf: Any) -> bool:
    """Whether a leaf is a random key."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def path_name(path: Any) -> str:
    """A leaf's place as text."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def checksums(path: Path) -> dict[str, str]:
    """SHA-256 of every file of a checkpoint but the listing itself."""
    files = (p for p in sorted(path.rglob("*")) if p.is_file() and p.name != LISTING)
    return {
        p.relative_to(path).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }
