"""One update of one or many seeds on one or many devices, as compiled programs.

A mesh of devices has two axes: seeds, and the groups of the update batch. Whole seeds go to a
device first, then whole groups; what is left of the seeds is vmapped. Shuffling and normalisation
happen within a group, so the result does not depend on how groups lie on devices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, PyTree

from ratiosym.envs.protocol import Env
from ratiosym.errors import InputError
from ratiosym.learning.advantages import generalised_advantages, value_targets
from ratiosym.learning.config import Hyperparameters, RunShape
from ratiosym.learning.evaluate import Episodes, run_episodes
from ratiosym.learning.networks import Actor, Network, Params, apply_critic, init_params
from ratiosym.learning.policy import Policy
from ratiosym.learning.rollout import EpisodeSums, RolloutState, init_rollout, rollout
from ratiosym.learning.update import Batch, OptimiserState, UpdateMetrics, init_optimiser, update
from ratiosym.objectives import Bounds, RatioDiagnostics, Surrogate
from ratiosym.types import Key, Transition


class TrainState(NamedTuple):
    """Everything a run is, for K seeds: every leaf begins with [K]; ``groups`` with [K, U]."""

    params: Params
    optimiser: OptimiserState
    groups: RolloutState
    best_params: Params  # of the best evaluation so far, for the absolute metric
    best_return: Float[Array, "K"]


SPECS = TrainState(P("seed"), P("seed"), P("seed", "group"), P("seed"), P("seed"))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Learner:
    """What a compiled program depends on. Equal learners share their programs."""

    env: Env
    shape: RunShape
    surrogate: Surrogate
    mesh: Mesh

    def spread(
        self, function: Callable[..., PyTree], in_specs: Any, out_specs: Any
    ) -> Callable[..., PyTree]:
        """A function of one seed, [U local groups, ...], over all seeds and devices."""

        def local(*arguments: PyTree) -> PyTree:
            batched = [i for i, spec in enumerate(in_specs) if spec != P()]
            axes = [0 if i in batched else None for i in range(len(arguments))]
            num_seeds = jax.tree.leaves(arguments[batched[0]])[0].shape[0]
            if num_seeds > 1:
                return jax.vmap(function, in_axes=axes)(*arguments)
            # A batch of one would only make the products slower.
            one = [
                jax.tree.map(lambda x: x[0], a) if i in batched else a
                for i, a in enumerate(arguments)
            ]
            return jax.tree.map(lambda x: x[None], function(*one))

        return jax.shard_map(
            local, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )


def make_mesh(num_seeds: int, num_groups: int, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Seeds over devices first, then groups. Devices that neither divides are left idle."""
    devices = list(jax.devices() if devices is None else devices)
    seed_ways = largest_divisor(num_seeds, len(devices))
    group_ways = largest_divisor(num_groups, len(devices) // seed_ways)
    num_used = seed_ways * group_ways
    if jax.process_count() > 1 and num_used != len(devices):
        raise InputError(
            f"{jax.process_count()} processes bring {len(devices)} devices, but {num_seeds} seeds "
            f"with "
            f"{num_groups} groups each can only use {num_used} of them. Choose --num-seeds or "
            f"--update-batch-size so "
            f"that seeds x groups is a multiple of {len(devices)}."
        )
    return Mesh(np.array(devices[:num_used]).reshape(seed_ways, group_ways), ("seed", "group"))


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of ``number`` that is at most ``limit``."""
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)


def init_state(learner: Learner, seeds: Sequence[int]) -> TrainState:
    """Fresh parameters and episodes; everything random in a run comes from its seed."""
    return place(learner, fresh_state(learner.env, learner.shape, np.array(seeds, np.uint32)))


@partial(jax.jit, static_argnums=(0, 1))
def fresh_state(env: Env, shape: RunShape, seeds: Int[Array, "K"]) -> TrainState:
    """The state of every seed, on one device."""

    def init_seed(seed: Int[Array, ""]) -> TrainState:
        params_key, groups_key = jax.random.split(jax.random.key(seed))
        params = init_params(params_key, env.spec, shape)
        group_keys = jax.random.split(groups_key, shape.update_batch_size)
        groups = jax.vmap(lambda k: init_rollout(env, shape, k))(group_keys)
        return TrainState(params, init_optimiser(params), groups, params, jnp.array(-jnp.inf))

    return jax.vmap(init_seed)(seeds)


def place(learner: Learner, state: TrainState) -> TrainState:
    """A state that is whole on this process, on the learner's devices."""

    def put(leaf: Array, sharding: NamedSharding) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(put(jax.random.key_data(leaf), sharding))
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(put, state, shardings(learner, state))


def shardings(learner: Learner, state: TrainState) -> TrainState:
    """Where each leaf of a state lives."""
    return TrainState(
        *(
            jax.tree.map(lambda _, s=spec: NamedSharding(learner.mesh, s), part)
            for spec, part in zip(SPECS, state, strict=True)
        )
    )


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def train_step(
    learner: Learner, state: TrainState, hyperparameters: Hyperparameters, bounds: Bounds
) -> tuple[TrainState, tuple[UpdateMetrics, EpisodeSums]]:
    """One rollout and one update of every seed."""
    step = learner.spread(
        partial(seed_step, learner),
        in_specs=(P("seed"), P("seed"), P("seed", "group"), P(), P()),
        out_specs=(P("seed"), P("seed"), P("seed", "group"), P("seed")),
    )
    params, optimiser, groups, metrics = step(
        state.params, state.optimiser, state.groups, hyperparameters, bounds
    )
    return state._replace(
        params=params, optimiser=optimiser, groups=strongly_typed(groups)
    ), metrics


def strongly_typed(tree: PyTree) -> PyTree:
    """Without JAX's weak types, which environments let in: they come and go, and each change
    compiles again.
    """
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), tree)


def seed_step(
    learner: Learner,
    params: Params,
    optimiser: OptimiserState,
    groups: RolloutState,  # [G] groups on this device
    hyperparameters: Hyperparameters,
    bounds: Bounds,
) -> tuple[Params, OptimiserState, RolloutState, tuple[UpdateMetrics, EpisodeSums]]:
    """Algorithm 1 once: collect, estimate advantages, optimise."""
    shape = learner.shape
    keys = jax.vmap(jax.random.split)(groups.key)  # [G, 2]
    before = groups._replace(key=keys[:, 0])
    after, transition, episodes = jax.vmap(
        partial(rollout, learner.env, shape, params.actor), out_axes=(0, 1, 0)
    )(before)  # transition [T, G, E, ...]
    batch, critic_carry = make_batch(
        shape, params.critic, before, after, transition, hyperparameters
    )
    params, optimiser, metrics = update(
        shape,
        learner.surrogate,
        params,
        optimiser,
        batch,
        keys[:, 1],
        hyperparameters,
        bounds,
        average=lambda x: jax.lax.pmean(x, "group"),
    )
    episodes = jax.tree.map(lambda x: jax.lax.psum(x.sum(), "group"), episodes)
    return (
        params,
        optimiser,
        after._replace(critic_carry=critic_carry),
        (over_devices(metrics), episodes),
    )


def make_batch(
    shape: RunShape,
    critic: Network,
    before: RolloutState,
    after: RolloutState,
    transition: Transition,  # [T, G, E, ...]
    hyperparameters: Hyperparameters,
) -> tuple[Batch, Float[Array, "G E H"]]:
    """Values for the whole rollout in one pass, advantages, and everything cut into sequences."""
    states = jnp.concatenate(
        [transition.observation.state, after.observation.state[None]]
    )  # [T + 1, G, E, S]
    is_start = jnp.concatenate([transition.is_start, after.is_start[None]])
    values, carries = apply_critic(critic, states, is_start, before.critic_carry)
    following = next_values(shape, critic, transition, values, carries)
    value = values[:-1]
    advantage = generalised_advantages(
        transition.reward,
        value,
        following,
        transition.terminated | transition.truncated,
        hyperparameters.discount,
        hyperparameters.gae_lambda,
    )
    cut = partial(to_sequences, length=shape.sequence_length)
    batch = Batch(
        observation=jax.tree.map(cut, transition.observation),
        is_start=cut(transition.is_start),
        action=jax.tree.map(cut, transition.action),
        log_prob=cut(transition.log_prob),
        advantage=cut(advantage),
        value=cut(value),
        target=cut(value_targets(advantage, value)),
        actor_carry=start_carries(before.actor_carry, shape),
        critic_carry=start_carries(before.critic_carry, shape),
    )
    return batch, carries[-2]


def next_values(
    shape: RunShape, critic: Network, transition: Transition, values: Array, carries: Array
) -> Float[Array, "T G E"]:
    """What follows each step: the next value; 0 where the task ended; at a time limit as the shape
    says.
    """
    if shape.time_limit == "bootstrap":
        never = jnp.zeros((1, *transition.truncated.shape), bool)
        at_limit = apply_critic(critic, transition.last_state[None], never, carries[:-1])[0][0]
    else:
        at_limit = jnp.zeros_like(values[1:])
    going_on = jnp.where(transition.truncated, at_limit, values[1:])
    return jnp.where(transition.terminated, 0.0, going_on)


def to_sequences(x: Float[Array, "T G E *r"], length: int) -> Float[Array, "L N *r"]:
    """Cut time into pieces of ``length`` steps; N = groups x pieces x environments, group after
    group.
    """
    num_steps, num_groups, num_envs = x.shape[:3]
    pieces = num_steps // length
    x = x.reshape(pieces, length, num_groups, num_envs, *x.shape[3:])
    return jnp.moveaxis(x, 0, 2).reshape(length, num_groups * pieces * num_envs, *x.shape[4:])


def start_carries(carry: Float[Array, "G E *r"], shape: RunShape) -> Float[Array, "N *r"]:
    """The carry at the start of each sequence: the rollout's first, or the empty one for every
    step.
    """
    pieces, (num_groups, num_envs) = shape.rollout_length // shape.sequence_length, carry.shape[:2]
    carry = jnp.broadcast_to(carry[:, None], (num_groups, pieces, *carry.shape[1:]))
    return carry.reshape(num_groups * pieces * num_envs, *carry.shape[3:])


def over_devices(metrics: UpdateMetrics) -> UpdateMetrics:
    """Extremes and means over the groups of all devices."""

    def ratios(r: RatioDiagnostics) -> RatioDiagnostics:
        return jax.lax.pmean(r, "group")._replace(
            minimum=jax.lax.pmin(r.minimum, "group"), maximum=jax.lax.pmax(r.maximum, "group")
        )

    return metrics._replace(
        first_ratio_error=jax.lax.pmax(metrics.first_ratio_error, "group"),
        ratios=ratios(metrics.ratios),
        active_ratios=ratios(metrics.active_ratios),
    )


@partial(jax.jit, static_argnums=(0, 3))
def evaluate(learner: Learner, params: Params, keys: Key, is_greedy: bool = False) -> Episodes:
    """One episode for each key, [K, n]; they are shared out over the devices."""

    def play(actor: Actor, keys: Key) -> Episodes:
        policy = Policy(actor, learner.env.spec, learner.shape.actor_carry_size)
        return run_episodes(learner.env, policy.team(is_greedy), keys)

    run = learner.spread(
        play,
        in_specs=(P("seed"), P("seed", "group")),
        out_specs=P("seed", "group"),
    )
    num_episodes, ways = keys.shape[1], learner.mesh.shape["group"]
    padded = keys[:, jnp.arange(-(-num_episodes // ways) * ways) % num_episodes]
    return jax.tree.map(lambda x: x[:, :num_episodes], run(params.actor, padded))


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def keep_best(learner: Learner, state: TrainState, returns: Float[Array, "K"]) -> TrainState:
    """Remember the parameters where this evaluation beats all before it."""
    is_better = returns > state.best_return

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(is_better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    best = jax.tree.map(choose, state.params, state.best_params)
    return state._replace(
        best_params=best, best_return=jnp.where(is_better, returns, state.best_return)
    )


def to_host(tree: PyTree) -> PyTree:
    """Arrays as NumPy, whole on every process."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        return multihost_utils.process_allgather(tree, tiled=True)
    return jax.device_get(tree)
