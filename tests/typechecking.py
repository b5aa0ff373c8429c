"""The checker of annotations that jaxtyping's import hook applies to the package under test."""

from contextlib import contextmanager

import jaxtyping
from beartype import BeartypeConf, beartype

# An int where a float is announced is right, as for mypy (PEP 484).
check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))


@contextmanager
def unchecked():
    """For what passes other types than announced on purpose, to see what is said about them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
