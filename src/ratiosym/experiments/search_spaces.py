"""What is searched: the paper's space (appendix D, Table 2), or an objective's trust region alone.

Each objective has the values of its own parameters itself.
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

TRIALS = {1: 40, 2: 80}  # by the number of an algorithm's own parameters (section 4.1)
# Five fixed seeds. Final runs have seeds 0, 1, ..., so none of them is tuned on (Decision 66).
SEEDS = tuple(range(1000, 1005))


def search_space(objective: str, kind: SearchKind = "paper") -> dict[str, Choices]:
    """Everything that is searched for an objective, as options of ``presets.configure``."""
    own = get_objective(objective).search_space
    # The upper target first, as in appendix D: the order decides which random number of the sampler
    # each parameter draws, so changing it would change the trials of a given sampler seed.
    own = dict(reversed(own.items()))
    return {**COMMON, **own} if kind == "paper" else own


def whole_grid(objective: str) -> tuple[Point, ...]:
    """Every combination of an objective's own parameters."""
    space = search_space(objective, "trust-region")
    return tuple(dict(zip(space, values, strict=True)) for values in product(*space.values()))


def default_trials(objective: str) -> int:
    """Return the paper's number of trials: 40 for one parameter, 80 for two or more."""
    return TRIALS[min(2, max(1, len(get_objective(objective).parameters)))]


def region_width(objective: str, params: Mapping[str, float]) -> float:
    """How wide the trust region of some parameters is: the logarithm of upper over lower target,
    so that it is the same for every objective. The narrower of two equally good ones is chosen
    (Decision 80).
    """
    known = get_objective(objective)
    own = {name: value for name, value in params.items() if name in known.defaults}
    bounds = known.bounds(**own)
    return math.log(bounds.upper / bounds.lower)
