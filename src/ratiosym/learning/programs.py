"""Compiled programs of a run, stored on disk as executables.

JAX's compilation cache saves the compiler's work, but every start still traces and lowers each
program, which takes longer than everything else together. Executables are therefore stored, too,
if the configuration and installed source code determine them: if task, network and surrogate are
built in. With a part of your own, programs are traced at every start. ``RATIOSYM_PROGRAMS=0`` turns
this off.
"""

import gc
import hashlib
import io
import os
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any

import jax
import numpy as np
from jax.experimental import serialize_executable
from jax.sharding import NamedSharding

from ratiosym.envs.registry import is_builtin, make
from ratiosym.learning.config import NETWORKS, RunConfig
from ratiosym.learning.devices import cache_directory
from ratiosym.learning.evaluate import Episodes
from ratiosym.learning.learner import (
    COLLECTED_SPECS,
    FAST_TO_COMPILE,
    SPECS,
    UNOPTIMISED,
    Learner,
    TrainState,
    collect,
    collect_and_optimise,
    evaluate,
    fresh_state,
    keys_of_episodes,
    optimise,
    place_state,
    train_step,
    update_best,
)
from ratiosym.learning.mesh import shardings
from ratiosym.learning.model import Params
from ratiosym.objectives import barrier, clipped, quadratic
from ratiosym.types import Keys

SURROGATES = (barrier, clipped, quadratic)  # built in, known by name
MAX_BYTES = 1024**3  # of all stored executables; those used least recently are removed

_LIBRARIES = ("jax", "jaxlib", "numpy", "optax", "chex", "flax", "gymnax")  # known by version
_SOURCES = ("ratiosym", "jumanji", "jaxmarl", "esquilax")  # known by the state of their files
_SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_threefry_partitionable")


class Programs:
    """The programs of a run.

    Those of an update are loaded or compiled at the same time in the background, those of an
    evaluation from ``prepare_evaluation`` on; calling one waits for it.
    """

    def __init__(self, learner: Learner, config: RunConfig, num_seeds: int, is_new: bool) -> None:
        """Begin to load or compile. A run that ``is_new`` needs an initial state."""
        self.learner, self.num_episodes = learner, config.shape.num_eval_episodes
        parts = (learner.env, learner.shape, learner.model)
        self._init: Callable[..., Any] = partial(fresh_state, *parts)
        self._keys: Callable[..., Any] = partial(keys_of_episodes, self.num_episodes)
        self.train_step: Callable[..., Any] = partial(train_step, learner)
        self.evaluate: Callable[[Params, Keys], Episodes] = partial(evaluate, learner)
        self.update_best: Callable[..., TrainState] = partial(update_best, learner)
        self.of_evaluation: list[_Stored] = []
        if not is_storable(learner, config):
            return

        # Shapes and placement of the arguments. XLA would place empty arrays elsewhere.
        seeds = jax.ShapeDtypeStruct((num_seeds,), np.uint32)
        number = np.uint32(0)
        numbers = jax.tree.map(np.float32, (config.hyperparameters, config.bounds))

        def placed(like: Any, specs: Any) -> Any:
            return jax.tree.map(
                lambda x, at: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=at),
                like,
                shardings(learner.mesh, like, specs),
            )

        @cache
        def state() -> Any:
            like = first.outputs() if first else fresh_state.eval_shape(*parts, seeds)
            return placed(like, SPECS)

        @cache
        def keys() -> Any:
            return keys_of_episodes.eval_shape(self.num_episodes, seeds, number, number)

        def gradient_step() -> Any:
            _, collected, _ = collecting.outputs()
            now = state()
            return now.params, now.optimiser, placed(collected, COLLECTED_SPECS), *numbers

        of_state = jax.tree.map(partial(NamedSharding, learner.mesh), SPECS)
        of_batch = jax.tree.map(partial(NamedSharding, learner.mesh), COLLECTED_SPECS)
        one, all_ = jax.devices()[:1], list(learner.mesh.devices.flat)
        returns = jax.ShapeDtypeStruct((num_seeds,), np.float32)
        identity = f"{config.task} {config.shape} {num_seeds} {learner.mesh}"
        stored = partial(_Stored, identity)
        # Each program is traced while XLA compiles those before it.
        first: _Stored | None = None
        if is_new:
            self._init = first = stored(
                self._init, one, lambda: (seeds,), compiler_options=UNOPTIMISED
            )
        collecting = stored(
            partial(collect, learner),
            all_,
            lambda: (state().params, state().groups, numbers[0]),
            donate_argnums=1,
            out_shardings=(of_state.groups, of_batch, None),
            compiler_options=FAST_TO_COMPILE,
        )
        optimising = _Stored(
            f"{identity} {learner.surrogate.__name__}",
            partial(optimise, learner),
            all_,
            gradient_step,
            donate_argnums=(0, 1),
            out_shardings=(of_state.params, of_state.optimiser, None),
            compiler_options=FAST_TO_COMPILE,
        )
        self.train_step = partial(collect_and_optimise, collecting, optimising)
        stored = partial(stored, is_urgent=False)
        self.evaluate = playing = stored(
            self.evaluate,
            all_,
            lambda: (state().params, keys()),
            compiler_options=FAST_TO_COMPILE,
        )
        self.update_best = keeping = stored(
            self.update_best,
            all_,
            lambda: (state(), returns),
            donate_argnums=0,
            out_shardings=of_state,
        )
        self._keys = drawing = stored(self._keys, one, lambda: (seeds, number, number))
        self.of_evaluation = [playing, keeping, drawing]

    def prepare_evaluation(self) -> None:
        """Begin to load or compile what an evaluation needs."""
        for program in self.of_evaluation:
            program.begin()

    def init_state(self, seeds: Sequence[int]) -> TrainState:
        """Create fresh parameters and episodes. All randomness of a run comes from its seed."""
        return place_state(self.learner, self._init(np.array(seeds, np.uint32)))

    def episode_keys(self, seeds: Sequence[int], stream: int, update: int) -> Keys:
        """Return the keys of the episodes of an evaluation, [K, n]."""
        return self._keys(np.array(seeds, np.uint32), np.uint32(stream), np.uint32(update))


class _Stored:
    """A program that is loaded from disk, or else compiled and stored."""

    _pool = ThreadPoolExecutor(4, thread_name_prefix="compile")
    # Tracing and unpickling import an environment's library. Two threads that import different
    # modules of it at the same time would see each other's half-imported ones.
    _importing = RLock()

    def __init__(
        self,
        identity: str,
        program: partial[Any],  # a jitted function with its static arguments
        devices: list[jax.Device],
        arguments: Callable[[], tuple[Any, ...]],  # the others: shapes and placement
        is_urgent: bool = True,  # begin at once
        **options: Any,  # of the compiled program, as for jax.jit
    ) -> None:
        self.program, self.devices, self.arguments = program, devices, arguments
        self.options = options
        digest = hashlib.sha256(f"{identity} {fingerprint()}".encode()).hexdigest()[:32]
        self.path = directory() / f"{digest}-{program.func.__name__}"
        self.executable: Future[jax.stages.Compiled] | None = None
        if is_urgent:
            self.begin()

    def begin(self) -> Future[jax.stages.Compiled]:
        """Begin to load or compile, unless this has been done."""
        if self.executable is None:
            if self.path.exists():
                self.executable = self._pool.submit(self._load)
            else:  # tracing holds Python's lock, so only the compiler runs in parallel
                self.executable = self._pool.submit(self._compile, self._lower())
        return self.executable

    def outputs(self) -> Any:
        """Return the shapes of what the program returns."""
        return self._traced.out_info

    @cached_property
    def _traced(self) -> jax.stages.Traced:
        jitted: Any = self.program.func
        function: Any = partial(jitted.__wrapped__, *self.program.args)
        # Under a name that JAX's cache does not have: XLA cannot store what it has loaded itself.
        function.__name__ = f"{jitted.__name__}_{uuid.uuid4().hex}"
        with self._importing, without_garbage_collection():
            return jax.jit(function, **self.options).trace(*self.arguments())

    def _lower(self) -> jax.stages.Lowered:
        with without_garbage_collection():
            return self._traced.lower()

    def __call__(self, *arguments: Any) -> Any:
        return self.begin().result()(*arguments)

    def _load(self) -> jax.stages.Compiled:
        try:
            content = self.path.read_bytes()
            with self._importing:
                data, inputs, outputs = pickle.loads(content)
            executable = serialize_executable.deserialize_and_load(
                data, inputs, outputs, execution_devices=self.devices
            )
        except Exception:
            return self._compile(self._lower())
        with suppress(OSError):
            os.utime(self.path)  # used just now
        return executable

    def _compile(self, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
        executable = lowered.compile()
        with suppress(Exception):  # whatever goes wrong, the next start compiles again
            self._store(executable)
        return executable

    def _store(self, executable: jax.stages.Compiled) -> None:
        """Serialise an executable and write it in the background.

        It must not have run before: XLA cannot serialise a sort once it has been executed.
        """
        data = io.BytesIO()
        _Pickler(data).dump(serialize_executable.serialize(executable))
        self._pool.submit(self._write, data.getvalue())

    def _write(self, data: bytes) -> None:
        part = self.path.with_name(f"{uuid.uuid4().hex}.part")
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                part.write_bytes(data)
                part.replace(self.path)
            finally:
                part.unlink(missing_ok=True)
            remove_unused(self.path.parent)


class _Pickler(pickle.Pickler):
    """Refers to classes of modules that were loaded without their package by name alone.

    Pickling would import the package: for jaxmarl this takes seconds and prints
    (``envs/adapters/jaxmarl/library.py``).
    """

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) and value.__module__.partition(".")[0] not in sys.modules:
            return _loaded_class, (value.__module__, value.__qualname__)
        return NotImplemented


def _loaded_class(module: str, name: str) -> Any:
    return getattr(sys.modules[module], name)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Tracing makes many objects and leaves few behind; collections would take a tenth of it."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def directory() -> Path:
    """Return the directory of executables."""
    return cache_directory().with_name(cache_directory().name.replace("compiled", "programs"))


def remove_unused(directory: Path, limit: int = MAX_BYTES) -> None:
    """Remove the executables used least recently until the rest fits the limit."""
    entries = []
    for entry in os.scandir(directory):
        with suppress(FileNotFoundError):  # another process has removed or renamed it
            entries.append((entry.stat(), entry.path))
    entries.sort(key=lambda entry: -entry[0].st_mtime)
    total = 0
    for about, path in entries:
        total += about.st_size
        if total > limit:
            with suppress(OSError):
                os.remove(path)


def is_storable(learner: Learner, config: RunConfig) -> bool:
    """Whether configuration and installed source code determine the programs."""
    return (
        os.environ.get("RATIOSYM_PROGRAMS") != "0"
        and jax.process_count() == 1
        and is_builtin(config.task)
        and learner.env == make(config.task)
        and config.shape.network in NETWORKS
        and learner.surrogate in SURROGATES
        and not jax.config.jax_disable_jit  # type: ignore[attr-defined]
        and not jax.config.jax_debug_nans  # type: ignore[attr-defined]
        and is_private(directory())
    )


def is_private(directory: Path) -> bool:
    """Whether nobody else can write to a directory, as loading an executable runs what is there."""
    try:
        about = directory.stat()
    except FileNotFoundError:
        return True  # it will be
    except OSError:
        return False
    return not hasattr(os, "getuid") or (about.st_uid == os.getuid() and not about.st_mode & 0o022)


@cache
def fingerprint() -> str:
    """Identify everything that programs are made from, beside the configuration."""

    def found(name: str) -> str:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            return f"no {name}"

    def files(name: str) -> Iterator[str]:
        spec = find_spec(name)
        for root in spec.submodule_search_locations or () if spec else ():
            for path in sorted(Path(root).rglob("*.py")):
                about = path.stat()
                yield f"{path} {about.st_size} {about.st_mtime_ns}"

    parts = [
        *map(found, _LIBRARIES),
        *(line for name in _SOURCES for line in files(name)),
        *(f"{name} {getattr(jax.config, name, None)}" for name in _SETTINGS),
        os.environ.get("XLA_FLAGS", ""),
        str(jax.devices()),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
