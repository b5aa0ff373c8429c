"""What one run is: static integers that shape the program, traced floats that do not, and their validation."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import jax

from ratiosym.objectives import Bounds, get_objective
from ratiosym.types import InputError


@dataclass(frozen=True)
class RunShape:
    """The sizes of a run. Changing one compiles a new program."""

    num_envs: int = 128
    """Environments side by side, over all groups of the update batch."""
    update_batch_size: int = 2
    """Groups of environments; each is shuffled and normalised by itself, gradients are averaged (Table 3)."""
    rollout_length: int = 128
    """Steps each environment takes between two updates (Table 3)."""
    num_epochs: int = 4
    """Passes over a rollout (Table 2: 2, 4 or 8)."""
    num_minibatches: int = 4
    """Gradient steps a pass (Table 2: 2, 4 or 8)."""
    hidden_size: int = 128
    """Width of every layer and of the memory."""
    memory: Literal["gru", "none"] = "gru"
    """What the policy and the critic remember: a recurrent state, or nothing."""
    time_limit: Literal["end", "bootstrap"] = "end"
    """A time limit counts as an end (as in the paper), or the value of the last state follows it."""
    mask_inactive: bool = False
    """Leave samples of dead or finished agents out of the loss."""
    num_eval_episodes: int = 32
    """Episodes an evaluation."""

    @property
    def has_memory(self) -> bool:
        """Whether there is a recurrent state."""
        return self.memory == "gru"

    @property
    def carry_size(self) -> int:
        """Width of the recurrent state; 0 without memory."""
        return self.hidden_size if self.has_memory else 0

    @property
    def sequence_length(self) -> int:
        """Steps that are trained in one piece: the whole rollout with memory, single steps without."""
        return self.rollout_length if self.has_memory else 1

    @property
    def envs_per_group(self) -> int:
        """Environments of one group."""
        return self.num_envs // self.update_batch_size

    @property
    def sequences_per_group(self) -> int:
        """Sequences of one group in one rollout."""
        return self.envs_per_group * self.rollout_length // self.sequence_length

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one rollout, never multiplied by agents."""
        return self.num_envs * self.rollout_length

    def validate(self) -> None:
        """Raise InputError where the sizes do not fit together."""
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.type is int and value < 1:
                raise InputError(f"{option(f.name)} is {value}; it must be at least 1.")
        for name, allowed in (("memory", ("gru", "none")), ("time_limit", ("end", "bootstrap"))):
            if getattr(self, name) not in allowed:
                raise InputError(f"{option(name)} is '{getattr(self, name)}'; it must be one of {allowed}.")
        if self.num_envs % self.update_batch_size:
            raise InputError(
                f"{self.num_envs} environments cannot be split into {self.update_batch_size} equal groups. "
                f"Choose --num-envs as a multiple of --update-batch-size."
            )
        if self.sequences_per_group % self.num_minibatches:
            what = "environments" if self.has_memory else "steps"
            raise InputError(
                f"{self.num_minibatches} minibatches do not divide the {self.sequences_per_group} {what} of a group "
                f"({self.num_envs} environments in {self.update_batch_size} groups). Choose --num-minibatches as a "
                f"divisor of {self.sequences_per_group}, or change --num-envs or --update-batch-size."
            )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hyperparameters:
    """Numbers that a compiled program takes as arguments: changing one never compiles again."""

    actor_learning_rate: float = 2.5e-4
    """Adam's step size for the policy (Table 2: 1e-4, 2.5e-4 or 5e-4)."""
    critic_learning_rate: float = 2.5e-4
    """Adam's step size for the critic (Table 2: 1e-4, 2.5e-4 or 5e-4)."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus, beta in Algorithm 1 (Table 2: 0, 1e-5 or 1e-2)."""
    value_clip: float = 0.2
    """How far a value may move from the old one before the loss stops rewarding it (Table 2: 0.05, 0.1, 0.2)."""
    discount: float = 0.99
    """Gamma (Table 3)."""
    gae_lambda: float = 0.95
    """Lambda of the advantage estimate (Table 3)."""
    value_coefficient: float = 0.5
    """Weight of the value loss (Table 3)."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this global norm, policy and critic apart (Table 3)."""

    def validate(self) -> None:
        """Raise InputError for numbers outside their range."""
        ranges = {
            "discount": (0.0, 1.0),
            "gae_lambda": (0.0, 1.0),
            "entropy_coefficient": (0.0, math.inf),
            "value_coefficient": (0.0, math.inf),
        }
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            low, high = ranges.get(f.name, (0.0, math.inf))
            is_open = f.name not in ranges  # a learning rate, a clip or a norm of exactly 0 learns nothing
            if not math.isfinite(value) or not low <= value <= high or (is_open and value == low):
                limit = f"above {low:g}" if is_open else f"from {low:g} to {high:g}"
                raise InputError(f"{option(f.name)} is {value:g}; it must be a number {limit}.")


@dataclass(frozen=True)
class TrustRegion:
    """The objective's own parameters; those left out take the objective's defaults."""

    epsilon: float | None = None
    """mappo, maspo: the region is 1 - epsilon to 1 + epsilon (paper: 0.05, 0.1 or 0.2)."""
    epsilon_lower: float | None = None
    """mappo-asymmetric, maspo-asymmetric: the region begins at 1 - epsilon_lower (paper: 0.05 to 0.9)."""
    epsilon_upper: float | None = None
    """mappo-asymmetric, maspo-asymmetric: the region ends at 1 + epsilon_upper (paper: 0.05 to 9)."""
    b_lower: float | None = None
    """mars: the contraction target B_lower, between 0 and 1 (paper: 0.95 to 0.1)."""
    b_upper: float | None = None
    """mars: the expansion target B_upper, above 1 (paper: 1.05 to 10)."""
    b: float | None = None
    """mars-multiplicative: targets 1/b and b. mars-additive: 2 - b and b (paper: 1.05 to 1.9)."""

    def given(self) -> dict[str, float]:
        """The parameters that were set."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None}


@dataclass(frozen=True)
class RunConfig:
    """One run, whole: with the same values on the same machine it gives the same numbers."""

    task: str
    objective: str = "mars"
    seed: int = 0
    steps: int = 2_000_000
    """Environment steps to train for (whole updates; never more than this)."""
    num_evaluations: int = 40
    """Evaluations, evenly spaced, beside the one before training."""
    trust_region: TrustRegion = field(default_factory=TrustRegion)
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    shape: RunShape = field(default_factory=RunShape)

    @property
    def num_updates(self) -> int:
        """Whole updates within the budget."""
        return self.steps // self.shape.steps_per_update

    @property
    def bounds(self) -> Bounds:
        """The two target ratios."""
        objective = get_objective(self.objective)
        return objective.bounds(**{**objective.parameters, **self.trust_region.given()})

    def evaluation_updates(self) -> list[int]:
        """After which updates to evaluate: 0, then evenly spaced, ending with the last."""
        n = self.num_evaluations
        return sorted({round(i * self.num_updates / n) for i in range(n + 1)})

    def validate(self) -> None:
        """Raise InputError where anything does not fit."""
        self.shape.validate()
        self.hyperparameters.validate()
        try:
            _ = self.bounds
        except ValueError as error:
            raise InputError(str(error)) from None
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed is {self.seed}; it must be from 0 to {2**32 - 1}.")
        if self.num_evaluations < 1:
            raise InputError(f"--num-evaluations is {self.num_evaluations}; it must be at least 1.")
        if self.num_updates < 1:
            raise InputError(
                f"A budget of {self.steps:,} steps is smaller than one update, which takes "
                f"{self.shape.steps_per_update:,} ({self.shape.num_envs} environments x {self.shape.rollout_length} "
                f"steps). Raise --steps, or lower --num-envs or --rollout-length."
            )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "RunConfig":
        """From plain data; unknown or missing names raise InputError."""
        parts = {"trust_region": TrustRegion, "hyperparameters": Hyperparameters, "shape": RunShape}
        try:
            nested = {name: part(**data.get(name, {})) for name, part in parts.items()}
            return cls(**{**data, **nested})
        except TypeError as error:
            raise InputError(f"This configuration does not fit this version of ratiosym: {error}.") from None


def option(name: str) -> str:
    """A field as the command line spells it."""
    return "--" + name.replace("_", "-")
