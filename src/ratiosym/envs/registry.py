"""A task by name. The first of these that knows the name gives its environment:

1. built in: the paper's tasks and their variants (``envs.tasks``);
2. registered in this process: ``ratiosym.register_task("mine", make_env)``;
3. an entry point ``ratiosym.tasks`` of an installed package;
4. ``jaxmarl:NAME`` or ``jumanji:NAME``: an environment of those libraries (``envs.adapters``);
5. ``package.module:function`` or ``path/to/file.py:function``: a function without arguments that
   returns an ``Env``.

Importing this loads neither JAX nor an environment; making a task does.
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
    Env = Any  # the contract itself needs JAX

Factory = Callable[[], Env]

ENTRY_POINTS = "ratiosym.tasks"
ADAPTERS = {  # of whole libraries, by the prefix of a task's name
    "jaxmarl": "ratiosym.envs.adapters.jaxmarl.generic:jaxmarl_env",
    "jumanji": "ratiosym.envs.adapters.jumanji.generic:jumanji_env",
}
REGISTERED: dict[str, Factory] = {}  # by ``register_task``, in this process

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ADVICE = (
    " List all with 'ratiosym tasks'; name one of your own as path/to/file.py:function or "
    "package.module:function, or register it in this process with ratiosym.register_task."
)


def make(name: str, agent_ids: bool = True) -> Env:
    """Make the environment of a task; making it twice gives equal environments.

    ``agent_ids`` puts the one-hot agent id in front of each agent's observation, as in all the
    paper's runs.
    """
    from ratiosym.envs.wrappers import with_agent_ids

    env = build_task(resolve_task(name))
    return with_agent_ids(env) if agent_ids else env


def register_task(name: str, factory: Factory) -> None:
    """Make an environment known by a name to everything that takes a task in this process.

    ``factory`` takes no arguments and returns an ``Env``. Other processes (the workers of a study,
    a later ``ratiosym evaluate``) have to register it too; a task named as
    ``package.module:function`` or by an entry point is found by all of them.
    """
    if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name):
        raise InputError(
            f"`name` is {shorten(name)}; a task's name has up to 100 letters, digits, '-', '_' and "
            f"'.', and begins with a letter or a digit."
        )
    _require_factory(factory, "`factory`")
    if is_builtin(name) or not _is_same(REGISTERED.get(name, factory), factory):
        raise InputError(f"There is another task '{name}' already. Choose another name.")
    REGISTERED[name] = factory


def _is_same(one: Factory, other: Factory) -> bool:
    """Whether a factory is another, or a later version of it: a notebook's cell that is run again
    defines its function anew.
    """
    places = [(getattr(f, "__module__", ""), getattr(f, "__qualname__", f)) for f in (one, other)]
    return one == other or (places[0] == places[1] and "<lambda>" not in str(places[0][1]))


@dataclass(frozen=True)
class _Given:
    """The factory of an environment that was given as an object."""

    env: Env

    def __call__(self) -> Env:
        return self.env


def task_name(task: str | Env) -> str:
    """The name under which a run records its task: a name as ``resolve_task`` completes it, or the
    ``spec.name`` of an environment object, which is registered under it in this process.
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
    """The names of the paper's tasks, then of registered ones and of installed packages' tasks."""
    return [*TASKS, *REGISTERED, *(name for name in _installed() if not _is_known(name))]


def is_builtin(name: str) -> bool:
    """Whether a task is one of ours, which the tests hold to the contract."""
    return name in TASKS or name in VARIANTS


def resolve_task(name: str) -> Task:
    """The task of a name, or an error that gives the closest one. Its environment is not built yet.

    ``Task.name`` is what a record should say: valid from any working directory.
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
    """A task's environment, without agent ids.

    One that is not built in is checked as far as that is possible without playing
    (``check_structure``), and built once, so that environments without ``__eq__`` share compiled
    programs too.
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
    """Play a task that is not built in for an episode, so that a broken contract is reported before
    hours of training rather than after.
    """
    from ratiosym.envs.protocol import check_env

    if not is_builtin(task.name):
        try:
            check_env(build_task(task))
        except InputError as error:
            raise InputError(f"Task '{task.name}': {error}") from error


def task_directory(name: str) -> str:
    """A task's name as the name of a directory. Different tasks get different ones; the names of
    built-in and registered tasks stay as they are.
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
    """Tasks of installed packages, by name."""
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
        pass  # a callable without a signature: calling it will tell
    return factory
