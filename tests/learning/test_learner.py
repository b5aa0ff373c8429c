"""Seeds, groups and devices: results do not depend on their layout, and nothing is recompiled."""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh

from ratiosym.errors import InputError
from ratiosym.learning.config import Hyperparameters
from ratiosym.learning.evaluate import run_episodes
from ratiosym.learning.learner import (
    collect,
    evaluate,
    fresh_state,
    optimise,
    place_state,
    train_step,
    update_best,
)
from ratiosym.learning.mesh import make_mesh, to_host
from ratiosym.learning.model import make_model
from ratiosym.learning.policy import Policy
from ratiosym.learning.rollout import init_rollout, rollout
from ratiosym.learning.update import minibatch_indices
from ratiosym.objectives import Bounds
from tests.learning.helpers import (
    TINY,
    Drift,
    advance,
    assert_close,
    assert_equal,
    compilations,
    differ,
    make,
    plain,
    random_params,
    start,
    traced,
)

FAST = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3}
NO_MEMORY = dataclasses.replace(TINY, network="feedforward")
MODEL = make_model(NO_MEMORY)
ACTOR = random_params(Drift().spec, NO_MEMORY).actor


def numbers(tree):
    """Return the results of an update without environment states: parameters, moments, metrics."""
    state, [(metrics, episodes)] = tree
    return plain((state.params, state.optimiser, metrics, episodes))


# ------------------------------------------------------------------------------------------ devices


def test_one_device_and_two_agree():
    """Two groups on one device or on two: normalisation and shuffling stay within a group."""
    one, two = make(num_devices=1), make(num_devices=2)
    assert (one.mesh.size, two.mesh.size) == (1, 2)
    assert_equal(start(one), start(two))
    for seed in range(5):  # an extreme may lie in either group
        results = [
            numbers(advance(learner, start(learner, seed), 1, **FAST)) for learner in (one, two)
        ]
        assert_close(*results, rtol=1e-4, atol=1e-6)
    assert differ(results[0][0], start(one, seed).params)


@pytest.mark.parametrize(
    ("num_seeds", "num_devices", "layout"),
    [
        pytest.param(2, 2, (2, 1), id="a seed on each device"),
        pytest.param(2, 1, (1, 1), id="two seeds on one device", marks=pytest.mark.slow),
        pytest.param(3, 2, (1, 2), id="three seeds over groups on devices", marks=pytest.mark.slow),
    ],
)
def test_seeds_side_by_side_are_as_alone(num_seeds, num_devices, layout):
    seeds = (5, 0, 9)[:num_seeds]
    learner, single = make(num_seeds=num_seeds, num_devices=num_devices), make(num_devices=2)
    assert learner.mesh.devices.shape == layout
    together = numbers(advance(learner, start(learner, *seeds), 1, **FAST))
    for k, seed in enumerate(seeds):
        alone = numbers(advance(single, start(single, seed), 1, **FAST))
        mine = jax.tree.map(lambda x, k=k: x[k : k + 1], together)
        assert_close(mine, alone, rtol=1e-4, atol=1e-6)


@dataclass(frozen=True)
class Device:
    """A stand-in for a device with what a mesh needs."""

    id: int
    process_index: int = 0
    platform: str = "cpu"
    device_kind: str = "cpu"


@pytest.mark.parametrize(
    ("num_seeds", "num_groups", "num_devices", "layout"),
    [
        (1, 1, 1, (1, 1)),
        (1, 2, 1, (1, 1)),
        (1, 2, 2, (1, 2)),
        (2, 2, 2, (2, 1)),
        (3, 2, 2, (1, 2)),
        (2, 2, 4, (2, 2)),
        (10, 2, 8, (5, 1)),
        (4, 2, 8, (4, 2)),
        (5, 2, 4, (1, 2)),
        (1, 1, 8, (1, 1)),
        (1, 3, 2, (1, 1)),
        (6, 4, 4, (3, 1)),
        (1, 4, 3, (1, 2)),
    ],
)
def test_mesh_puts_seeds_on_devices_first_and_then_groups(
    num_seeds, num_groups, num_devices, layout
):
    devices = [Device(i) for i in range(num_devices)]
    mesh = make_mesh(num_seeds, num_groups, devices)
    assert mesh.axis_names == ("seed", "group")
    assert mesh.devices.shape == layout
    assert [device.id for device in mesh.devices.ravel()] == list(range(layout[0] * layout[1]))
    assert num_seeds % layout[0] == 0
    assert num_groups % layout[1] == 0


def test_mesh_takes_all_devices_unless_told():
    assert make_mesh(2, 2).devices.ravel().tolist() == jax.devices()
    assert make_mesh(2, 2, jax.devices()[:1]).size == 1


def test_several_hosts_must_all_have_work(monkeypatch):
    """Idle devices of another host would wait forever."""
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert make_mesh(2, 1).size == 2
    with pytest.raises(
        InputError,
        match=r"2 processes have 2 devices, but 1 seeds .* use only 1 of them.*`num_seeds`",
    ):
        make_mesh(1, 1)


# -------------------------------------------------------------------------------------------- seeds


def test_the_same_seed_gives_the_same_numbers_to_the_last_bit():
    learner = make()
    first, again = (advance(learner, start(learner, 3), 4, **FAST) for _ in range(2))
    assert_equal(first, again)


def test_different_seeds_differ_from_the_start():
    learner = make()
    one, two = start(learner, 1), start(learner, 2)
    assert differ(one.params, two.params)
    assert differ(one.groups.env_state, two.groups.env_state)
    (one, _), (two, _) = advance(learner, one, 2), advance(learner, two, 2)
    assert differ(one.params, two.params)
    assert differ(one.groups.env_state, two.groups.env_state)


def test_groups_of_a_seed_live_their_own_lives():
    learner = make()
    state, _ = advance(learner, start(learner), 3)
    groups = plain(state.groups)
    assert differ(groups.key[:, 0], groups.key[:, 1])
    for x in (groups.env_state.position, groups.actor_carry, groups.episode_return):
        assert np.abs(x[:, 0] - x[:, 1]).max() > 1e-3


def test_fresh_state():
    learner = make(num_seeds=2)
    state = start(learner, 0, 1)
    assert_equal(state.params, state.best_params)
    assert (state.best_return == -np.inf).all()
    assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves(plain(state)))
    assert state.groups.is_start.shape == (2, 2, 4)
    assert state.groups.is_start.all()
    assert not state.groups.actor_carry.any()
    assert not state.groups.critic_carry.any()


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: fresh_state.__wrapped__(Drift(), NO_MEMORY, MODEL, jnp.zeros(1, jnp.uint32)),
        lambda key: rollout(
            Drift(), NO_MEMORY, MODEL, ACTOR, init_rollout(Drift(), NO_MEMORY, MODEL, key)
        ),
        lambda key: minibatch_indices(jax.random.split(key, 2), NO_MEMORY),
        lambda key: run_episodes(
            Drift(), Policy(MODEL, ACTOR, Drift().spec).team(), jax.random.split(key, 3)
        ),
    ],
    ids=["fresh_state", "rollout", "minibatch_indices", "run_episodes"],
)
def test_no_key_is_used_twice(draw, key):
    with jax.debug_key_reuse(True):
        jax.jit(draw)(key)


# -------------------------------------------------------------------------------------- compilation


def test_nothing_is_compiled_twice():
    """Not for other states, after an evaluation, with other numbers, or by an equal learner."""
    programs = (collect, optimise, evaluate, update_best)
    for program in programs:
        program.clear_cache()
    keys = jax.random.split(jax.random.key(0), (1, 6))

    def run(bounds, **changes):
        learner = make()
        state = start(learner)
        for _ in range(2):
            evaluate(learner, state.params, keys)
            state = update_best(learner, state, jnp.array([1.0]))
            state, _ = advance(learner, state, 2, bounds, **changes)

    with compilations() as names:
        run(Bounds(0.8, 1.2))
        assert [names.count(program.__name__) for program in programs] == [1, 1, 1, 1]
        sizes = [program._cache_size() for program in programs]
        run(Bounds(0.5, 3.0), actor_learning_rate=1e-3, discount=0.9, value_clip=0.05)
    assert [names.count(program.__name__) for program in programs] == [1, 1, 1, 1]
    assert [program._cache_size() for program in programs] == sizes


def test_equal_learners_are_equal():
    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != make(num_devices=1)
    assert make() != make(hidden_size=9)
    assert make() != make(Drift(time_limit=9))


def test_hyperparameters_and_bounds_have_an_effect():
    """They are arguments of the program, not constants."""
    learner = make()
    [(plain_result, _)] = [advance(learner, start(learner), 1)]
    for changes in (
        {"actor_learning_rate": 1e-3},
        {"critic_learning_rate": 1e-3},
        {"entropy_coefficient": 0.5},
        {"value_clip": 1e-4},
        {"discount": 0.5},
        {"gae_lambda": 0.5},
        {"value_coefficient": 1e-3},  # only visible if the gradient is too small to be clipped
        {"max_grad_norm": 1e-3},
        {"bounds": Bounds(0.5, 3.0)},
    ):
        result, _ = advance(learner, start(learner), 1, **changes)
        assert differ(result.params, plain_result.params), changes


def test_arrays_do_not_pile_up():
    learner = make()
    arguments = traced(Hyperparameters())
    state, metrics = train_step(learner, start(learner), *arguments)
    counts = []
    for _ in range(20):
        state, metrics = train_step(learner, state, *arguments)
        jax.block_until_ready(metrics)
        counts.append(len(jax.live_arrays()))
    assert counts[-1] <= counts[0], counts


# --------------------------------------------------------------------------------------- evaluation


def test_evaluations_do_not_depend_on_devices_and_pads_are_cut_off():
    one, two = make(num_devices=1), make(num_devices=2)
    params, keys = (
        start(one).params,
        jax.random.split(jax.random.key(0), (1, 5)),
    )  # five is not divisible by two
    here, there = evaluate(one, params, keys), evaluate(two, start(two).params, keys)
    assert here.returns.shape == there.returns.shape == (1, 5)
    np.testing.assert_array_equal(here.lengths, there.lengths)
    assert_close(here, there, rtol=1e-5)
    assert len(np.unique(here.returns)) == 5


@pytest.mark.parametrize("num_episodes", [1, 3, 4, 5])
def test_any_number_of_episodes_can_be_spread_over_any_number_of_devices(num_episodes):
    learner = dataclasses.replace(make(), mesh=AbstractMesh((1, 4), ("seed", "group")))
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), (1, num_episodes)))
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), start(make()).params)
    episodes = evaluate.eval_shape(learner, params, keys)
    assert episodes.returns.shape == (1, num_episodes)


def test_seeds_are_evaluated_each_with_its_own_parameters():
    learner, single = make(num_seeds=2), make()
    seeds, keys = (4, 7), jax.random.split(jax.random.key(0), (2, 6))
    together = evaluate(learner, start(learner, *seeds).params, keys)
    for k, seed in enumerate(seeds):
        alone = evaluate(single, start(single, seed).params, keys[k : k + 1])
        assert_close(jax.tree.map(lambda x, k=k: x[k : k + 1], together), alone, rtol=1e-5)


def test_an_evaluated_episode_does_not_depend_on_its_neighbours():
    learner = make()
    params = start(learner).params
    keys, others = (jax.random.split(jax.random.key(k), (1, 6)) for k in (0, 1))
    mixed = jnp.concatenate([keys[:, :1], others[:, 1:5], keys[:, 5:]], axis=1)
    whole, among_others = (plain(evaluate(learner, params, k)) for k in (keys, mixed))
    for index in (0, 5):
        assert_equal(*(jax.tree.map(lambda x, i=index: x[:, i], e) for e in (whole, among_others)))
    assert differ(whole.returns[:, 1:5], among_others.returns[:, 1:5])


def test_best_parameters_are_updated_seed_by_seed():
    learner = make(num_seeds=2)

    def params_now(state):
        return plain(state.params)

    def seed(tree, k):
        return jax.tree.map(lambda x: x[k], plain(tree))

    state = update_best(learner, start(learner, 0, 1), jnp.array([1.0, 5.0]))
    first = params_now(state)
    assert_equal(state.best_params, first)
    np.testing.assert_array_equal(state.best_return, [1.0, 5.0])

    state, _ = advance(learner, state, 1)
    assert_equal(state.best_params, first)  # training does not change them
    second = params_now(state)
    state = update_best(learner, state, jnp.array([2.0, 4.0]))
    assert_equal(seed(state.best_params, 0), seed(second, 0))
    assert_equal(seed(state.best_params, 1), seed(first, 1))
    assert_equal(state.params, second)
    np.testing.assert_array_equal(state.best_return, [2.0, 5.0])

    state, _ = advance(learner, state, 1)
    state = update_best(
        learner, state, jnp.array([np.nan, 5.0])
    )  # neither is better: the older ones are kept
    assert_equal(seed(state.best_params, 0), seed(second, 0))
    assert_equal(seed(state.best_params, 1), seed(first, 1))
    np.testing.assert_array_equal(state.best_return, [2.0, 5.0])


def test_states_go_to_the_host_and_back():
    learner = make()
    state, _ = advance(learner, start(learner), 1)
    host = to_host(state.params)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(host))
    assert_equal(host, state.params)
    placed = place_state(learner, state)
    assert_equal(placed, state)
    for leaf, other in zip(jax.tree.leaves(placed), jax.tree.leaves(state), strict=True):
        assert leaf.sharding.is_equivalent_to(other.sharding, leaf.ndim)
