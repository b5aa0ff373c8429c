"""Every wrong input is named, with what is allowed; the schedule; plain data and back."""

import dataclasses
import itertools
import json
import math

import jax
import pytest

from ratiosym.errors import InputError
from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape, TrustRegion
from ratiosym.objectives import OBJECTIVES


def refused(thing, *parts):
    with pytest.raises(InputError) as caught:
        thing.validate()
    message = str(caught.value)
    for part in parts:
        assert part in message, message


def test_defaults_are_the_papers_loop():
    RunConfig("task").validate()
    shape = RunShape()
    assert shape.steps_per_update == 16_384
    assert (shape.envs_per_group, shape.sequences_per_group, shape.sequence_length) == (64, 64, 128)
    assert shape.time_limit == "end"
    assert not shape.mask_inactive


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(RunShape) if f.type is int])
@pytest.mark.parametrize("value", [0, -3])
def test_sizes_must_be_at_least_one(name, value):
    refused(RunShape(**{name: value}), "--" + name.replace("_", "-"), str(value), "at least 1")


def test_there_are_seven_sizes():
    assert sum(f.type is int for f in dataclasses.fields(RunShape)) == 7


def test_choices_are_named():
    refused(RunShape(memory="lstm"), "--memory", "'lstm'", "'gru'", "'none'")
    refused(RunShape(time_limit="stop"), "--time-limit", "'stop'", "'end'", "'bootstrap'")


def test_groups_must_divide_the_environments():
    refused(
        RunShape(num_envs=7),
        "7 environments",
        "2 equal groups",
        "--num-envs",
        "--update-batch-size",
    )


def test_minibatches_must_divide_the_sequences_of_a_group():
    shape = RunShape(num_envs=12, num_minibatches=4)
    refused(shape, "4 minibatches", "6 environments", "divisor of 6", "--num-minibatches")
    # Without memory single steps are shuffled: 6 environments x 128 steps can be cut in four.
    dataclasses.replace(shape, memory="none").validate()
    refused(
        dataclasses.replace(shape, memory="none", num_minibatches=5), "5 minibatches", "768 steps"
    )


def test_without_memory_sequences_are_single_steps():
    shape = RunShape(num_envs=8, rollout_length=16, memory="none")
    assert (shape.carry_size, shape.sequence_length, shape.sequences_per_group) == (0, 1, 64)
    shape = dataclasses.replace(shape, memory="gru")
    assert (shape.carry_size, shape.sequence_length, shape.sequences_per_group) == (128, 16, 4)


WRONG = [
    *[(name, value) for name in ("discount", "gae_lambda") for value in (-0.1, 1.1)],
    *[(name, -0.1) for name in ("entropy_coefficient", "value_coefficient")],
    *[
        (name, value)
        for name in ("actor_learning_rate", "critic_learning_rate", "value_clip", "max_grad_norm")
        for value in (0.0, -1.0)
    ],
    *[
        (f.name, value)
        for f in dataclasses.fields(Hyperparameters)
        for value in (math.nan, math.inf, -math.inf)
    ],
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_numbers_out_of_range_are_refused(name, value):
    refused(
        Hyperparameters(**{name: value}), "--" + name.replace("_", "-"), f"{value:g}", "must be"
    )
    refused(RunConfig("task", hyperparameters=Hyperparameters(**{name: value})), "must be")


@pytest.mark.parametrize(
    "name", ["discount", "gae_lambda", "entropy_coefficient", "value_coefficient"]
)
def test_zero_is_allowed_where_it_means_something(name):
    Hyperparameters(**{name: 0.0}).validate()
    Hyperparameters(**{name: 1.0}).validate()


def test_hyperparameters_are_leaves_of_a_tree():
    """So that they are arguments of a program and not part of it."""
    assert len(jax.tree.leaves(Hyperparameters())) == len(dataclasses.fields(Hyperparameters))


@pytest.mark.parametrize(
    ("objective", "trust_region", "lower", "upper"),
    [
        ("mars", {}, 0.8, 1.2),
        ("mars", {"b_lower": 0.5, "b_upper": 3.0}, 0.5, 3.0),
        ("mars", {"b_upper": 3.0}, 0.8, 3.0),  # the other keeps its default
        ("mappo", {"epsilon": 0.1}, 0.9, 1.1),
        ("maspo", {"epsilon": 0.1}, 0.9, 1.1),
        ("mappo-asymmetric", {"epsilon_lower": 0.5, "epsilon_upper": 4.0}, 0.5, 5.0),
        ("maspo-asymmetric", {"epsilon_upper": 4.0}, 0.8, 5.0),
        ("mars-multiplicative", {"b": 2.0}, 0.5, 2.0),
        ("mars-additive", {"b": 1.9}, 0.1, 1.9),
    ],
)
def test_bounds(objective, trust_region, lower, upper):
    config = RunConfig("task", objective, trust_region=TrustRegion(**trust_region))
    config.validate()
    assert config.bounds == pytest.approx((lower, upper))


@pytest.mark.parametrize(
    ("objective", "trust_region", "parts"),
    [
        ("mars-additive", {"b": 2.0}, ["'mars-additive'", "b=2.0", "above 1 and below 2"]),
        ("mars-additive", {"b": 1.0}, ["b=1.0"]),
        ("mars-multiplicative", {"b": 1.0}, ["b=1.0", "above 1"]),
        ("mappo-asymmetric", {"epsilon_lower": 1.0}, ["epsilon_lower=1.0", "above 0 and below 1"]),
        ("maspo-asymmetric", {"epsilon_upper": 0.0}, ["epsilon_upper=0.0", "above 0"]),
        ("mappo", {"epsilon": 1.0}, ["epsilon=1.0"]),
        ("maspo", {"epsilon": -0.1}, ["epsilon=-0.1"]),
        ("mars", {"b_lower": 0.0}, ["b_lower=0.0", "above 0 and below 1"]),
        ("mars", {"b_lower": 1.0}, ["b_lower=1.0"]),
        ("mars", {"b_upper": 1.0}, ["b_upper=1.0", "above 1"]),
        ("mars", {"b_upper": math.inf}, ["b_upper=inf", "finite"]),
        ("mars", {"b_lower": math.nan}, ["b_lower=nan"]),
        (
            "mars",
            {"epsilon": 0.2},
            ["'epsilon'", "'b_lower', 'b_upper'"],
        ),  # another objective's parameter
        ("mapp", {}, ["'mapp'", "Closest: 'mappo'"]),
    ],
)
def test_wrong_trust_regions_are_refused(objective, trust_region, parts):
    refused(RunConfig("task", objective, trust_region=TrustRegion(**trust_region)), *parts)


def test_trust_region_has_a_name_for_every_parameter():
    names = {name for objective in OBJECTIVES.values() for name in objective.parameters}
    assert {f.name for f in dataclasses.fields(TrustRegion)} == names


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_that_cannot_be_keys_are_refused(seed):
    refused(RunConfig("task", seed=seed), "--seed", str(seed))


def test_the_largest_seed():
    RunConfig("task", seed=2**32 - 1).validate()


def test_there_must_be_an_evaluation():
    refused(RunConfig("task", num_evaluations=0), "--num-evaluations", "at least 1")


def test_a_budget_below_one_update_is_refused():
    refused(
        RunConfig("task", steps=16_383),
        "16,383",
        "16,384",
        "128 environments x 128 steps",
        "--steps",
    )
    RunConfig("task", steps=16_384).validate()


@pytest.mark.parametrize(
    ("num_updates", "num_evaluations", "expected"),
    [
        (10, 5, [0, 2, 4, 6, 8, 10]),
        (7, 3, [0, 2, 5, 7]),
        (3, 10, [0, 1, 2, 3]),  # not more often than updates
        (1, 1, [0, 1]),
        (122, 122, list(range(123))),
    ],
)
def test_schedule(num_updates, num_evaluations, expected):
    shape = RunShape(num_envs=8, rollout_length=4)
    steps = num_updates * shape.steps_per_update + 31  # what is left over is not an update
    config = RunConfig("task", steps=steps, num_evaluations=num_evaluations, shape=shape)
    assert config.num_updates == num_updates
    assert config.evaluation_updates() == expected


@pytest.mark.parametrize("num_updates", [1, 13, 100, 997])
@pytest.mark.parametrize("num_evaluations", [1, 7, 40, 122])
def test_schedule_is_even_and_ends_with_the_last_update(num_updates, num_evaluations):
    shape = RunShape(num_envs=2, rollout_length=1, num_minibatches=1)
    config = RunConfig("task", steps=2 * num_updates, num_evaluations=num_evaluations, shape=shape)
    updates = config.evaluation_updates()
    assert updates[0] == 0
    assert updates[-1] == num_updates
    assert len(updates) == min(num_updates, num_evaluations) + 1
    gaps = [b - a for a, b in itertools.pairwise(updates)]
    assert max(gaps) - min(gaps) <= 1


def test_plain_data_and_back():
    config = RunConfig(
        "task",
        "mappo",
        seed=3,
        steps=5_000_000,
        num_evaluations=7,
        trust_region=TrustRegion(epsilon=0.1),
        hyperparameters=Hyperparameters(discount=0.9),
        shape=RunShape(num_envs=16, memory="none", mask_inactive=True),
    )
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert RunConfig.from_dict({"task": "task"}) == RunConfig("task")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"task": "a", "colour": 1},
        {"task": "a", "shape": {"depth": 3}},
        {"task": "a", "trust_region": {"c": 1}},
    ],
)
def test_data_of_another_version_is_refused(data):
    with pytest.raises(InputError, match="does not fit this version"):
        RunConfig.from_dict(data)
