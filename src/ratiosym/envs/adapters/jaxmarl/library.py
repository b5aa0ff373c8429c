"""Helpers of the adapters: loading and building jaxmarl's classes, and stacking its dicts."""

import importlib
import sys
import warnings
from importlib.util import find_spec, module_from_spec
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ratiosym.errors import MissingLibraryError


def load(task: str, module: str, name: str) -> Any:
    """Load a class or function of jaxmarl, or raise an error that says how to install it."""
    if find_spec("jaxmarl") is None:
        raise MissingLibraryError(
            f"Task {task!r} needs the library jaxmarl. Install it with: pip install "
            f"'ratiosym[jaxmarl]'"
        )
    with jax.ensure_compile_time_eval(), jax.numpy_rank_promotion("allow"):
        return getattr(_import_alone(f"jaxmarl.environments.{module}"), name)


def build(library_class: Any, **settings: Any) -> Any:
    """Build an instance. Arrays that the library creates are concrete even during tracing."""
    with (
        jax.ensure_compile_time_eval(),
        jax.numpy_rank_promotion("allow"),
        warnings.catch_warnings(),
    ):
        # JaxNav's map warns about its default distance to the goal, which grid starts do not use.
        warnings.filterwarnings("ignore", "max_dist_to_goal", UserWarning)
        return library_class(**settings)


def stack(library: Any, values: dict[str, Array]) -> Array:
    """Stack a dict into one array, in the library's agent order."""
    return jnp.stack([values[agent] for agent in library.agents])  # [A, ...]


def unstack(library: Any, values: Array) -> dict[str, Array]:
    """Split an array into the dict by agent name that the library expects."""
    return {agent: values[index] for index, agent in enumerate(library.agents)}


def _import_alone(name: str) -> Any:
    """Import a module without running the ``__init__`` files of its parent packages.

    Those of jaxmarl print to standard output and import every environment, which takes seconds.
    Empty packages replace them while the module loads. Afterwards they are removed, so that
    ``import jaxmarl`` works as usual and finds the same classes.
    """
    parts = name.split(".")
    packages = [".".join(parts[:end]) for end in range(1, len(parts))]
    stand_ins = [package for package in packages if package not in sys.modules]
    try:
        for package in stand_ins:
            spec = find_spec(package)
            if spec is None:
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)
            sys.modules[package] = module_from_spec(spec)
        return importlib.import_module(name)
    finally:
        for package in stand_ins:
            sys.modules.pop(package, None)
