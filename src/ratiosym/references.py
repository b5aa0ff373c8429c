"""References to user code: ``package.module:attribute`` or ``path/to/file.py:attribute``.

A task, network, objective or tracker given in this form is recorded with the run, so any process
that resumes the run can load it again.
"""

import hashlib
import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ratiosym.errors import InputError


def is_reference(name: str) -> bool:
    """Whether a name refers to an attribute of a module or file."""
    module, colon, attribute = name.rpartition(":")
    return bool(colon and module and attribute.isidentifier())


def load_reference(name: str, what: str) -> Any:
    """Load the referenced object. ``what`` is used in error messages ("task", "network")."""
    module_name, _, attribute = name.rpartition(":")
    if not is_reference(name):
        raise InputError(
            f"The {what} '{name}' is not of the form package.module:name or path/to/file.py:name."
        )
    module = (
        _load_file(name, module_name, what)
        if module_name.endswith(".py")
        else _import(name, module_name, what)
    )
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise InputError(
            f"The {what} '{name}' cannot be loaded: '{module_name}' has no '{attribute}'."
        ) from None


def canonical_reference(name: str) -> str:
    """Make a reference valid from any working directory by making file paths absolute."""
    module_name, _, attribute = name.rpartition(":")
    if is_reference(name) and module_name.endswith(".py"):
        return f"{Path(module_name).expanduser().absolute()}:{attribute}"
    return name


def _import(name: str, module_name: str, what: str) -> ModuleType:
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # like ``python -m``, but last, to not shadow installed packages
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] == error.name.split(".")[0]:
            raise InputError(
                f"The {what} '{name}' cannot be loaded: there is no module '{error.name}'. Install "
                f"its package, run from the directory that contains it, or name a file: "
                f"path/to/file.py:name."
            ) from None
        raise


class _SourceLoader(SourceFileLoader):
    """Compiles a file at every start: bytecode can be older than an edit of a second ago."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_file(name: str, path: str, what: str) -> ModuleType:
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        raise InputError(f"The {what} '{name}' cannot be loaded: there is no file '{file}'.")
    # Load each file once per process, so that its classes keep their identity.
    module_name = f"ratiosym_user_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    loader = _SourceLoader(module_name, str(file))
    spec = importlib.util.spec_from_file_location(module_name, file, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module
