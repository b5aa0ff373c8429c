"""Look up tasks by name, in this order:

1. built in: the paper's tasks and their variants (``envs.tasks``);
2. registered in this process: ``ratiosym.register_task("mine", make_env)``;
3. entry points ``ratiosym.tasks`` of installed packages;
4. ``jaxmarl:NAME`` or ``jumanji:NAME``: an environment of those libraries (``envs.adapters``);
5. ``package.module:function`` or ``path/to/file.py:function``: a function without arguments that
   returns an ``Env``.

Importing this module loads neither JAX nor any environment; making a task does.
"""

import hashlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from ratiosym.envs.tasks import TASKS, VARIANTS, Task
from ratiosym.errors import InputError
from ratiosym.plain import shorten, unknown_name
from ratiosym.references import canonical_reference, is_reference, load_reference

if TYPE_CHECKING:
    from ratiosym.envs.protocol import Env as Env
else:
    Env = Any  # importing the contract would import JAX

Factory = Callable[[], Env]

ENTRY_POINTS = "ratiosym.tasks"
ADAPTERS = {  # for whole libraries, by prefix of the task name
    "jaxmarl": "ratiosym.envs.adapters.jaxmarl.generic:jaxmarl_env",
    "jumanji": "ratiosym.envs.adapters.jumanji.generic:jumanji_env",
}
REGISTERED: dict[str, Factory] = {}  # with ``register_task``, in this process

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ADVICE = (
    " List all with 'ratiosym tasks'. A task of your own can be given as path/to/file.py:function "
    "or package.module:function, or registered in this process with ratiosym.register_task."
)


def make(name: str, agent_ids: bool = True) -> Env:
    """Make the environment of a task. Calls with equal arguments return equal environments.

    ``agent_ids`` prepends the one-hot agent id to each agent's observation, as in all runs of the
    paper.
    """
    from ratiosym.envs.wrappers import with_agent_ids

    env = build_task(resolve_task(name))
    return with_agent_ids(env) if agent_ids else env


def register_task(name: str, factory: Factory) -> None:
    """Register a task under a name, for everything in this process that takes a task.

    ``factory`` takes no arguments and returns an ``Env``. Other processes (the workers of a study,
    a later ``ratiosym evaluate``) must register it, too; tasks given as ``package.module:function``
    or by an entry point are found by every process.
    """
    if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name):
        raise InputError(
            f"`name` is {shorten(name)}; a task's name has up to 100 letters, digits, '-', '_' and "
            f"'.', and starts with a letter or a digit."
        )
    _require_factory(factory, "`factory`")
    if is_builtin(name) or not _is_same(REGISTERED.get(name, factory), factory):
        raise InputError(f"A different task named '{name}' already exists. Choose another name.")
    REGISTERED[name] = factory


def _is_same(one: Factory, other: Factory) -> bool:
    """Whether both are the same factory, possibly redefined by rerunning a notebook cell."""
    places = [(getattr(f, "__module__", ""), getattr(f, "__qualname__", f)) for f in (one, other)]
    return one == other or (places[0] == places[1] and "<lambda>" not in str(places[0][1]))


@dataclass(frozen=True)
class _Given:
    """Factory that returns a given environment object."""

    env: Env

    def __call__(self) -> Env:
        return self.env


def task_name(task: str | Env) -> str:
    """Return the name under which a run records its task.

    A name is completed by ``resolve_task``; an environment object is registered in this process
    under its ``spec.name``.
    """
    if isinstance(task, str):
        return resolve_task(task).name
    from ratiosym.envs.protocol import check_structure

    check_structure(task)
    name = task.spec.name
    if is_builtin(name) and task in (make(name), make(name, agent_ids=False)):
        return name
    if isinstance(REGISTERED.get(name), _Given):
        del REGISTERED[name]
    try:
        register_task(name, _Given(task))
    except InputError as error:
        raise InputError(f"The environment's spec.name cannot be used: {error}") from None
    return name


def tasks() -> list[str]:
    """List the paper's tasks, then registered ones, then those of installed packages."""
    return [*TASKS, *REGISTERED, *(name for name in _installed() if not _is_known(name))]


def is_builtin(name: str) -> bool:
    """Whether a task is built in, and therefore covered by our contract tests."""
    return name in TASKS or name in VARIANTS


def resolve_task(name: str) -> Task:
    """Look up a task without building its environment; an error names the closest match.

    ``Task.name`` is valid from any working directory, as needed in a run's record.
    """
    if not isinstance(name, str):
        raise InputError(
            f"`task` is {shorten(name)}; it must be a task's name, such as 'mpe-spread-3ag'."
        )
    if is_builtin(name):
        return TASKS.get(name) or VARIANTS[name]
    if name in REGISTERED:
        return Task(name, REGISTERED[name])
    if name in _installed():
        return Task(name, _load_entry_point(_installed()[name]))
    library, _, environment = name.partition(":")
    if library in ADAPTERS and environment:
        return Task(name, ADAPTERS[library], (environment,))
    if is_reference(name):
        return Task(canonical_reference(name), _load_factory(name))
    raise unknown_name("task", name, _names(), _ADVICE)


def build_task(task: Task) -> Env:
    """Build a task's environment, without agent ids.

    Environments that are not built in are checked without taking steps (``check_structure``), and
    built only once, so that those without ``__eq__`` share compiled programs, too.
    """
    if is_builtin(task.name):
        return task.build()
    if task.name not in _BUILT or _BUILT[task.name][0] is not task.factory:
        _BUILT[task.name] = (task.factory, _build_and_check(task))
    return _BUILT[task.name][1]


_BUILT: dict[str, tuple[Any, Env]] = {}


def _build_and_check(task: Task) -> Env:
    from ratiosym.envs.protocol import check_structure

    env = task.build()
    try:
        check_structure(env)
    except InputError as error:
        raise InputError(f"Task '{task.name}': {error}") from error
    return env


def check_before_training(task: Task) -> None:
    """Play an episode of a task that is not built in, to report contract violations early."""
    from ratiosym.envs.protocol import check_env

    if not is_builtin(task.name):
        try:
            check_env(build_task(task))
        except InputError as error:
            raise InputError(f"Task '{task.name}': {error}") from error


def task_directory(name: str) -> str:
    """Turn a task's name into a unique directory name.

    Names of built-in and registered tasks are not changed.
    """
    if _PLAIN_NAME.fullmatch(name):
        return name
    before, _, last = name.rpartition(":")
    stem = re.split(r"[/\\]", before)[-1].removesuffix(".py")
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{stem}-{last}").strip("-.")[:60]
    return f"{readable or 'task'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _names() -> list[str]:
    return [*TASKS, *VARIANTS, *REGISTERED, *_installed()]


def _is_known(name: str) -> bool:
    return is_builtin(name) or name in REGISTERED


@cache
def _installed() -> dict[str, EntryPoint]:
    """Return the tasks of installed packages, by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _load_entry_point(point: EntryPoint) -> Factory:
    package = point.dist.name if point.dist else "an installed package"
    try:
        factory = point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"The task '{point.name}' of {package} cannot be loaded from '{point.value}': {error}"
        ) from error
    return _require_factory(factory, f"The task '{point.name}' of {package} ('{point.value}')")


def _load_factory(name: str) -> Factory:
    return _require_factory(load_reference(name, "task"), f"The task '{name}'")


def _require_factory(factory: Any, what: str) -> Factory:
    contract = "it must be a function without arguments that returns an environment."
    if not callable(factory):
        raise InputError(f"{what} is {shorten(factory)}; {contract}")
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise InputError(
            f"{what} cannot be called without arguments ({error}); {contract}"
        ) from None
    except ValueError:
        pass  # a callable without a signature: errors will show when it is called
    return factory
