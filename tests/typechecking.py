"""The type checker that jaxtyping's import hook applies to the package under test."""

from contextlib import contextmanager

import jaxtyping
from beartype import BeartypeConf, beartype

# An int is accepted for a float, as in mypy (PEP 484).
check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))


@contextmanager
def unchecked():
    """Disable checks, for tests that pass wrong types on purpose."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
