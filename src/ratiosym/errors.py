"""Errors that users can act on. Imports nothing, so that every module can raise them."""


class InputError(ValueError):
    """Invalid input. The message says what was given, what is allowed and what to do."""


class MissingLibraryError(InputError, ImportError):
    """A missing optional dependency. The message says how to install it."""
