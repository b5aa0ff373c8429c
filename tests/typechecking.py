"""The checker of annotations that jaxtyping's import hook applies to the package under test."""

from beartype import BeartypeConf, beartype

# An int where a float is announced is right, as for mypy (PEP 484).
check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))
