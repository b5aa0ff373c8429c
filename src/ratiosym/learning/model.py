"""The interface between the learner and its networks.

A model is a small hashable object (a frozen dataclass) whose methods are pure functions. Its
parameters and carry can be any pytree of arrays; the learner never looks inside. ``networks``
contains the two built-in models, ``examples/custom_network_lstm.py`` a custom one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ratiosym.errors import InputError
from ratiosym.learning.config import NETWORKS, RunShape
from ratiosym.learning.distributions import Distribution
from ratiosym.references import load_reference
from ratiosym.types import Discrete, EnvSpec, Key, Observation

Carry = Any  # recurrent state of a network: any pytree; () if it has none
T = TypeVar("T")


class Params(NamedTuple):
    """Trainable parameters. Actor and critic have separate optimisers."""

    actor: PyTree
    critic: PyTree


class Carries(NamedTuple):
    """Recurrent states of actor and critic, with leading batch dimensions: [*b, ...]."""

    actor: Carry
    critic: Carry


@runtime_checkable
class Model(Protocol):
    """An actor and a critic.

    Both process whole sequences, time first: [T, *b, ...] for any batch ``*b`` of environments. A
    single step is a sequence of length one. ``is_start`` marks an episode's first observation:
    there the carry must be reset to ``initial_carry`` *before* the observation is read. Both
    return the carry after every step, with a leading time axis: [T, *b, ...].

    Equal models share compiled programs, so a model must be hashable, and two models built from the
    same sizes must be equal. A frozen dataclass satisfies both.
    """

    def init(self, key: Key, spec: EnvSpec) -> Params:
        """Initialise the parameters for an environment of these sizes."""

    def initial_carry(self, spec: EnvSpec, batch_shape: tuple[int, ...]) -> Carries:
        """Return the carries before an episode's first observation."""

    def actor(
        self, params: PyTree, observation: Observation, is_start: Bool[Array, "T *b"], carry: Carry
    ) -> tuple[Distribution, Carry]:
        """Return the action distribution of every agent, [T, *b, A], and the carries."""

    def critic(
        self, params: PyTree, observation: Observation, is_start: Bool[Array, "T *b"], carry: Carry
    ) -> tuple[Float[Array, "T *b"] | Float[Array, "T *b A"], Carry]:
        """Return values, per agent if ``RunShape.has_value_per_agent``, and the carries."""


def make_model(shape: RunShape) -> Model:
    """Build the model named by ``shape.network``: a built-in one or a user-defined function.

    The function takes the ``RunShape`` and returns a ``Model``.
    """
    from ratiosym.learning.networks import BUILT_IN  # imports this module for its types

    if shape.network in NETWORKS:
        return BUILT_IN[shape.network](shape)
    build = load_reference(shape.network, "network")
    if not callable(build):
        raise InputError(
            f"The network '{shape.network}' is {_kind(build)}; it must be a function that takes a "
            f"RunShape and returns a model."
        )
    model, again = _build(build, shape), _build(build, shape)
    methods = ("init", "initial_carry", "actor", "critic")
    missing = [name for name in methods if not callable(getattr(model, name, None))]
    if missing or isinstance(model, type):
        lacks = "a class, not an object" if isinstance(model, type) else _without(missing, model)
        raise InputError(
            f"The network '{shape.network}' returns {lacks}. It must return a model: an object "
            f"with the methods {', '.join(methods)} (see ratiosym.learning.model.Model)."
        )
    try:
        hash(model)
    except TypeError as error:
        raise InputError(
            f"The model of '{shape.network}' is not hashable ({error}). Make its class a frozen "
            f"dataclass whose fields are hashable."
        ) from None
    if model != again:
        raise InputError(
            f"The network '{shape.network}' returns a different model each time, so compiled "
            f"programs cannot be shared. Make its class a frozen dataclass."
        )
    return model


def check_model(model: Model, spec: EnvSpec, shape: RunShape) -> None:
    """Raise ``InputError`` if a model breaks the ``Model`` contract. Only traces the model."""
    name = f"The network '{shape.network}'"
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = _trace(f"{name}: init", lambda k: model.init(k, spec), key)
    if not isinstance(params, Params):
        raise InputError(f"{name}: init returned {_kind(params)}; it must return Params.")
    num_steps, num_envs, agents = 2, 3, spec.num_agents
    first = _trace(f"{name}: initial_carry", lambda: model.initial_carry(spec, (num_envs,)))
    if not isinstance(first, Carries):
        raise InputError(f"{name}: initial_carry returned {_kind(first)}; it must return Carries.")
    observation, is_start = _example_inputs(spec, num_steps, num_envs)

    policy, carry = _pair(
        f"{name}: actor",
        _trace(f"{name}: actor", model.actor, params.actor, observation, is_start, first.actor),
    )
    _require_carry(f"{name}: actor", carry, first.actor, num_steps)

    def sample_and_score(policy: Distribution, key: Key) -> tuple[Array, Array, Array]:
        action = policy.sample(key)
        return policy.environment_action(action), policy.log_prob(action), policy.entropy()

    scored = _trace(f"{name}: the actor's distribution", sample_and_score, policy, key)
    size = () if isinstance(spec.action, Discrete) else (spec.action.size,)
    per_agent = (num_steps, num_envs, agents)
    wanted = ((*per_agent, *size), per_agent, per_agent)
    for what, found, shape_wanted in zip(
        ("actions", "log-probabilities", "entropies"), scored, wanted, strict=True
    ):
        _require_shape(f"{name}: the actor's {what}", found.shape, shape_wanted)

    value, carry = _pair(
        f"{name}: critic",
        _trace(f"{name}: critic", model.critic, params.critic, observation, is_start, first.critic),
    )
    _require_carry(f"{name}: critic", carry, first.critic, num_steps)
    of_critic = per_agent if shape.has_value_per_agent else per_agent[:2]
    _require_shape(f"{name}: the values of `critic`={shape.critic!r}", value.shape, of_critic)


def unroll(
    cell: Callable[[Carry, PyTree], tuple[Carry, T]],
    inputs: PyTree,
    is_start: Bool[Array, "T *b"],
    carry: Carry,
) -> tuple[T, Carry]:
    """Unroll a recurrent cell; return the outputs and carries of every step, [T, *b, ...].

    ``cell(carry, x) -> (carry, y)`` computes one step. The carry is zeroed where ``is_start``, so
    the model's initial carry must be zero.
    """

    def step(carry: Carry, now: tuple[PyTree, Bool[Array, "*b"]]) -> tuple[Carry, tuple[T, Carry]]:
        x, is_start = now
        carry = jax.tree.map(lambda c: jnp.where(_expand(is_start, c.ndim), 0, c), carry)
        carry, y = cell(carry, x)
        return carry, (y, carry)

    return jax.lax.scan(step, carry, (inputs, is_start))[1]


def _expand(flags: Bool[Array, "*b"], ndim: int) -> Bool[Array, "..."]:
    return flags.reshape(flags.shape + (1,) * (ndim - flags.ndim))


def _example_inputs(spec: EnvSpec, num_steps: int, num_envs: int) -> tuple[Observation, Any]:
    def of(*shape: int, dtype: Any) -> Any:
        return jax.ShapeDtypeStruct((num_steps, num_envs, *shape), dtype)

    observation = Observation(
        of(spec.num_agents, spec.observation_size, dtype=jnp.float32),
        of(spec.num_agents, spec.num_actions, dtype=jnp.bool_),
        of(spec.num_agents, dtype=jnp.bool_),
        of(spec.state_size, dtype=jnp.float32),
    )
    return observation, of(dtype=jnp.bool_)


def _build(build: Callable[[RunShape], Any], shape: RunShape) -> Any:
    try:
        return build(shape)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The network '{shape.network}' cannot be built from a RunShape: "
            f"{type(error).__name__}: {error}"
        ) from error


def _trace(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        raise InputError(
            f"{what} cannot be traced by JAX: {type(error).__name__}: {error}"
        ) from error


def _pair(what: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise InputError(
            f"{what} returned {_kind(result)}; it must return a pair: its output and the carry "
            f"after every step."
        )
    return result


def _require_carry(what: str, found: Carry, initial: Carry, num_steps: int) -> None:
    wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_steps, *x.shape), x.dtype), initial)
    if _shapes(found) != _shapes(wanted):
        raise InputError(
            f"{what} returned the carry {_shapes(found)} for a sequence of {num_steps} steps; it "
            f"must be initial_carry with a leading time axis: {_shapes(wanted)}."
        )


def _require_shape(what: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if found != wanted:
        raise InputError(f"{what} have the shape {found}; it must be {wanted}.")


def _shapes(tree: PyTree) -> str:
    return str(jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", tree))


def _without(names: list[str], model: Any) -> str:
    return f"{_kind(model)} without {', '.join(names)}"


def _kind(thing: Any) -> str:
    return "None" if thing is None else f"an object of type {type(thing).__name__}"
