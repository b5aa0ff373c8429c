"""The training state of a learner as arrays by path, and back."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ratiosym.learning.learner import Learner, TrainState, fresh_state, place_state
from ratiosym.runs.checkpoint import Checkpoint, CheckpointError


def restore(learner: Learner, checkpoints: list[Checkpoint]) -> TrainState:
    """Stack the checkpoints of parallel seeds and place them on the learner's devices."""
    seeds = jax.ShapeDtypeStruct((len(checkpoints),), np.uint32)
    like = fresh_state.eval_shape(learner.env, learner.shape, learner.model, seeds)
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
    """Return the leaves by path, with random keys as numbers."""
    return {
        path_name(path): np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def unflatten(arrays: dict[str, np.ndarray], like: PyTree, prefix: str = "") -> PyTree:
    """Build a tree like ``like`` from ``arrays``, with keys as numbers.

    Raises ``CheckpointError`` if shapes or dtypes do not match.
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
                f"The checkpoint does not match this task and these settings: '{name}' should be "
                f"{expected.dtype}{list(expected.shape)}, but it contains {has}. It may come from "
                f"another task, another version of an environment, or other sizes; see config.json "
                f"next to it."
            )
        return found

    return jax.tree_util.tree_map_with_path(find, like)


def is_key(leaf: Any) -> bool:
    """Whether a leaf is a random key."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def path_name(path: Any) -> str:
    """Return the path of a leaf as text."""
    return jax.tree_util.keystr(path, simple=True, separator="/")
