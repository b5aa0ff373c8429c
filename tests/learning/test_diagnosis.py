"""What is said of numbers that are not finite."""

import numpy as np
import pytest

from ratiosym.learning.diagnosis import describe
from ratiosym.types import Observation, Transition

T, E, A = 4, 3, 2


def make_transition(**bad):
    """A rollout of ones, with NaN at the named places."""

    def ones(name, *shape):
        values = np.ones((T, E, *shape), np.float32)
        if name in bad:
            values[bad[name]] = np.nan
        return values

    def observation(prefix):
        legal, active = np.ones((T, E, A, 0), bool), np.ones((T, E, A), bool)
        local, state = ones(f"{prefix}local", A, 5), ones(f"{prefix}state", 7)
        return Observation(local, legal, active, state)

    is_start = np.zeros((T, E), bool)
    is_start[1, 2] = True
    return Transition(
        observation(""),
        is_start,
        ones("action", A, 1),
        ones("log_prob", A),
        ones("reward", A),
        np.zeros((T, E), bool),
        np.zeros((T, E), bool),
        observation("last_"),
    )


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"reward": (2, 0, 1)}, "the reward of agent 1 in environment 0 is nan at its step 103. "),
        (
            {"reward": (2, 2, 0)},
            "the reward of agent 0 in environment 2 is nan at its step 103 (step 2 of its episode)",
        ),
        ({"local": (0, 1, 1, 4)}, "the observation of agent 1 in environment 1 is nan at its step"),
        ({"state": (3, 1, 6)}, "the state for the critic in environment 1 is nan at its step 104."),
        ({"last_local": (3, 0, 0, 0)}, "the observation of agent 0 in environment 0 is nan at"),
        # The first one counts.
        ({"local": (3, 0, 0, 0), "reward": (2, 0, 0)}, "the reward of agent 0 in environment 0"),
        # Actions that follow from what was observed are no excuse.
        ({"reward": (1, 0, 0), "action": (2, 0, 0)}, "the reward of agent 0 in environment 0"),
        ({"local": (1, 0, 0, 0), "action": (1, 0, 0)}, "the observation of agent 0 in environment"),
    ],
)
def test_the_first_number_that_is_not_finite_is_named(bad, said):
    text = describe(make_transition(**bad), 100)
    assert text.startswith("The environment is the cause: ")
    assert said in text


@pytest.mark.parametrize("bad", [{}, {"log_prob": (0, 0, 0)}, {"action": (0, 0, 0)}])
def test_an_environment_without_fault_is_not_blamed(bad):
    assert describe(make_transition(**bad), 0) is None


def test_an_environment_is_not_blamed_for_actions_that_were_none():
    assert describe(make_transition(action=(1, 0, 0), reward=(1, 0, 0)), 0) is None
    assert describe(make_transition(action=(1, 0, 0), local=(2, 0, 0, 0)), 0) is None
