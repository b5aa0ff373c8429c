"""Helpers of the generic adapters: options in task names, and flattening of arrays."""

import ast
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ratiosym.errors import InputError

DEFAULT_TIME_LIMIT = 500  # steps, for environments without a limit of their own
FACTORY = (
    "Write a function that returns an environment as described in ratiosym.Env, and name it as "
    "path/to/file.py:function."
)


@contextmanager
def calling() -> Iterator[None]:
    """Call a library with rank promotion allowed and its warnings silenced."""
    with jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class TimedState(NamedTuple):
    """A library's state, and the number of steps since the start of the episode."""

    world: Any
    time: Int[Array, ""]


def split_options(name: str) -> tuple[str, dict[str, Any]]:
    """Split ``coin_game?shared_rewards=True&time=5`` into an environment's name and its options.

    Values are Python literals (numbers, True, None, quoted text); anything else is read as text.
    """
    name, _, query = name.partition("?")
    return name, {option: _read(value) for option, value in parse_qsl(query, strict_parsing=False)}


def _read(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_time_limit(task: str, options: dict[str, Any], own: int | None) -> int:
    """Return the maximum episode length: the option ``time_limit``, or the library's (``own``).

    Removes ``time_limit`` from ``options``.
    """
    limit = options.pop("time_limit", own or DEFAULT_TIME_LIMIT)
    if type(limit) is not int or limit < 1:
        raise InputError(f"Task '{task}': time_limit is {limit!r}; it must be at least 1.")
    return min(limit, own) if own else limit


def rows(tree: PyTree, num_agents: int) -> Float[Array, "A F"]:
    """Flatten arrays of any shape and dtype, with a leading agent axis, to one row per agent."""
    leaves = [
        jnp.asarray(leaf).reshape(num_agents, -1).astype(jnp.float32)
        for leaf in jax.tree.leaves(tree)
    ]
    return jnp.concatenate(leaves, axis=1)


def row(tree: PyTree) -> Float[Array, "F"]:
    """Flatten arrays of any shape and dtype to one row."""
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves)


def stretch(action: Float[Array, "A size"], low: Any, high: Any) -> Float[Array, "A size"]:
    """Rescale actions from (-1, 1), the range of our policies, to a library's bounds."""
    return low + (action + 1) / 2 * (high - low)


def like(tree: PyTree, before: PyTree) -> PyTree:
    """Restore the dtypes of the state before the step, which libraries do not always preserve."""

    def cast(leaf: Any, old: Any) -> Any:
        leaf = jnp.asarray(leaf)
        return leaf if leaf.dtype == old.dtype else leaf.astype(old.dtype)

    return jax.tree.map(cast, tree, before)


def at_least_one(legal: Bool[Array, "A actions"]) -> Bool[Array, "A actions"]:
    """Allow every action to agents without a legal one, as the contract requires at least one."""
    return legal | ~legal.any(axis=1, keepdims=True)
