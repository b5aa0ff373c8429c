"""``ratiosym doctor``: check versions, devices, the lock file and optional dependencies."""

import importlib.metadata
import platform
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ratiosym.cli.arguments import Command

Check = tuple[str, bool | None, str]  # name; ok, wrong or not applicable (None); detail

OPTIONAL = {
    "matplotlib": "figures and reports: pip install 'ratiosym[report]'",
    "optuna": "tune: pip install 'ratiosym[tune]'",
    "tensorboardX": "train with --track tensorboard: pip install 'ratiosym[tensorboard]'",
    "jaxmarl": "SMAX, MPE and JaxNav tasks: pip install 'ratiosym[jaxmarl]'",
    "jumanji": "RWARE, Connector and Search and Rescue tasks: pip install 'ratiosym[jumanji]'",
    "pettingzoo": "export to PettingZoo: pip install 'ratiosym[pettingzoo]'",
    "ray": "study and tune with --executor ray: pip install 'ratiosym[cluster]'",
    "psycopg": "tune with --storage postgresql://...: pip install 'ratiosym[cluster]'",
    "wandb": "train with --track wandb: pip install 'ratiosym[wandb]'",
}
ACCELERATORS = ("jax-cuda", "jax_cuda", "libtpu", "jax-rocm", "jax_rocm", "jax-metal")


@dataclass(frozen=True)
class Doctor(Command):
    """Check the installation: versions, devices, optional dependencies.

    'ok': as it should be. '-': absent, but optional. 'wrong': needs your attention (exit code 1).
    """

    def run(self) -> None:
        """Check the installation and print the findings."""
        from ratiosym.learning.devices import start_jax

        start_jax()
        if not show_checks(examine()):
            raise SystemExit(1)


def examine() -> list[Check]:
    """Run all checks."""
    return [
        *check_versions(),
        check_devices(),
        check_accelerator(),
        check_lock(),
        *check_optional(),
    ]


def show_checks(checks: list[Check]) -> bool:
    """Print the findings and return whether nothing is wrong."""
    from rich.table import Table
    from rich.text import Text

    from ratiosym.cli.display import console

    signs = {True: Text("ok", "green"), False: Text("wrong", "red"), None: Text("-", "yellow")}
    table = Table(show_header=False, box=None)
    for name, is_right, detail in checks:
        table.add_row(signs[is_right], name, detail)
    console.print(table)
    return all(is_right is not False for _, is_right, _ in checks)


def check_versions() -> list[Check]:
    """Report the versions that results depend on."""
    from ratiosym.machine import processor_name
    from ratiosym.runs.provenance import commit, versions

    found: list[Check] = [("python", True, f"{platform.python_version()}, {processor_name()}")]
    for name, number in versions().items():
        if name not in ("python", *OPTIONAL) and number is not None:
            found.append((name, True, number))
    found.append(("commit", True, commit() or "an installed package, not a source tree"))
    return found


def check_devices() -> Check:
    """Compute something on every JAX device."""
    import jax
    import jax.numpy as jnp

    devices = jax.devices()
    sums = [float(jax.device_put(jnp.arange(4.0), d).sum()) for d in devices]
    cache = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    detail = f"{len(devices)} x {devices[0].device_kind}; compiled programs in {cache}"
    return "devices", all(s == 6.0 for s in sums), detail


def check_accelerator() -> Check:
    """Report whether JAX uses an accelerator, or could."""
    import jax

    backend = jax.default_backend()
    if backend != "cpu":
        return "accelerator", True, f"JAX computes on {backend}"
    plugins = sorted(
        name
        for distribution in importlib.metadata.distributions()
        if (name := distribution.metadata["Name"] or "").startswith(ACCELERATORS)
    )
    if plugins:
        return "accelerator", None, f"{', '.join(plugins)} installed, but JAX finds no such device"
    return "accelerator", None, "none: JAX is installed for the CPU only (jaxlib has no plugin)"


def check_lock() -> Check:
    """Compare the installed packages with the lock file."""
    lock = Path(__file__).parents[3] / "requirements.lock"
    if not lock.exists():
        detail = "only applies to a source tree, not to an installed package"
        return "lock", None, detail
    different = []
    pinned: dict[str, set[str]] = {}
    for name, number in re.findall(r"^([\w.-]+)==([^\s;]+)", lock.read_text(), re.MULTILINE):
        pinned.setdefault(name, set()).add(number)
    for name, numbers in pinned.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform, or optional
        if found not in numbers:
            different.append(f"{name} {found} instead of {' or '.join(sorted(numbers))}")
    if different:
        return "lock", False, "; ".join(different) + ". 'make install' installs the pinned ones."
    return "lock", True, f"{len(pinned)} packages match requirements.lock"


def check_optional() -> list[Check]:
    """Import each optional dependency."""
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
            found.append((name, False, f"cannot be imported: {type(error).__name__}: {error}"))
    return found
