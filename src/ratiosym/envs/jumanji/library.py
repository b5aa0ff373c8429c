"""What the three adapters share: how the library is imported and called."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp

from ratiosym.types import MissingLibraryError


@contextmanager
def library_for(task: str) -> Iterator[None]:
    """The place to import from jumanji and to make its objects, or one line on how to get it for ``task``.

    The library makes arrays there: concrete ones, even where an outer function is being traced.
    """
    if find_spec("jumanji") is None:
        raise MissingLibraryError(
            f"Task {task!r} needs the library jumanji. Install it with: pip install 'ratiosym[jumanji]'"
        )
    with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
        yield


def strong(tree: Any) -> Any:
    """Arrays without weak types, so that what follows a reset compiles once."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), tree)
