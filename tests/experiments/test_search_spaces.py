"""The search spaces are the paper's, number by number, and fair."""

import itertools

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.presets import configure
from ratiosym.experiments.search_spaces import (
    COMMON,
    FIXED,
    OWN,
    TRIALS,
    default_trials,
    search_space,
)
from ratiosym.objectives import OBJECTIVES


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


@pytest.mark.parametrize("preset", ["paper", "cpu"])
def test_table_3(preset):
    config = configure("mpe-spread-3ag", preset)
    assert FIXED == {
        "update_batch_size": 2,
        "rollout_length": 128,
        "max_grad_norm": 0.5,
        "gae_lambda": 0.95,
        "discount": 0.99,
        "value_coefficient": 0.5,
    }
    for name, value in FIXED.items():
        assert (
            getattr(config.shape, name, None) == value
            or getattr(config.hyperparameters, name, None) == value
        )


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
    assert list(space) == [*COMMON, *OWN[objective]]
    assert OWN[objective].keys() == OBJECTIVES[objective].parameters.keys()
    for name, choices in space.items():
        assert len(set(choices)) == len(choices)
        for value in choices:
            configure("mpe-spread-3ag", "cpu", objective=objective, **{name: value})


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
