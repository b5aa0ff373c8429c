"""What a search is, and the state of its trials."""

import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from ratiosym.errors import InputError
from ratiosym.experiments.presets import change
from ratiosym.experiments.search_spaces import Choices, search_space
from ratiosym.experiments.tuning.storage import hide_password
from ratiosym.learning.config import RunConfig

# Five fixed seeds. Final runs have seeds 0, 1, ..., so none of them is tuned on (Decision 66).
SEEDS = tuple(range(1000, 1005))
# Every flag by name, since Optuna's defaults change between versions (Decision 65).
SAMPLER = {
    "multivariate": False,
    "group": False,
    "constant_liar": True,
    "n_startup_trials": 10,
    "n_ei_candidates": 24,
}
# The median rule after every seed, from the sixth complete trial on (Decision 68).
PRUNER = {"n_startup_trials": 5, "n_warmup_steps": 0, "interval_steps": 1, "n_min_trials": 1}

FINISHED = ("complete", "pruned", "diverged")


@dataclass(frozen=True)
class Search:
    """A search: what is tried, on which task, and where its files go."""

    config: RunConfig  # task, objective, budget; a trial replaces what is searched, and the seed
    num_trials: int
    out: Path
    seeds: tuple[int, ...] = SEEDS
    sampler_seed: int = 0
    # postgresql://..., or None for a journal file in ``out``
    storage: str | None = field(default=None, repr=False)
    name: str = ""  # of the study in the storage
    track: tuple[str, ...] = ()  # trackers of every seed's evaluations

    @property
    def space(self) -> dict[str, Choices]:
        """What is searched."""
        return search_space(self.config.objective)

    @property
    def study_name(self) -> str:
        """Its name in the storage."""
        return self.name or f"{self.config.task}/{self.config.objective}"

    @property
    def address(self) -> str:
        """Where the study is stored, without a password: for messages and files."""
        return "journal.log" if self.storage is None else hide_password(self.storage)

    def trial_config(self, params: dict[str, Any], seed: int) -> RunConfig:
        """The run of one seed of a trial."""
        return change(self.config, **params, seed=seed)

    def settings(self) -> dict[str, Any]:
        """Everything that a trial's value depends on, as plain data. All workers of a search must
        agree on it.
        """
        searched = (*self.space, "seed")
        fixed = {k: v for k, v in flatten(self.config).items() if k not in searched}
        data = {
            "run": fixed,
            "space": self.space,
            "seeds": self.seeds,
            "sampler": {"name": "TPESampler", "seed": self.sampler_seed, **SAMPLER},
            "pruner": {"name": "MedianPruner", **PRUNER},
        }
        return json.loads(json.dumps(data))

    def validate(self) -> None:
        """Raise InputError where a trial could not run."""
        if self.num_trials < 1:
            raise InputError(f"`num_trials` is {self.num_trials}; it must be at least 1.")
        if not self.seeds:
            raise InputError("`seeds` is empty; a trial needs at least one seed.")
        shape, most = self.config.shape, max(self.space["num_minibatches"])
        if shape.num_envs % shape.update_batch_size == 0 and shape.sequences_per_group % most:
            what = "environments" if shape.is_recurrent else "steps"
            raise InputError(
                f"The search tries up to {most} minibatches (Table 2), which do not divide the "
                f"{shape.sequences_per_group} {what} of a group ({shape.num_envs} environments in "
                f"{shape.update_batch_size} groups). Choose `num_envs` as a multiple of "
                f"{most * shape.update_batch_size}."
            )
        sizes = product(self.space["num_minibatches"], self.seeds)
        for num_minibatches, seed in sizes:
            params = {name: choices[0] for name, choices in self.space.items()}
            self.trial_config({**params, "num_minibatches": num_minibatches}, seed).validate()


def flatten(config: RunConfig) -> dict[str, Any]:
    """A configuration and its parts as one table."""
    data = config.to_dict()
    parts = [data.pop(name) for name in ("objective_parameters", "hyperparameters", "shape")]
    return {**data, **{name: value for part in parts for name, value in part.items()}}


@dataclass(frozen=True)
class TrialRow:
    """The state of one trial."""

    number: int
    state: str  # waiting, running, complete, pruned or diverged
    value: float | None  # of a complete one
    params: dict[str, Any]
    seeds: dict[str, float]  # values of finished seeds


def best_of(rows: list[TrialRow]) -> TrialRow | None:
    """The best complete trial; the earlier one if two are equal."""
    complete = [row for row in rows if row.state == "complete"]
    return max(complete, key=lambda row: row.value, default=None)  # type: ignore[arg-type, return-value]
