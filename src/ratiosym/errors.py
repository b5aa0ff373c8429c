"""Errors that a user can act on. Needs nothing, so that every room may raise them."""


class InputError(ValueError):
    """Input that cannot be used. The message says what came, what is allowed and what to do."""


class MissingLibraryError(InputError, ImportError):
    """An optional library that is not installed. The message says how to install it."""
