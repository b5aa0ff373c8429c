"""Configuration of a run: static sizes, traced hyperparameters and their validation."""

import dataclasses
import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from ratiosym.errors import InputError
from ratiosym.objectives import OBJECTIVES, Bounds, get_objective
from ratiosym.plain import read_record, unknown_name
from ratiosym.references import canonical_reference, is_reference

NETWORKS = ("gru", "feedforward")  # built in
MAX_STEPS, MAX_EVALUATIONS = 10**15, 10**6  # anything larger is most likely a typo


@dataclass(frozen=True)
class RunShape:
    """Static sizes of a run. Changing any of them triggers recompilation."""

    num_envs: int = 128
    """Parallel environments, in total over all groups of the update batch. The paper does not state
    their number."""
    update_batch_size: int = 2
    """Groups of environments. Each is shuffled and normalised separately; gradients are averaged
    over groups (Table 3)."""
    rollout_length: int = 128
    """Steps per environment between two updates (Table 3)."""
    num_epochs: int = 4
    """Passes over each rollout (Table 2: 2, 4 or 8)."""
    num_minibatches: int = 4
    """Gradient steps per pass (Table 2: 2, 4 or 8)."""
    network: str = "gru"
    """gru, feedforward, or a custom network as package.module:function."""
    actor_hidden_size: int = 128
    """Width of the actor's layers and recurrent state (128 in Mava, not stated in the paper)."""
    critic_hidden_size: int = 128
    """Width of the critic's layers and recurrent state."""
    actor_depth: int = 1
    """Dense layers of the actor before its recurrent layer."""
    critic_depth: int = 1
    """Dense layers of the critic before its recurrent layer."""
    critic: Literal["central", "local", "joint", "individual"] = "central"
    """Input of the critic. central: the global state, with one value for the team. local: each
    agent's own observation, with one value per agent (as in IPPO). joint: the global state and all
    agents' observations, with one value for the team. individual: the global state, the agent's own
    observation and whether it still acts, with one value per agent."""
    action_distribution: Literal["squashed", "clipped"] = "squashed"
    """Distribution of continuous actions. squashed: a Gaussian squashed into (-1, 1) by tanh.
    clipped: a plain Gaussian, clipped to [-1, 1] before it reaches the environment."""
    time_limit: Literal["end", "bootstrap"] = "end"
    """end: a time limit counts as the end of the episode, as in Mava. bootstrap: the return
    continues with the value of the last state."""
    mask_inactive: bool = False
    """Exclude samples of dead or finished agents from the loss."""
    num_eval_episodes: int = 32
    """Episodes per evaluation (32 in Mava; the paper does not state it)."""

    def __post_init__(self) -> None:
        """Make the path of a network file absolute, so that it is found from any directory."""
        if isinstance(self.network, str):
            object.__setattr__(self, "network", canonical_reference(self.network))

    @property
    def is_recurrent(self) -> bool:
        """Whether training preserves time order. Always true for custom networks, as it is safe
        for every kind.
        """
        return self.network != "feedforward"

    @property
    def has_value_per_agent(self) -> bool:
        """Whether the critic returns one value per agent instead of one for the team."""
        return self.critic in ("local", "individual")

    @property
    def sequence_length(self) -> int:
        """Length of training sequences: the whole rollout if recurrent, else a single step."""
        return self.rollout_length if self.is_recurrent else 1

    @property
    def envs_per_group(self) -> int:
        """Environments per group."""
        return self.num_envs // self.update_batch_size

    @property
    def sequences_per_group(self) -> int:
        """Sequences per group and rollout."""
        return self.envs_per_group * self.rollout_length // self.sequence_length

    @property
    def steps_per_update(self) -> int:
        """Environment steps per rollout, not multiplied by the number of agents."""
        return self.num_envs * self.rollout_length

    def validate(self) -> None:
        """Raise ``InputError`` if the sizes are invalid or incompatible."""
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.type is int and value < 1:
                raise InputError(f"`{f.name}` is {value}; it must be at least 1.")
        if self.network not in NETWORKS and not is_reference(self.network):
            raise unknown_name(
                "network",
                self.network,
                NETWORKS,
                f" Choose one of: {', '.join(NETWORKS)}; or package.module:function.",
            )
        for name, allowed in (
            ("time_limit", ("end", "bootstrap")),
            ("critic", ("central", "local", "joint", "individual")),
            ("action_distribution", ("squashed", "clipped")),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"`{name}` is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}."
                )
        if self.num_envs % self.update_batch_size:
            raise InputError(
                f"{self.num_envs} environments cannot be split into {self.update_batch_size} equal "
                f"groups. Make `num_envs` a multiple of `update_batch_size`."
            )
        if self.sequences_per_group % self.num_minibatches:
            what = "environments" if self.is_recurrent else "steps"
            raise InputError(
                f"{self.sequences_per_group} {what} per group ({self.num_envs} environments in "
                f"{self.update_batch_size} groups) cannot be split into {self.num_minibatches} "
                f"equal minibatches. Make `num_minibatches` a divisor of "
                f"{self.sequences_per_group}, or change `num_envs` or `update_batch_size`."
            )


@dataclass(frozen=True)
class Hyperparameters:
    """Numbers passed to compiled programs as arguments: changing them never recompiles."""

    actor_learning_rate: float = 2.5e-4
    """Adam's learning rate for the actor (Table 2: 1e-4, 2.5e-4 or 5e-4)."""
    critic_learning_rate: float = 2.5e-4
    """Adam's learning rate for the critic (Table 2: 1e-4, 2.5e-4 or 5e-4)."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus, beta in Algorithm 1 (Table 2: 0, 1e-5 or 1e-2)."""
    value_clip: float = 0.2
    """Clip range of the value loss around the old value (Table 2: 0.05, 0.1 or 0.2)."""
    discount: float = 0.99
    """Discount factor gamma (Table 3)."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation (Table 3)."""
    value_coefficient: float = 0.5
    """Weight of the value loss (Table 3)."""
    max_grad_norm: float = 0.5
    """Maximum global gradient norm, applied to actor and critic separately (Table 3)."""

    def validate(self) -> None:
        """Raise ``InputError`` if a number is outside its range."""
        ranges = {
            "discount": (0.0, 1.0),
            "gae_lambda": (0.0, 1.0),
            "entropy_coefficient": (0.0, math.inf),
            "value_coefficient": (0.0, math.inf),
        }
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            low, high = ranges.get(f.name, (0.0, math.inf))
            # Nothing is learned with a learning rate, clip range or norm of exactly 0.
            is_open = f.name not in ranges
            if not math.isfinite(value) or not low <= value <= high or (is_open and value == low):
                limit = f"above {low:g}" if is_open else f"from {low:g} to {high:g}"
                raise InputError(f"`{f.name}` is {value:g}; it must be a number {limit}.")


def check_seed(seed: int) -> None:
    """Raise ``InputError`` for numbers that JAX would silently map to another seed."""
    if not isinstance(seed, Integral):
        raise InputError(f"`seed` is {seed!r}; it must be a whole number.")
    if not 0 <= seed < 2**32:
        raise InputError(f"`seed` is {seed}; it must be from 0 to {2**32 - 1}.")


@dataclass(frozen=True)
class RunConfig:
    """Complete configuration of a run: it determines the results on a given machine."""

    task: str
    objective: str = "mars"
    seed: int = 0
    steps: int = 2_000_000
    """Environment steps to train for, rounded down to whole updates."""
    num_evaluations: int = 40
    """Evenly spaced evaluations, in addition to the one before training."""
    anneal_learning_rates: bool = False
    """Anneal both learning rates linearly to 0 over the run. The budget of such a run cannot be
    raised later. The paper does not anneal."""
    objective_parameters: dict[str, float] = field(default_factory=dict)
    """The objective's own parameters. Defaults are filled in immediately, so that a run's record
    always holds the numbers that were used."""
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    shape: RunShape = field(default_factory=RunShape)

    def __post_init__(self) -> None:
        """Fill in the objective's defaults."""
        object.__setattr__(
            self,
            "objective_parameters",
            get_objective(self.objective).resolve(self.objective_parameters),
        )

    @property
    def num_updates(self) -> int:
        """Number of whole updates within the budget."""
        return self.steps // self.shape.steps_per_update

    @property
    def bounds(self) -> Bounds:
        """The two target ratios."""
        return get_objective(self.objective).bounds(**self.objective_parameters)

    def evaluation_updates(self) -> list[int]:
        """Updates after which to evaluate: 0, then evenly spaced up to the last one."""
        number, last = self.num_evaluations, self.num_updates
        if number >= last:  # evaluate after every update
            return list(range(last + 1))
        return [round(i * last / number) for i in range(number + 1)]

    def is_evaluation_due(self, update: int) -> bool:
        """Whether an evaluation follows this update. Takes constant time."""
        number, last = self.num_evaluations, self.num_updates
        nearest = update * number // last
        return update in (0, last) or any(
            update == round(i * last / number)
            for i in range(max(0, nearest - 1), min(number, nearest + 2) + 1)
        )

    def validate(self) -> None:
        """Raise ``InputError`` if any setting is invalid."""
        self.shape.validate()
        self.hyperparameters.validate()
        check_seed(self.seed)
        for name, high in (("steps", MAX_STEPS), ("num_evaluations", MAX_EVALUATIONS)):
            if not 1 <= getattr(self, name) <= high:
                raise InputError(
                    f"`{name}` is {getattr(self, name):,}; it must be from 1 to {high:,}."
                )
        if self.num_updates < 1:
            raise InputError(
                f"A budget of {self.steps:,} steps is smaller than one update, which takes "
                f"{self.shape.steps_per_update:,} ({self.shape.num_envs} environments x "
                f"{self.shape.rollout_length} steps). Raise `steps`, or lower `num_envs` or "
                f"`rollout_length`."
            )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Any, what: str = "The configuration") -> "RunConfig":
        """Read plain data written by this version or 0.1; raise ``InputError`` if invalid."""
        try:
            config = read_record(cls, _from_0_1(data), what)
            config.validate()
        except InputError as error:
            if what in str(error):
                raise
            raise InputError(f"{what}: {error}") from None
        return config


_DEFAULTS_OF_0_1 = {
    "epsilon": 0.2,
    "epsilon_lower": 0.2,
    "epsilon_upper": 0.2,
    "b_lower": 0.8,
    "b_upper": 1.2,
    "b": 1.2,
}


def _from_0_1(data: Any) -> Any:
    """Convert a record of version 0.1.

    It had a fixed table of trust-region parameters (null if not given: the default of that
    version), one hidden size for both networks, and a ``memory`` of 'gru' or 'none'.
    """
    if not isinstance(data, dict) or "trust_region" not in data:
        return data
    data = dict(data)
    region, shape = data.pop("trust_region"), data.get("shape")
    if isinstance(region, dict):
        given = {name: value for name, value in region.items() if value is not None}
        objective = OBJECTIVES.get(str(data.get("objective", "mars")))
        names = objective.defaults if objective else ()
        defaults = {name: _DEFAULTS_OF_0_1[name] for name in names if name in _DEFAULTS_OF_0_1}
        data["objective_parameters"] = {**defaults, **given}
    if isinstance(shape, dict):
        data["shape"] = shape = dict(shape)
        if "hidden_size" in shape:
            shape["actor_hidden_size"] = shape["critic_hidden_size"] = shape.pop("hidden_size")
        if "memory" in shape:
            shape["network"] = {"none": "feedforward"}.get(shape["memory"], shape.pop("memory"))
            shape.pop("memory", None)
    return data
