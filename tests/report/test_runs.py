"""Figures of runs on disk: what is combined over seeds."""

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.report.runs import over_seeds


def table(steps, low, high, loss):
    return {
        name: np.array(values)
        for name, values in (
            ("steps", steps),
            ("ratio_min", low),
            ("active_ratio_max", high),
            ("policy_loss", loss),
        )
    }


def test_seeds_have_the_extremes_of_their_extremes_and_the_means_of_the_rest():
    one = table([8, 16, 24], [0.5, 0.4, 0.3], [1.5, 2.0, 9.0], [1.0, 2.0, 3.0])
    other = table([8, 16], [0.8, 0.2], [1.2, 4.0], [3.0, 6.0])
    found = over_seeds([one, other])  # up to the end of the shorter one
    assert found["steps"].tolist() == [8, 16]
    assert found["ratio_min"].tolist() == [0.5, 0.2]
    assert found["active_ratio_max"].tolist() == [1.5, 4.0]
    assert found["policy_loss"].tolist() == [2.0, 4.0]


def test_seeds_with_updates_of_different_sizes_are_refused():
    one, other = (table([size], [0.5], [2.0], [1.0]) for size in (8, 16))
    with pytest.raises(InputError, match="updates of different sizes"):
        over_seeds([one, other])
