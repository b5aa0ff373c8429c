"""Validation of settings, the evaluation schedule, and conversion to plain data and back."""

import dataclasses
import itertools
import json
import math

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiosym.errors import InputError
from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape


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
    refused(RunShape(**{name: value}), f"`{name}`", str(value), "at least 1")


def test_there_are_ten_sizes():
    assert sum(f.type is int for f in dataclasses.fields(RunShape)) == 10


@pytest.mark.unchecked
def test_choices_are_named():
    refused(RunShape(network="gruu"), "network 'gruu'", "Closest: 'gru'", "feedforward", "module:")
    refused(RunShape(time_limit="stop"), "`time_limit`", "'stop'", "end, bootstrap")
    refused(RunShape(critic="team"), "`critic`", "'team'", "central, local")


def test_a_network_of_ones_own_is_a_reference():
    shape = RunShape(network="my.package:network", num_envs=6, num_minibatches=3)
    shape.validate()
    assert shape.sequence_length == shape.rollout_length


def test_groups_must_divide_the_environments():
    refused(
        RunShape(num_envs=7),
        "7 environments",
        "2 equal groups",
        "`num_envs`",
        "`update_batch_size`",
    )


def test_minibatches_must_divide_the_sequences_of_a_group():
    shape = RunShape(num_envs=12, num_minibatches=4)
    refused(shape, "4 equal minibatches", "6 environments", "divisor of 6", "`num_minibatches`")
    # Without memory, single steps are shuffled: 6 environments x 128 steps can be split into four.
    dataclasses.replace(shape, network="feedforward").validate()
    refused(
        dataclasses.replace(shape, network="feedforward", num_minibatches=5),
        "5 equal minibatches",
        "768 steps",
    )


def test_without_memory_sequences_are_single_steps():
    shape = RunShape(num_envs=8, rollout_length=16, network="feedforward")
    assert (shape.sequence_length, shape.sequences_per_group) == (1, 64)
    shape = dataclasses.replace(shape, network="gru")
    assert (shape.sequence_length, shape.sequences_per_group) == (16, 4)


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
    refused(Hyperparameters(**{name: value}), f"`{name}`", f"{value:g}", "must be")
    refused(RunConfig("task", hyperparameters=Hyperparameters(**{name: value})), "must be")


@pytest.mark.parametrize(
    "name", ["discount", "gae_lambda", "entropy_coefficient", "value_coefficient"]
)
def test_zero_is_allowed_where_it_means_something(name):
    Hyperparameters(**{name: 0.0}).validate()
    Hyperparameters(**{name: 1.0}).validate()


def test_hyperparameters_are_leaves_of_a_tree():
    """They are arguments of compiled programs, not constants."""
    assert len(jax.tree.leaves(Hyperparameters())) == len(dataclasses.fields(Hyperparameters))


@pytest.mark.parametrize(
    ("objective", "parameters", "lower", "upper"),
    [
        ("mars", {}, 0.5, 2.0),
        ("mars", {"b_lower": 0.7, "b_upper": 3.0}, 0.7, 3.0),
        ("mars", {"b_upper": 3.0}, 0.5, 3.0),  # the other keeps its default
        ("mappo", {"epsilon": 0.1}, 0.9, 1.1),
        ("maspo", {"epsilon": 0.1}, 0.9, 1.1),
        ("mappo-asymmetric", {"epsilon_lower": 0.5, "epsilon_upper": 4.0}, 0.5, 5.0),
        ("maspo-asymmetric", {"epsilon_upper": 4.0}, 0.5, 5.0),
        ("mars-multiplicative", {"b": 2.0}, 0.5, 2.0),
        ("mars-additive", {"b": 1.9}, 0.1, 1.9),
    ],
)
def test_bounds(objective, parameters, lower, upper):
    config = RunConfig("task", objective, objective_parameters=parameters)
    config.validate()
    assert config.bounds == pytest.approx((lower, upper))


@pytest.mark.parametrize(
    ("objective", "parameters", "parts"),
    [
        ("mars-additive", {"b": 2.0}, ["'mars-additive'", "`b` is 2.0;", "above 1 and below 2"]),
        ("mars-additive", {"b": 1.0}, ["`b` is 1.0;"]),
        ("mars-multiplicative", {"b": 1.0}, ["`b` is 1.0;", "above 1"]),
        (
            "mappo-asymmetric",
            {"epsilon_lower": 1.0},
            ["`epsilon_lower` is 1.0;", "below 1"],
        ),
        ("maspo-asymmetric", {"epsilon_upper": 0.0}, ["`epsilon_upper` is 0.0;", "above 0"]),
        ("mappo", {"epsilon": 1.0}, ["`epsilon` is 1.0;"]),
        ("maspo", {"epsilon": -0.1}, ["`epsilon` is -0.1;"]),
        ("mars", {"b_lower": 0.0}, ["`b_lower` is 0.0;", "above 0 and below 1"]),
        ("mars", {"b_lower": 1.0}, ["`b_lower` is 1.0;"]),
        ("mars", {"b_upper": 1.0}, ["`b_upper` is 1.0;", "above 1"]),
        ("mars", {"b_upper": math.inf}, ["`b_upper` is inf;", "finite"]),
        ("mars", {"b_lower": math.nan}, ["`b_lower` is nan;"]),
        (
            "mars",
            {"epsilon": 0.2},
            ["no parameter `epsilon`", "`b_lower` (0.5), `b_upper` (2)"],
        ),  # another objective's parameter
        ("mapp", {}, ["'mapp'", "Closest: 'mappo'"]),
    ],
)
def test_wrong_parameters_are_refused_at_once(objective, parameters, parts):
    with pytest.raises(InputError) as caught:
        RunConfig("task", objective, objective_parameters=parameters)
    for part in parts:
        assert part in str(caught.value)


def test_records_hold_the_numbers_that_were_used():
    config = RunConfig("task", "mars", objective_parameters={"b_upper": 3})
    assert config.to_dict()["objective_parameters"] == {"b_lower": 0.5, "b_upper": 3.0}


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_that_cannot_be_keys_are_refused(seed):
    refused(RunConfig("task", seed=seed), "`seed`", str(seed))


def test_the_largest_seed():
    RunConfig("task", seed=2**32 - 1).validate()


@pytest.mark.parametrize("value", [0, -1, 999_999_999_999])
def test_a_sensible_number_of_evaluations(value):
    refused(RunConfig("task", num_evaluations=value), "`num_evaluations`", "from 1 to 1,000,000")


def test_a_budget_that_nobody_means():
    refused(RunConfig("task", steps=10**26), "`steps`", "from 1 to")


def test_a_budget_below_one_update_is_refused():
    refused(
        RunConfig("task", steps=16_383),
        "16,383",
        "16,384",
        "128 environments x 128 steps",
        "`steps`",
    )
    RunConfig("task", steps=16_384).validate()


@pytest.mark.parametrize(
    ("num_updates", "num_evaluations", "expected"),
    [
        (10, 5, [0, 2, 4, 6, 8, 10]),
        (7, 3, [0, 2, 5, 7]),
        (3, 10, [0, 1, 2, 3]),  # at most once per update
        (1, 1, [0, 1]),
        (122, 122, list(range(123))),
    ],
)
def test_schedule(num_updates, num_evaluations, expected):
    shape = RunShape(num_envs=8, rollout_length=4)
    steps = num_updates * shape.steps_per_update + 31  # the remainder is not an update
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


@given(num_updates=st.integers(1, 300), num_evaluations=st.integers(1, 400))
def test_schedule_is_the_rounded_even_one(num_updates, num_evaluations):
    shape = RunShape(num_envs=2, rollout_length=1, num_minibatches=1)
    config = RunConfig("task", steps=2 * num_updates, num_evaluations=num_evaluations, shape=shape)
    exact = {round(i * num_updates / num_evaluations) for i in range(num_evaluations + 1)}
    assert config.evaluation_updates() == sorted(exact)
    due = [update for update in range(num_updates + 1) if config.is_evaluation_due(update)]
    assert due == sorted(exact)


def test_a_schedule_of_any_length_is_asked_at_once():
    config = RunConfig("task", steps=10**26, num_evaluations=10**12)
    assert config.is_evaluation_due(0)
    assert not config.is_evaluation_due(1)
    assert config.is_evaluation_due(config.num_updates)


def test_plain_data_and_back():
    config = RunConfig(
        "task",
        "mappo",
        seed=3,
        steps=5_000_000,
        num_evaluations=7,
        objective_parameters={"epsilon": 0.1},
        hyperparameters=Hyperparameters(discount=0.9),
        shape=RunShape(num_envs=16, network="feedforward", mask_inactive=True),
    )
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert RunConfig.from_dict({"task": "task"}) == RunConfig("task")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "needs 'task'"),
        ([], "must be a table"),
        ({"task": "a", "colour": 1}, "Unknown name 'colour'"),
        ({"task": "a", "shape": {"actor_dept": 3}}, "Closest: 'actor_depth'"),
        ({"task": "a", "objective_parameters": {"c": 1}}, "no parameter `c`"),
        ({"task": "a", "objective_parameters": {"b_upper": "2"}}, "must be a number"),
        ({"task": "a", "steps": "512"}, "'steps' is '512'; it must be a whole number"),
        ({"task": "a", "steps": [1]}, "must be a whole number"),
        ({"task": "a", "steps": 20480.7}, "must be a whole number"),
        ({"task": "a", "steps": True}, "must be a whole number"),
        ({"task": 7}, "must be text"),
        ({"task": "a", "seed": -1}, "`seed` is -1"),
        ({"task": "a", "num_evaluations": 0}, "`num_evaluations` is 0"),
        ({"task": "a", "hyperparameters": {"discount": 5.0}}, "`discount` is 5"),
        ({"task": "a", "shape": {"num_envs": "8"}}, "must be a whole number"),
        ({"task": "a", "shape": {"mask_inactive": "yes"}}, "must be true or false"),
        ({"task": "a", "shape": {"actor_hidden_size": -3}}, "must be at least 1"),
    ],
)
def test_data_that_does_not_fit_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        RunConfig.from_dict(data)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": -1},
        {"steps": 3},
        {"objective": "mappo"},
        {"objective": "marz"},
        {"shape": {"num_envs": -3}},
        {"hyperparameters": {"discount": 5.0}},
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(change):
    data = {"task": "a", "objective_parameters": {"b_lower": 0.5}, **change}
    with pytest.raises(InputError, match=r"^'x/config\.json': "):
        RunConfig.from_dict(data, "'x/config.json'")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
NAMES = [
    f.name for part in (RunConfig, RunShape, Hyperparameters) for f in dataclasses.fields(part)
]


@given(path=st.lists(st.sampled_from(NAMES), min_size=1, max_size=2), value=JSON)
def test_no_edit_gives_a_traceback_or_a_wrong_type(path, value):
    data = json.loads(json.dumps(RunConfig("task").to_dict()))
    table = data
    for name in path[:-1]:
        table = table[name] if isinstance(table.get(name), dict) else table
    table[path[-1]] = value
    try:
        config = RunConfig.from_dict(data)
    except InputError:
        return
    assert config.to_dict() == json.loads(json.dumps(config.to_dict()))
    config.validate()


def test_records_of_version_0_1_are_read():
    """They had a fixed table of parameters, other defaults, one hidden size and a ``memory``."""
    region = dict.fromkeys(("epsilon", "epsilon_lower", "epsilon_upper", "b_lower", "b_upper", "b"))
    shape = {"num_envs": 16, "hidden_size": 32, "memory": "none"}
    config = RunConfig.from_dict({"task": "a", "trust_region": region, "shape": shape})
    assert config.objective_parameters == {"b_lower": 0.8, "b_upper": 1.2}
    assert (config.shape.actor_hidden_size, config.shape.critic_hidden_size) == (32, 32)
    assert config.shape.network == "feedforward"
    shape["memory"] = "gru"
    wide = RunConfig.from_dict(
        {"task": "a", "trust_region": region | {"b_upper": 2.0}, "shape": shape}
    )
    assert wide.objective_parameters == {"b_lower": 0.8, "b_upper": 2.0}
    assert wide.shape.network == "gru"
