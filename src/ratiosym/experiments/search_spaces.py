"""What the paper searches and what it leaves fixed (appendix D): its tables as data."""

from typing import Any

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

# Appendix D.3.2, each algorithm's own. The asymmetric ones share their targets with MARS: 1 - epsilon_lower is
# B_lower and 1 + epsilon_upper is B_upper, one for one ("Ablation Fairness").
_EPSILON: Choices = (0.05, 0.1, 0.2)
_B: Choices = (1.05, 1.1, 1.2, 1.5, 1.9)
_ASYMMETRIC: dict[str, Choices] = {
    "epsilon_upper": (0.05, 0.1, 0.2, 1.0, 3.0, 5.0, 7.0, 9.0),
    "epsilon_lower": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
}
OWN: dict[str, dict[str, Choices]] = {
    "mars": {
        "b_upper": (1.05, 1.1, 1.2, 2.0, 4.0, 6.0, 8.0, 10.0),
        "b_lower": (0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1),
    },
    "mars-multiplicative": {"b": _B},
    "mars-additive": {"b": _B},
    "mappo": {"epsilon": _EPSILON},
    "mappo-asymmetric": _ASYMMETRIC,
    "maspo": {"epsilon": _EPSILON},
    "maspo-asymmetric": _ASYMMETRIC,
}

# Table 3, for every algorithm: the defaults of a run. Its two other rows are not options here: agents always see
# their id (``envs.tasks.make``), and learning rates never decay.
FIXED: dict[str, Any] = {
    "update_batch_size": 2,
    "rollout_length": 128,
    "max_grad_norm": 0.5,
    "gae_lambda": 0.95,
    "discount": 0.99,
    "value_coefficient": 0.5,
}

TRIALS = {1: 40, 2: 80}  # by the number of an algorithm's own parameters (section 4.1)


def search_space(objective: str) -> dict[str, Choices]:
    """Everything that is searched for an objective, as options of ``presets.configure``."""
    return {**COMMON, **OWN[get_objective(objective).name]}


def default_trials(objective: str) -> int:
    """The paper's number of trials."""
    return TRIALS[len(OWN[get_objective(objective).name])]
