"""Search spaces: the paper's (appendix D, Table 2), or only an objective's trust region.

The search values of an objective's own parameters are part of its record.
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import Literal

from ratiosym.objectives import get_objective

Choices = tuple[float, ...]
Point = dict[str, float]  # one value of each parameter
SearchKind = Literal["paper", "trust-region"]

# Table 2, shared by all algorithms.
COMMON: dict[str, Choices] = {
    "actor_learning_rate": (1e-4, 2.5e-4, 5e-4),
    "critic_learning_rate": (1e-4, 2.5e-4, 5e-4),
    "entropy_coefficient": (0.0, 1e-5, 1e-2),
    "value_clip": (0.05, 0.1, 0.2),
    "num_minibatches": (2, 4, 8),
    "num_epochs": (2, 4, 8),
}

TRIALS = {1: 40, 2: 80}  # by number of the objective's own parameters (section 4.1)
# Five fixed seeds. Final runs use seeds 0, 1, ..., so that nothing is tuned on them.
SEEDS = tuple(range(1000, 1005))


def search_space(objective: str, kind: SearchKind = "paper") -> dict[str, Choices]:
    """Return all values that are searched for an objective, by option name."""
    own = get_objective(objective).search_space
    # The upper target comes first, as in appendix D. The order determines which random number each
    # parameter gets, so changing it would change the trials of a given sampler seed.
    own = dict(reversed(own.items()))
    return {**COMMON, **own} if kind == "paper" else own


def whole_grid(objective: str) -> tuple[Point, ...]:
    """Return every combination of an objective's own parameters."""
    space = search_space(objective, "trust-region")
    return tuple(dict(zip(space, values, strict=True)) for values in product(*space.values()))


def default_trials(objective: str) -> int:
    """Return the paper's number of trials: 40 for one parameter, 80 for two or more."""
    return TRIALS[min(2, max(1, len(get_objective(objective).parameters)))]


def region_width(objective: str, params: Mapping[str, float]) -> float:
    """Return ln(upper / lower) of the target ratios, which is comparable between objectives.

    It breaks ties: of two equally good regions, the narrower one is chosen.
    """
    known = get_objective(objective)
    own = {name: value for name, value in params.items() if name in known.defaults}
    bounds = known.bounds(**own)
    return math.log(bounds.upper / bounds.lower)
