"""What the generic adapters share: options in a task's name, and arrays of any shape as rows."""

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

DEFAULT_TIME_LIMIT = 500  # steps, where a library's environment has no limit of its own
FACTORY = (
    "Write a function that returns an environment as ratiosym.Env describes it, and name it as "
    "path/to/file.py:function."
)


@contextmanager
def calling() -> Iterator[None]:
    """The place to call a library: it may promote ranks, whatever the user has set, and its
    warnings are for its authors.
    """
    with jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class TimedState(NamedTuple):
    """A library's state, and the steps since the episode's start."""

    world: Any
    time: Int[Array, ""]


def split_options(name: str) -> tuple[str, dict[str, Any]]:
    """An environment's name and the options after it: ``coin_game?shared_rewards=True&time=5``.

    Values are Python literals (numbers, True, None, quoted text); anything else is text.
    """
    name, _, query = name.partition("?")
    return name, {option: _read(value) for option, value in parse_qsl(query, strict_parsing=False)}


def _read(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_time_limit(task: str, options: dict[str, Any], own: int | None) -> int:
    """The longest an episode can last: the library's limit (``own``), or the option
    ``time_limit``, which is taken out of ``options``.
    """
    limit = options.pop("time_limit", own or DEFAULT_TIME_LIMIT)
    if type(limit) is not int or limit < 1:
        raise InputError(f"Task '{task}': time_limit is {limit!r}; it must be at least 1.")
    return min(limit, own) if own else limit


def rows(tree: PyTree, num_agents: int) -> Float[Array, "A F"]:
    """Arrays with the agents in front, of any shape and type, as one row of numbers per agent."""
    leaves = [
        jnp.asarray(leaf).reshape(num_agents, -1).astype(jnp.float32)
        for leaf in jax.tree.leaves(tree)
    ]
    return jnp.concatenate(leaves, axis=1)


def row(tree: PyTree) -> Float[Array, "F"]:
    """Arrays of any shape and type as one row of numbers."""
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves)


def stretch(action: Float[Array, "A size"], low: Any, high: Any) -> Float[Array, "A size"]:
    """From (-1, 1), where our policies act, to a library's box."""
    return low + (action + 1) / 2 * (high - low)


def like(tree: PyTree, before: PyTree) -> PyTree:
    """A state with the dtypes that it had before the step, which libraries do not always keep."""

    def cast(leaf: Any, old: Any) -> Any:
        leaf = jnp.asarray(leaf)
        return leaf if leaf.dtype == old.dtype else leaf.astype(old.dtype)

    return jax.tree.map(cast, tree, before)


def at_least_one(legal: Bool[Array, "A actions"]) -> Bool[Array, "A actions"]:
    """Where a library leaves an agent no action, any will do: the contract asks for one."""
    return legal | ~legal.any(axis=1, keepdims=True)
