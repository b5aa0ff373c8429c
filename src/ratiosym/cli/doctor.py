"""Is this installation well: versions, devices, the lock, optional parts."""

import importlib.metadata
import platform
import re
from importlib.util import find_spec
from pathlib import Path

from ratiosym.machine import processor_name
from ratiosym.runs.provenance import commit, versions

Check = tuple[str, bool | None, str]  # name, well or not or absent, detail

OPTIONAL = {
    "jaxmarl": "SMAX, MPE and JaxNav tasks: pip install 'ratiosym[jaxmarl]'",
    "jumanji": "RWARE, Connector and Search and Rescue tasks: pip install 'ratiosym[jumanji]'",
    "pettingzoo": "environments as PettingZoo knows them: pip install 'ratiosym[pettingzoo]'",
    "ray": "study and tune --executor ray: pip install 'ratiosym[cluster]'",
    "psycopg": "tune --storage postgresql://...: pip install 'ratiosym[cluster]'",
    "wandb": "train --track wandb: pip install 'ratiosym[wandb]'",
}


def examine() -> list[Check]:
    """All findings."""
    return [*check_versions(), check_devices(), check_lock(), *check_optional()]


def check_versions() -> list[Check]:
    """What numbers depend on."""
    found: list[Check] = [("python", True, f"{platform.python_version()}, {processor_name()}")]
    for name, number in versions().items():
        if name not in ("python", *OPTIONAL) and number is not None:
            found.append((name, True, number))
    found.append(("commit", True, commit() or "an installed package, not a source tree"))
    return found


def check_devices() -> Check:
    """JAX computes something on every device."""
    import jax
    import jax.numpy as jnp

    devices = jax.devices()
    sums = [float(jax.device_put(jnp.arange(4.0), d).sum()) for d in devices]
    cache = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    detail = f"{len(devices)} x {devices[0].device_kind}; compiled programs in {cache}"
    return "devices", all(s == 6.0 for s in sums), detail


def check_lock() -> Check:
    """Whether what is installed is what the lock names."""
    lock = Path(__file__).parents[3] / "requirements.lock"
    if not lock.exists():
        return "lock", None, "no requirements.lock here: this is not a source tree"
    different = []
    pinned: dict[str, set[str]] = {}
    for name, number in re.findall(r"^([\w.-]+)==([^\s;]+)", lock.read_text(), re.MULTILINE):
        pinned.setdefault(name, set()).add(number)
    for name, numbers in pinned.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # not for this platform, or an optional part
        if found not in numbers:
            different.append(f"{name} {found} instead of {' or '.join(sorted(numbers))}")
    if different:
        return "lock", False, "; ".join(different) + ". 'make install' brings them back."
    return "lock", True, f"{len(pinned)} packages as pinned in requirements.lock"


def check_optional() -> list[Check]:
    """Import each optional part."""
    found: list[Check] = []
    for name, purpose in OPTIONAL.items():
        if find_spec(name) is None:
            found.append((name, None, purpose))
            continue
        try:
            detail = f"{importlib.metadata.version(name)}"
            if name == "jaxmarl":
                from ratiosym.envs.registry import make

                make("mpe-spread-3ag")
            else:
                __import__(name)
            found.append((name, True, detail))
        except Exception as error:
            found.append((name, False, f"does not import: {type(error).__name__}: {error}"))
    return found
