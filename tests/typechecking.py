"""The type checker that jaxtyping's import hook applies to the package under test."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

# An int where a float is announced is right, as for mypy (PEP 484).
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the shapes and dtypes of annotated arrays. mypy checks the other annotations."""
    function.__annotations__ = {
        name: hint if is_about_arrays(hint) else Any
        for name, hint in function.__annotations__.items()
    }
    return _check(function)


def is_about_arrays(hint: Any) -> bool:
    """Whether an annotation is one of jaxtyping's, or contains one."""
    is_array = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return is_array or any(map(is_about_arrays, get_args(hint)))


@contextmanager
def unchecked():
    """Disable checks, for tests that pass wrong types on purpose."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
