"""The contract every environment keeps, and a function that checks it."""

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
    """An environment: two pure functions and a description. Check your own with ``check_env``.

    ``A`` agents, ``F`` numbers observed by each, ``S`` numbers observed by the critic, all as
    ``spec`` says. Optional: ``draw`` (see ``DrawableEnv``), scripted ``teams`` and ``references``
    (see ``envs.teams``).

    Arrays: ``Observation.local`` float32 ``[A, F]``, ``legal`` bool ``[A, actions]``, ``active``
        bool ``[A]``, ``state`` float32 ``[S]``; ``Step.reward`` float32 ``[A]``, ``terminated`` and
        ``truncated`` bool ``[]``, ``metrics`` a dict with the keys ``spec.metrics``, each a float32
        ``[]``. All finite.
    Action: int32 ``[A]`` for ``Discrete``, one of the legal choices; float32 ``[A, size]`` for
        ``Continuous``, tanh values in (-1, 1). What they mean (scaling, clipping) is the
        environment's business.
    Legal actions:
        Each agent has at least one at every step, active or not. For ``Continuous`` the width is 0.
    State:
        Any pytree of arrays; its structure, shapes and dtypes are the same after every step.
    Randomness: All of it comes from ``key``: the same key, state and action give the same result,
        to the last bit.
    Ends: ``terminated``: the task ended. ``truncated``: only the clock did. Never both; where both
        hold at once, ``terminated`` wins. An episode lasts at most ``spec.time_limit`` steps.
        Stepping past the end is allowed; what it returns is not used.
    Return:
        An episode's return is the sum over its steps of the mean over agents of the reward.
    Use: Both functions can be traced by ``jit``, ``vmap`` and ``scan``. The environment itself is
        hashable and equal to another built alike (a frozen dataclass is), so that compiled programs
        are shared.
    """

    @property
    def spec(self) -> EnvSpec:
        """The sizes of everything."""

    def reset(self, key: Key) -> tuple[State, Observation]:
        """Start an episode."""

    def step(self, key: Key, state: State, action: Action) -> tuple[State, Step]:
        """Take one step. Never starts a new episode: at an end the observation is the episode's
        last.
        """


class DrawableEnv(Env, Protocol):
    """An environment that can also show itself. Optional: ``ratiosym render`` and the exports use
    ``draw`` where there is one.
    """

    def draw(self, state: State) -> Picture:
        """A picture of a state, uint8 ``[H, W, 3]``, all of one size. Never traced: NumPy and any
        library will do. With a further argument ``history``, it is given the states before, oldest
        first, and may draw trails.
        """


MOST_STEPS = 1000  # that ``check_env`` plays unless told otherwise


def check_env(env: Any, key: Key | None = None, num_steps: int | None = None) -> None:
    """Play ``num_steps`` random legal steps and raise ``InputError`` where the contract of ``Env``
    is broken.

    By default one step more than the longest episode has (at most 1,000), so that an end is among
    them; with fewer steps the ends may go unchecked.
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
    """The part of ``check_env`` that needs no playing and no compilation: methods, sizes, classes,
    shapes and dtypes.
    """
    _check_members(env)
    _check_spec(env.spec)
    try:
        hash(env)
    except TypeError as error:
        raise InputError(
            f"The environment is not hashable ({error}). Make it a frozen dataclass whose fields "
            f"are numbers, strings and tuples; arrays belong into the state, or are computed from "
            f"the fields."
        ) from error
    _check_types(env, jax.random.key(0))


def _check_members(env: Any) -> None:
    if isinstance(env, type):
        raise InputError(
            f"The environment is the class {env.__name__} itself; return an instance of it, as in "
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
    """Everything that can be known without running: classes, structures, shapes and dtypes."""
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
    """Training steps many environments at once."""
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
    """Everything that shows only in the values, played step by step."""
    spec = env.spec
    act = jax.jit(lambda key, observation: random_action(spec, key, observation))
    reset, step = _twice("reset", env.reset), _twice("step", env.step)
    length = 0  # steps taken in this episode; at 0 a new one is due
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
            f"{where}: terminated and truncated are both true, expected at most one. Where the "
            f"task ends as time runs out, it is terminated: truncated = is_late & ~terminated."
        )
    if length >= spec.time_limit and not (terminated or truncated):
        raise InputError(
            f"{where}: the episode continues, expected an end: spec.time_limit is "
            f"{spec.time_limit}. Count the steps in the state and set `truncated` at the limit, or "
            f"raise the limit."
        )
    return terminated or truncated


def random_action(spec: EnvSpec, key: Key, observation: Observation) -> Action:
    """Uniform among the legal choices, or uniform in (-1, 1)."""
    if isinstance(spec.action, Continuous):
        return jax.random.uniform(key, (spec.num_agents, spec.action.size), minval=-1.0)
    return jax.random.categorical(key, jnp.where(observation.legal, 0.0, -jnp.inf)).astype(
        jnp.int32
    )


def _twice(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, compiled; called twice, from two traces, whose results must be the same."""
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
    """The result's shapes and dtypes."""
    try:
        return jax.eval_shape(function, *args)
    except Exception as error:
        raise InputError(
            f"{name}: cannot be traced by JAX, which compiles it: {error}\nWrite it with jax.numpy"
            f"; where a value decides, use jnp.where or jax.lax.cond instead of Python's if."
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
    """Equal structure, shapes and dtypes."""
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
        return ", as before the step. Its shapes and dtypes must stay the same, from reset on."
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
