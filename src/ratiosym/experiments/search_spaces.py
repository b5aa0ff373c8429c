"""What the paper searches for every algorithm (appendix D, Table 2). Each objective has its own
values itself.
"""

from ratiosym.objectives import get_objective

Choices = tuple[float, ...]

# Table 2, for every algorithm.
COMMON: dict[str, Choices] = {
    "actor_learning_rate": (1e-4, 2.5e-4, 5e-4),
    "critic_learning_rate": (1e-4, 2.5e-4, 5e-4),
    "entropy_coefficient": (0.0, 1e-5, 1e-2),
    "value_clip": (0.05, 0.1, 0.2),
    "num_minibatches": (2, 4, 8),
    "num_epochs": (2, 4, 8),
}

TRIALS = {1: 40, 2: 80}  # by the number of an algorithm's own parameters (section 4.1)


def search_space(objective: str) -> dict[str, Choices]:
    """Everything that is searched for an objective, as options of ``presets.configure``."""
    own = get_objective(objective).search_space
    # The upper target first, as in appendix D: the order decides which random number of the sampler
    # each parameter draws, so changing it would change the trials of a given sampler seed.
    return {**COMMON, **dict(reversed(own.items()))}


def default_trials(objective: str) -> int:
    """The paper's number of trials: 40 for one parameter, 80 for two or more."""
    return TRIALS[min(2, max(1, len(get_objective(objective).parameters)))]
