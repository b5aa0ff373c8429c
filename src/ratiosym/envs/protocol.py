"""The contract that every environment follows, and a function that checks it."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from ratiosym.errors import InputError
from ratiosym.types import Continuous, Discrete, EnvSpec, Key, Observation, State, Step

Action = Int[Array, "A"] | Float[Array, "A size"]
Picture = UInt8[np.ndarray, "H W 3"]


@runtime_checkable
class Env(Protocol):
    """An environment: two pure functions and a specification. Check your own with ``check_env``.

    ``spec`` gives the number of agents ``A``, the size ``F`` of each agent's observation and the
    size ``S`` of the critic's. Optional members are ``draw`` (see ``DrawableEnv``), and scripted
    ``teams`` with ``references`` (see ``envs.teams``).

    Arrays: ``Observation.local`` is float32 ``[A, F]``, ``legal`` bool ``[A, actions]``, ``active``
        bool ``[A]``, ``state`` float32 ``[S]``. ``Step.reward`` is float32 ``[A]``, ``terminated``
        and ``truncated`` are bool ``[]``, and ``metrics`` is a dict with the keys ``spec.metrics``,
        each a float32 ``[]``. All values are finite.
    Action: For ``Discrete``, int32 ``[A]``, each one of the legal actions. For ``Continuous``,
        float32 ``[A, size]``, tanh values in (-1, 1), which the environment may scale or clip.
    Legal actions:
        Each agent has at least one at every step, active or not. For ``Continuous`` the width is 0.
    State:
        Any pytree of arrays; its structure, shapes and dtypes are the same after every step.
    Randomness: All of it comes from ``key``: the same key, state and action give the same result,
        bit for bit.
    Ends: ``terminated`` means that the task ended, ``truncated`` that only the time limit was
        reached. They are never both true: if both apply, set ``terminated``. An episode lasts at
        most ``spec.time_limit`` steps. Stepping past the end is allowed; the result is not used.
    Return:
        An episode's return is the reward averaged over agents and summed over steps.
    Use: Both functions can be traced by ``jit``, ``vmap`` and ``scan``. The environment itself is
        hashable, and equal to another one built with the same arguments (as a frozen dataclass is),
        so that compiled programs are shared.
    """

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the environment."""

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode."""

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step. Never resets: at the end, the observation is the episode's last."""


class DrawableEnv(Env, Protocol):
    """An environment with a ``draw`` method, which ``ratiosym render`` and the exports use."""

    def draw(self, state: State) -> Picture:
        """Draw a state as uint8 ``[H, W, 3]``, always of the same size.

        Never traced, so NumPy and any other library can be used. If it has a further parameter
        ``history``, it receives the previous states, oldest first, for example to draw trails.
        """


MOST_STEPS = 1000  # that ``check_env`` plays by default


def check_env(env: Any, key: Key | None = None, num_steps: int | None = None) -> None:
    """Play ``num_steps`` random steps and raise ``InputError`` if the ``Env`` contract is broken.

    By default it plays one step more than the longest episode (at most 1,000), to include the end
    of an episode; with fewer steps the end may go unchecked.
    """
    if num_steps is not None and num_steps < 1:
        raise InputError(f"`num_steps` is {num_steps}; it must be at least 1.")
    check_structure(env)
    key = jax.random.key(0) if key is None else key
    _trace_batch(env, key)
    _check_episodes(env, key, num_steps or min(env.spec.time_limit + 1, MOST_STEPS))
    if hasattr(env, "draw"):
        _check_picture(env, key)


def check_structure(env: Any) -> None:
    """Check what needs neither steps nor compilation: methods, sizes, classes, shapes, dtypes."""
    _check_members(env)
    _check_spec(env.spec)
    try:
        hash(env)
    except TypeError as error:
        raise InputError(
            f"The environment is not hashable ({error}). Make it a frozen dataclass whose fields "
            f"are numbers, strings and tuples; arrays belong in the state, or are computed from "
            f"the fields."
        ) from error
    _check_types(env, jax.random.key(0))


def _check_members(env: Any) -> None:
    if isinstance(env, type):
        raise InputError(
            f"The environment is the class {env.__name__}; return an instance of it, as in "
            f"{env.__name__}()."
        )
    missing = [name for name in ("spec", "reset", "step") if not hasattr(env, name)]
    if missing:
        raise InputError(
            f"The environment is of type {type(env).__name__} and has no `{missing[0]}`. It needs "
            f"a property `spec` (an EnvSpec) and the methods `reset(key) -> (state, Observation)` "
            f"and `step(key, state, action) -> (state, Step)`; see ratiosym.Env."
        )


def _check_spec(spec: Any) -> None:
    if not isinstance(spec, EnvSpec):
        hint = " Is `spec` a method? Make it a property." if callable(spec) else ""
        raise InputError(f"spec is of type {type(spec).__name__}, expected EnvSpec.{hint}")
    if not isinstance(spec.name, str) or not spec.name:
        raise InputError(f"spec.name is {spec.name!r}, expected a name.")
    if not isinstance(spec.action, Discrete | Continuous):
        raise InputError(
            f"spec.action is {spec.action!r}, expected Discrete(num_actions) or Continuous(size), "
            f"the same for every agent."
        )
    sizes = {
        "num_agents": spec.num_agents,
        "observation_size": spec.observation_size,
        "state_size": spec.state_size,
        "time_limit": spec.time_limit,
        "action": spec.action.num_actions
        if isinstance(spec.action, Discrete)
        else spec.action.size,
        "usual_length": 1 if spec.usual_length is None else spec.usual_length,
    }
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise InputError(f"spec.{name} is {size!r}, expected an int of at least 1.")
    names = spec.metrics
    all_strings = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
    if not all_strings or len(set(names)) < len(names):
        raise InputError(f"spec.metrics is {names!r}, expected a tuple of different strings.")


def _check_types(env: Env, key: Key) -> None:
    """Check what is known without running: classes, structures, shapes and dtypes."""
    spec = env.spec
    state, observation = _pair("reset", _trace("reset", env.reset, key))
    _require_class("reset", "observation", observation, Observation)
    _require_types("reset", "observation", observation, _example_observation(spec))

    action = _example_action(spec)
    next_state, step = _pair("step", _trace("step", env.step, key, state, action))
    _require_types("step", "state", next_state, state)
    _require_class("step", "its second result", step, Step)
    _require_class("step", "step.observation", step.observation, Observation)
    if not isinstance(step.metrics, dict) or set(step.metrics) != set(spec.metrics):
        raise InputError(
            f"step: metrics are {_keys(step.metrics)}, expected {sorted(spec.metrics)}: a dict "
            f"with the names of spec.metrics."
        )
    _require_types("step", "step", step, _example_step(spec))


def _trace_batch(env: Env, key: Key) -> None:
    """Trace under vmap, as training steps many environments at once."""
    state, _ = jax.eval_shape(env.reset, key)
    batch = jax.eval_shape(
        lambda *args: jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), args),
        key,
        state,
        _example_action(env.spec),
    )
    _trace("reset under vmap", jax.vmap(env.reset), batch[0])
    _trace("step under vmap", jax.vmap(env.step), *batch)


def _check_picture(env: Any, key: Key) -> None:
    picture = np.asarray(env.draw(jax.jit(env.reset)(key)[0]))
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
        raise InputError(
            f"draw: the picture is {_type(picture)}, expected uint8[H, W, 3] (red, green and blue "
            f"from 0 to 255)."
        )


def _check_episodes(env: Env, key: Key, num_steps: int) -> None:
    """Check the values themselves, step by step."""
    spec = env.spec
    act = jax.jit(lambda key, observation: random_action(spec, key, observation))
    reset, step = _twice("reset", env.reset), _twice("step", env.step)
    length = 0  # steps taken in this episode; 0 starts a new one
    for index in range(num_steps):
        key, reset_key, action_key, step_key = jax.random.split(key, 4)
        if length == 0:
            state, observation = reset(reset_key)
            _check_observation(f"reset before step {index}", spec, observation)
        state, result = step(step_key, state, act(action_key, observation))
        observation, length = result.observation, length + 1
        where = f"step {index} (number {length} of its episode)"
        _check_observation(where, spec, observation)
        _check_finite(where, "reward", result.reward)
        for name in spec.metrics:
            _check_finite(where, f"metrics[{name!r}]", result.metrics[name])
        if _check_end(where, spec, length, result):
            length = 0


def _check_observation(where: str, spec: EnvSpec, observation: Observation) -> None:
    _check_finite(where, "observation.local", observation.local)
    _check_finite(where, "observation.state", observation.state)
    if isinstance(spec.action, Discrete):
        stuck = np.flatnonzero(~np.asarray(observation.legal).any(axis=-1))
        if stuck.size:
            raise InputError(
                f"{where}: agents {stuck.tolist()} have no legal action, expected at least one. "
                f"An agent that is no longer active needs one too, such as doing nothing."
            )


def _check_finite(where: str, name: str, value: Array) -> None:
    if not np.isfinite(value).all():
        raise InputError(f"{where}: {name} is {np.asarray(value)}, expected finite numbers.")


def _check_end(where: str, spec: EnvSpec, length: int, step: Step) -> bool:
    terminated, truncated = bool(step.terminated), bool(step.truncated)
    if terminated and truncated:
        raise InputError(
            f"{where}: terminated and truncated are both true, expected at most one. If the task "
            f"ends just as time runs out, it is terminated: truncated = is_late & ~terminated."
        )
    if length >= spec.time_limit and not (terminated or truncated):
        raise InputError(
            f"{where}: the episode continues, expected an end: spec.time_limit is "
            f"{spec.time_limit}. Count the steps in the state and set `truncated` at the limit, or "
            f"raise the limit."
        )
    return terminated or truncated


def random_action(spec: EnvSpec, key: Key, observation: Observation) -> Action:
    """Sample uniformly from the legal actions, or from (-1, 1)."""
    if isinstance(spec.action, Continuous):
        return jax.random.uniform(key, (spec.num_agents, spec.action.size), minval=-1.0)
    return jax.random.categorical(key, jnp.where(observation.legal, 0.0, -jnp.inf)).astype(
        jnp.int32
    )


def _twice(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` and call it twice, from two traces, which must give equal results."""
    first, second = (jax.jit(lambda *args: function(*args)) for _ in range(2))

    def both(*args: Any) -> Any:
        result = first(*args)
        for (path, one), other in zip(_leaves(result), jax.tree.leaves(second(*args)), strict=True):
            if not np.array_equal(_numbers(one), _numbers(other), equal_nan=True):
                raise InputError(
                    f"{name}: result{path} is {one} and then {other} for the same key and "
                    f"arguments, expected the same. Draw all randomness from the key, and keep "
                    f"nothing in the environment between calls."
                )
        return result

    return both


def _trace(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Return the shapes and dtypes of the result."""
    try:
        return jax.eval_shape(function, *args)
    except Exception as error:
        raise InputError(
            f"{name}: cannot be traced by JAX, which compiles it: {error}\nWrite it with jax.numpy"
            f"; to branch on a value, use jnp.where or jax.lax.cond instead of Python's if."
        ) from error


def _pair(name: str, result: Any) -> Any:
    if not isinstance(result, tuple) or len(result) != 2:
        size = f" of {len(result)}" if isinstance(result, tuple) else ""
        expected = "(state, Observation)" if name == "reset" else "(state, Step)"
        raise InputError(f"{name}: returned a {type(result).__name__}{size}, expected {expected}.")
    return result


def _require_class(name: str, what: str, value: Any, expected: type) -> None:
    if not isinstance(value, expected):
        raise InputError(
            f"{name}: {what} is of type {type(value).__name__}, expected {expected.__name__}."
        )


def _require_types(name: str, what: str, value: Any, expected: Any) -> None:
    """Raise unless structure, shapes and dtypes are equal."""
    got: Any = jax.tree.structure(value)
    want: Any = jax.tree.structure(expected)
    if got != want:
        raise InputError(
            f"{name}: {what} has the structure {got}, expected {want}. A step must return the same "
            f"kind of {what} as reset."
            if what == "state"
            else f"{name}: {what} has the structure {got}, expected {want}."
        )
    for (path, one), other in zip(_leaves(value), jax.tree.leaves(expected), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            types = f"{_type(one)}, expected {_type(other)}"
            raise InputError(f"{name}: {what}{path} is {types}{_remedy(what, one, other)}")


def _remedy(what: str, value: Any, expected: Any) -> str:
    if what == "state":
        return ", as before the step. Its shapes and dtypes must not change after reset."
    if value.shape != expected.shape:
        return ", by the sizes in `spec`. Change one or the other."
    return f". Convert it with .astype(jnp.{expected.dtype})."


def _example_observation(spec: EnvSpec) -> Observation:
    agents = spec.num_agents
    return Observation(
        local=jnp.zeros((agents, spec.observation_size), jnp.float32),
        legal=jnp.zeros((agents, spec.num_actions), jnp.bool_),
        active=jnp.zeros((agents,), jnp.bool_),
        state=jnp.zeros((spec.state_size,), jnp.float32),
    )


def _example_step(spec: EnvSpec) -> Step:
    return Step(
        observation=_example_observation(spec),
        reward=jnp.zeros((spec.num_agents,), jnp.float32),
        terminated=jnp.zeros((), jnp.bool_),
        truncated=jnp.zeros((), jnp.bool_),
        metrics={name: jnp.zeros((), jnp.float32) for name in spec.metrics},
    )


def _example_action(spec: EnvSpec) -> Action:
    if isinstance(spec.action, Continuous):
        return jnp.zeros((spec.num_agents, spec.action.size), jnp.float32)
    return jnp.zeros((spec.num_agents,), jnp.int32)


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    return [
        (jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def _numbers(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _type(leaf: Any) -> str:
    return f"{leaf.dtype}[{', '.join(map(str, leaf.shape))}]"


def _keys(metrics: Any) -> str:
    return (
        str(sorted(metrics)) if isinstance(metrics, dict) else f"of type {type(metrics).__name__}"
    )
