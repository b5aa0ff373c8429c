"""The search spaces are the paper's, number by number, and fair."""

import itertools

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.presets import configure
from ratiosym.experiments.search_spaces import COMMON, TRIALS, default_trials, search_space
from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape
from ratiosym.objectives import OBJECTIVES

OWN = {name: objective.search_space for name, objective in OBJECTIVES.items()}


def test_table_2():
    assert {name: set(choices) for name, choices in COMMON.items()} == {
        "actor_learning_rate": {0.0001, 0.00025, 0.0005},
        "critic_learning_rate": {0.0001, 0.00025, 0.0005},
        "entropy_coefficient": {0.0, 0.00001, 0.01},
        "value_clip": {0.05, 0.1, 0.2},
        "num_minibatches": {2, 4, 8},
        "num_epochs": {2, 4, 8},
    }


def test_the_seven_sets_of_appendix_d():
    upper, lower = {1.05, 1.1, 1.2, 2, 4, 6, 8, 10}, {0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1}
    above, below = {0.05, 0.1, 0.2, 1.0, 3.0, 5.0, 7.0, 9.0}, {0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9}
    b, epsilon = {1.05, 1.1, 1.2, 1.5, 1.9}, {0.05, 0.1, 0.2}
    assert {name: {p: set(choices) for p, choices in own.items()} for name, own in OWN.items()} == {
        "mars": {"b_upper": upper, "b_lower": lower},
        "mars-multiplicative": {"b": b},
        "mars-additive": {"b": b},
        "mappo": {"epsilon": epsilon},
        "mappo-asymmetric": {"epsilon_upper": above, "epsilon_lower": below},
        "maspo": {"epsilon": epsilon},
        "maspo-asymmetric": {"epsilon_upper": above, "epsilon_lower": below},
    }
    assert OWN.keys() == OBJECTIVES.keys()


def test_table_3():
    """The values that every run of the paper has in common are the defaults."""
    shape, numbers = RunShape(), Hyperparameters()
    assert (shape.update_batch_size, shape.rollout_length) == (2, 128)
    assert numbers.max_grad_norm == 0.5
    assert (numbers.discount, numbers.gae_lambda) == (0.99, 0.95)
    assert numbers.value_coefficient == 0.5
    assert RunConfig("mpe-spread-3ag").anneal_learning_rates is False


@pytest.mark.parametrize("preset", ["paper", "cpu"])
def test_presets_change_nothing_of_table_3(preset):
    config = configure("mpe-spread-3ag", preset)
    assert (config.shape.update_batch_size, config.shape.rollout_length) == (2, 128)
    assert config.hyperparameters == Hyperparameters()
    assert not config.anneal_learning_rates


def targets(objective):
    """Every pair of target ratios an objective's search can choose, as the compiled program gets
    them.
    """
    names, choices = zip(*OWN[objective].items(), strict=True)
    pairs = [
        OBJECTIVES[objective].bounds(**dict(zip(names, c, strict=True)))
        for c in itertools.product(*choices)
    ]
    return {(np.float32(p.lower), np.float32(p.upper)) for p in pairs}


def test_the_ablation_is_fair():
    """In target-ratio form MARS, asymmetric MAPPO and asymmetric MASPO have one and the same search
    space.
    """
    assert len(targets("mars")) == 56
    assert targets("mars") == targets("mappo-asymmetric") == targets("maspo-asymmetric")
    assert targets("mars-additive") != targets("mars-multiplicative")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_space_is_what_the_objective_takes(objective):
    space = search_space(objective)
    assert list(space)[: len(COMMON)] == list(COMMON)
    assert set(space) == {*COMMON, *OBJECTIVES[objective].defaults}
    for name, choices in space.items():
        assert len(set(choices)) == len(choices)
        for value in choices:
            configure("mpe-spread-3ag", "cpu", objective=objective, **{name: value})


def test_the_order_is_that_of_the_shipped_searches():
    """It decides which random number each parameter draws: the same sampler seed must repeat
    them.
    """
    assert list(search_space("mars"))[len(COMMON) :] == ["b_upper", "b_lower"]
    own = list(search_space("mappo-asymmetric"))[len(COMMON) :]
    assert own == ["epsilon_upper", "epsilon_lower"]


def test_forty_trials_for_one_parameter_and_eighty_for_two():
    assert TRIALS == {1: 40, 2: 80}
    assert {name: default_trials(name) for name in OBJECTIVES} == {
        "mars": 80,
        "mappo": 40,
        "maspo": 40,
        "mappo-asymmetric": 80,
        "maspo-asymmetric": 80,
        "mars-multiplicative": 40,
        "mars-additive": 40,
    }


def test_unknown_objectives():
    with pytest.raises(InputError, match=r"Unknown objective 'marz'\. Closest: 'mars'"):
        search_space("marz")
