"""Compiled programs that update and evaluate any number of seeds on any number of devices.

Shuffling and normalisation happen within a group of the update batch, so results do not depend on
how groups are distributed over devices (``mesh``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, PyTree, UInt32

from ratiosym.envs.arrays import strongly_typed
from ratiosym.envs.protocol import Env
from ratiosym.learning.batch import Batch, make_batch
from ratiosym.learning.config import Hyperparameters, RunShape
from ratiosym.learning.evaluate import Episodes, run_episodes
from ratiosym.learning.mesh import place, spread
from ratiosym.learning.model import Model, Params
from ratiosym.learning.policy import Policy
from ratiosym.learning.random_bits import use_unrolled_threefry
from ratiosym.learning.rollout import EpisodeSums, RolloutState, init_rollout, rollout
from ratiosym.learning.update import OptimiserState, StepMetrics, init_optimiser, update
from ratiosym.objectives import Bounds, Surrogate
from ratiosym.types import Keys

use_unrolled_threefry()  # before anything is compiled


class TrainState(NamedTuple):
    """Full training state of K seeds: every leaf starts with [K], those of ``groups`` [K, U]."""

    params: Params
    optimiser: OptimiserState
    groups: RolloutState
    best_params: Params  # of the best evaluation so far, for the absolute metric
    best_return: Float[Array, "K"]


SPECS = TrainState(P("seed"), P("seed"), P("seed", "group"), P("seed"), P("seed"))  # type: ignore[arg-type]


class Collected(NamedTuple):
    """What a rollout leaves for the gradient steps of every seed."""

    batch: Batch  # [K, L, N, ...]
    order_keys: Keys  # [K, U], of the order of minibatches


def _collected_specs() -> Collected:
    sequences, carries = P("seed", None, "group"), P("seed", "group")
    specs = [carries if name.endswith("carry") else sequences for name in Batch._fields]
    return Collected(Batch(*specs), P("seed", "group"))  # type: ignore[arg-type]


COLLECTED_SPECS = _collected_specs()

METRICS_SPECS = StepMetrics(*5 * [P("seed")], *2 * [P("seed", None, "group")])  # type: ignore[arg-type]

# Twice as fast to compile, and programs are as fast (docs/performance.md): XLA's older code
# generator, and the compiler's usual optimisations instead of all.
FAST_TO_COMPILE = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 2}
# For a program that runs once, where compilation takes longer than it can save.
UNOPTIMISED = FAST_TO_COMPILE | {"xla_backend_optimization_level": 0}


@dataclass(frozen=True)
class Learner:
    """Static inputs of the compiled programs. Equal learners share them."""

    env: Env
    shape: RunShape
    model: Model
    surrogate: Surrogate
    mesh: Mesh


def init_state(learner: Learner, seeds: Sequence[int]) -> TrainState:
    """Create fresh parameters and episodes. All randomness of a run comes from its seed."""
    state = fresh_state(learner.env, learner.shape, learner.model, jnp.array(seeds, jnp.uint32))
    return place_state(learner, state)


def place_state(learner: Learner, state: TrainState) -> TrainState:
    """Distribute a state that is complete on this process over the learner's devices."""
    return place(learner.mesh, state, SPECS)


@partial(jax.jit, static_argnums=(0, 1, 2), compiler_options=UNOPTIMISED)
def fresh_state(env: Env, shape: RunShape, model: Model, seeds: UInt32[Array, "K"]) -> TrainState:
    """Create the state of every seed on one device (Algorithm 1, line 1)."""

    def init_seed(seed: UInt32[Array, ""]) -> TrainState:
        params_key, groups_key = jax.random.split(jax.random.key(seed))
        params = model.init(params_key, env.spec)
        group_keys = jax.random.split(groups_key, shape.update_batch_size)
        groups = jax.vmap(lambda k: init_rollout(env, shape, model, k))(group_keys)
        return TrainState(params, init_optimiser(params), groups, params, jnp.array(-jnp.inf))

    return jax.vmap(init_seed)(seeds)


def train_step(
    learner: Learner, state: TrainState, hyperparameters: Hyperparameters, bounds: Bounds
) -> tuple[TrainState, tuple[StepMetrics, EpisodeSums]]:
    """Collect one rollout and perform one update for every seed. The state is donated."""
    programs = partial(collect, learner), partial(optimise, learner)
    return collect_and_optimise(*programs, state, hyperparameters, bounds)


def collect_and_optimise(
    collect: Callable[..., tuple[RolloutState, Collected, EpisodeSums]],
    optimise: Callable[..., tuple[Params, OptimiserState, StepMetrics]],
    state: TrainState,
    hyperparameters: Hyperparameters,
    bounds: Bounds,
) -> tuple[TrainState, tuple[StepMetrics, EpisodeSums]]:
    """Run both programs of an update. One is compiled while the other is still being traced."""
    groups, collected, episodes = collect(state.params, state.groups, hyperparameters)
    params, optimiser, metrics = optimise(
        state.params, state.optimiser, collected, hyperparameters, bounds
    )
    state = state._replace(params=params, optimiser=optimiser, groups=groups)
    return state, (metrics, episodes)


@partial(jax.jit, static_argnums=0, donate_argnums=2, compiler_options=FAST_TO_COMPILE)
def collect(
    learner: Learner, params: Params, groups: RolloutState, hyperparameters: Hyperparameters
) -> tuple[RolloutState, Collected, EpisodeSums]:
    """Collect a rollout and estimate its advantages (Algorithm 1, lines 4 to 9)."""
    shape, model = learner.shape, learner.model

    def of_seed(
        params: Params,
        groups: RolloutState,  # [G] groups on this device
        hyperparameters: Hyperparameters,
    ) -> tuple[RolloutState, Collected, EpisodeSums]:
        # collect (lines 4 to 7)
        keys = jax.vmap(jax.random.split)(groups.key)  # [G, 2]
        before = groups._replace(key=keys[:, 0])
        after, transition, episodes = jax.vmap(
            partial(rollout, learner.env, shape, model, params.actor), out_axes=(0, 1, 0)
        )(before)  # transition [T, G, E, ...]

        # advantages and targets (lines 8 and 9)
        batch, critic_carry = make_batch(
            shape, model, params.critic, before, after, transition, hyperparameters
        )  # [L, N, ...]
        episodes = jax.tree.map(lambda x: jax.lax.psum(x.sum(), "group"), episodes)
        after = after._replace(critic_carry=critic_carry)
        return after, Collected(batch, keys[:, 1]), episodes

    groups, collected, episodes = spread(
        learner.mesh,
        of_seed,
        in_specs=(P("seed"), SPECS.groups, P()),
        out_specs=(SPECS.groups, COLLECTED_SPECS, P("seed")),
    )(params, groups, hyperparameters)
    # Environments may return weak types, and a change of weak types would trigger recompilation.
    return strongly_typed(groups), strongly_typed(collected), episodes


@partial(jax.jit, static_argnums=0, donate_argnums=(1, 2), compiler_options=FAST_TO_COMPILE)
def optimise(
    learner: Learner,
    params: Params,
    optimiser: OptimiserState,
    collected: Collected,
    hyperparameters: Hyperparameters,
    bounds: Bounds,
) -> tuple[Params, OptimiserState, StepMetrics]:
    """Perform the gradient steps of one update (Algorithm 1, lines 10 to 27)."""

    def of_seed(
        params: Params,
        optimiser: OptimiserState,
        collected: Collected,
        hyperparameters: Hyperparameters,
        bounds: Bounds,
    ) -> tuple[Params, OptimiserState, StepMetrics]:
        return update(
            learner.shape,
            learner.model,
            learner.surrogate,
            params,
            optimiser,
            collected.batch,
            collected.order_keys,
            hyperparameters,
            bounds,
            average=lambda x: jax.lax.pmean(x, "group"),
        )

    return spread(
        learner.mesh,
        of_seed,
        in_specs=(P("seed"), P("seed"), COLLECTED_SPECS, P(), P()),
        out_specs=(SPECS.params, SPECS.optimiser, METRICS_SPECS),
    )(params, optimiser, collected, hyperparameters, bounds)


@partial(jax.jit, static_argnums=0)
def keys_of_episodes(
    num_episodes: int,
    seeds: UInt32[Array, "K"],
    stream: UInt32[Array, ""],
    update: UInt32[Array, ""],
) -> Keys:
    """Return the keys of an evaluation's episodes, [K, n], given by seed, stream and update."""

    def of_seed(seed: UInt32[Array, ""]) -> Keys:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), stream), update)
        return jax.random.split(key, num_episodes)

    return jax.vmap(of_seed)(seeds)


@partial(jax.jit, static_argnums=(0, 3), compiler_options=FAST_TO_COMPILE)
def evaluate(learner: Learner, params: Params, keys: Keys, is_greedy: bool = False) -> Episodes:
    """Play one episode per key, [K, n], distributed over the devices."""

    def play(actor: PyTree, keys: Keys) -> Episodes:
        policy = Policy(learner.model, actor, learner.env.spec)
        return run_episodes(learner.env, policy.team(is_greedy), keys)

    run = spread(
        learner.mesh,
        play,
        in_specs=(P("seed"), P("seed", "group")),
        out_specs=P("seed", "group"),
    )
    num_episodes, ways = keys.shape[1], learner.mesh.shape["group"]
    padded = keys[:, jnp.arange(-(-num_episodes // ways) * ways) % num_episodes]
    return jax.tree.map(lambda x: x[:, :num_episodes], run(params.actor, padded))


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def update_best(learner: Learner, state: TrainState, returns: Float[Array, "K"]) -> TrainState:
    """Store the current parameters as best for each seed whose evaluation beats all previous."""
    is_better = returns > state.best_return

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(is_better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

    best = jax.tree.map(choose, state.params, state.best_params)
    return state._replace(
        best_params=best, best_return=jnp.where(is_better, returns, state.best_return)
    )
