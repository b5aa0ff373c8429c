"""Typed records from plain data, for every file that people can edit (runs, plans, settings).

JSON and TOML do not know which fields a record has or which type each value must have.
``read_record`` returns a dataclass whose fields have their declared types, or raises an
``InputError`` that names the field, what was given and what is allowed.
"""

import dataclasses
import math
import types
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ratiosym.errors import InputError

Record = TypeVar("Record")

_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table of names and values",
}


def read_record(kind: type[Record], data: Any, what: str) -> Record:
    """Build a ``kind`` from a mapping. ``what`` begins error messages, as in "The run's config"."""
    if not isinstance(data, Mapping):
        raise InputError(f"{what} is {shorten(data)}; it must be {_WORDS[dict]}.")
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    for name in data:
        if name not in fields:
            raise unknown_name("name", name, fields, f" {what} has: {', '.join(fields)}.")
    required = [
        n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in required if name not in data]
    if missing:
        raise InputError(f"{what} needs '{missing[0]}'. It has: {', '.join(fields)}.")
    return kind(
        **{
            name: read_value(hints[name], value, f"{what}: '{name}'")
            for name, value in data.items()
        }
    )


def read_value(kind: Any, value: Any, what: str) -> Any:
    """Convert a value to its declared type. Integers are accepted as floats; booleans are not."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return read_record(kind, value, what)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _read_any_of([k for k in arguments if k is not type(None)], value, what)
    if origin is Literal:
        if value not in arguments or type(value) not in map(type, arguments):
            allowed = ", ".join(map(repr, arguments))
            raise InputError(f"{what} is {shorten(value)}; it must be one of {allowed}.")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{what} is {shorten(value)}; it must be a list.")
        return tuple(
            read_value(arguments[0], entry, f"{what} entry {number}")
            for number, entry in enumerate(value, 1)
        )
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise InputError(f"{what} is {shorten(value)}; it must be {_WORDS[dict]}.")
        return {
            name: read_value(arguments[1], entry, f"{what}: '{name}'")
            for name, entry in value.items()
        }
    return _read_scalar(kind, value, what)


def _read_any_of(kinds: list[Any], value: Any, what: str) -> Any:
    """Convert a value to the first type that accepts it."""
    allowed = []
    for kind in kinds:
        try:
            return read_value(kind, value, what)
        except InputError as error:
            if len(kinds) == 1:
                raise
            allowed.append(str(error).rpartition("; it must be ")[2].rstrip("."))
    raise InputError(f"{what} is {shorten(value)}; it must be {' or '.join(allowed)}.")


def _read_scalar(kind: type, value: Any, what: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InputError(
            f"{what} is {shorten(value)}; it must be {_WORDS.get(kind, kind.__name__)}."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{what} is {value}; it must be a finite number.")
    return value


def to_plain(value: Any) -> Any:
    """Convert array scalars to Python numbers; return anything else unchanged."""
    is_scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return value.item() if is_scalar else value


def check_count(name: str, value: Any) -> None:
    """Raise ``InputError`` unless an argument is a whole number of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InputError(f"`{name}` is {value!r}; it must be a whole number.")
    if value < 1:
        raise InputError(f"`{name}` is {value}; it must be at least 1.")


def unknown_name(what: str, name: Any, names: Iterable[str], end: str | None = None) -> InputError:
    """Build the error for an unknown name, with the closest match and the valid names."""
    names = list(names)
    matches = get_close_matches(str(name), names, n=1, cutoff=0.4)
    closest = "".join(f" Closest: '{match}'." for match in matches)
    end = f" Choose one of: {', '.join(names)}." if end is None else end
    return InputError(f"Unknown {what} '{name}'.{closest}{end}")


def shorten(value: Any, limit: int = 60) -> str:
    """Return the repr of a value, shortened to ``limit`` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."
