"""The definition of a search, and the state of its trials."""

import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from ratiosym.errors import InputError
from ratiosym.experiments.presets import change
from ratiosym.experiments.search_spaces import (
    SEEDS,
    Choices,
    Point,
    SearchKind,
    region_width,
    search_space,
)
from ratiosym.experiments.tuning.storage import hide_password
from ratiosym.learning.config import RunConfig

# All options are explicit, as Optuna's defaults change between versions.
SAMPLER = {
    "multivariate": False,
    "group": False,
    "constant_liar": True,
    "n_startup_trials": 10,
    "n_ei_candidates": 24,
}
# Median pruning after every seed, from the sixth complete trial on.
PRUNER = {"n_startup_trials": 5, "n_warmup_steps": 0, "interval_steps": 1, "n_min_trials": 1}

FINISHED = ("complete", "pruned", "diverged")


@dataclass(frozen=True)
class Search:
    """A search: its task, objective, trials, and the location of its files."""

    config: RunConfig  # task, objective, budget; trials replace the seed and what is searched
    num_trials: int
    out: Path
    seeds: tuple[int, ...] = SEEDS
    sampler_seed: int = 0
    # postgresql://..., or None for a journal file in ``out``
    storage: str | None = field(default=None, repr=False)
    name: str = ""  # of the study in the storage
    track: tuple[str, ...] = ()  # trackers of every seed's evaluations
    kind: SearchKind = "paper"
    # The points to try, one per trial and without pruning. If empty, Optuna's sampler chooses and
    # trials are pruned.
    grid: tuple[Point, ...] = ()
    final_steps: int | None = None  # of a run with the result; by default twice a seed's

    @property
    def space(self) -> dict[str, Choices]:
        """Values to search, by option name."""
        space = search_space(self.config.objective, self.kind)
        if not self.grid:
            return space
        return {name: tuple(sorted({point[name] for point in self.grid})) for name in space}

    @property
    def study_name(self) -> str:
        """Name of the study in the storage."""
        return self.name or f"{self.config.task}/{self.config.objective}"

    @property
    def address(self) -> str:
        """Location of the study without a password, for messages and files."""
        return "journal.log" if self.storage is None else hide_password(self.storage)

    def trial_config(self, params: dict[str, Any], seed: int) -> RunConfig:
        """Return the configuration of one seed of a trial."""
        return change(self.config, **params, seed=seed)

    def settings(self) -> dict[str, Any]:
        """Return everything that a trial's value depends on, which all workers must share."""
        searched = (*self.space, "seed")
        fixed = {k: v for k, v in flatten(self.config).items() if k not in searched}
        data: dict[str, Any] = {"run": fixed, "space": self.space, "seeds": self.seeds}
        if self.grid:
            data["grid"] = self.grid
        else:
            data["sampler"] = {"name": "TPESampler", "seed": self.sampler_seed, **SAMPLER}
            data["pruner"] = {"name": "MedianPruner", **PRUNER}
        return json.loads(json.dumps(data))

    def validate(self) -> None:
        """Raise ``InputError`` if some trial could not run."""
        if self.num_trials < 1:
            raise InputError(f"`num_trials` is {self.num_trials}; it must be at least 1.")
        if not self.seeds:
            raise InputError("`seeds` is empty; a trial needs at least one seed.")
        if self.sampler_seed < 0:
            raise InputError(f"`sampler_seed` is {self.sampler_seed}; it must be at least 0.")
        if self.grid and self.num_trials != len(self.grid):
            raise InputError(
                f"`num_trials` is {self.num_trials}, but the grid has {len(self.grid)} points, all "
                f"of which are tried."
            )
        if "num_minibatches" in self.space:
            self.check_minibatches(self.space["num_minibatches"])
        points = self.grid or [{name: choices[0] for name, choices in self.space.items()}]
        for point, seed in product(points, self.seeds):
            self.trial_config(point, seed).validate()

    def check_minibatches(self, numbers: Choices) -> None:
        """Raise unless every number of minibatches divides a group."""
        shape, most = self.config.shape, max(numbers)
        if shape.num_envs % shape.update_batch_size == 0 and shape.sequences_per_group % most:
            what = "environments" if shape.is_recurrent else "steps"
            raise InputError(
                f"The search tries up to {most} minibatches (Table 2), but "
                f"{shape.sequences_per_group} {what} per group ({shape.num_envs} environments in "
                f"{shape.update_batch_size} groups) cannot be split into as many. Make `num_envs` "
                f"a multiple of {most * shape.update_batch_size}."
            )


def flatten(config: RunConfig) -> dict[str, Any]:
    """Flatten a configuration and its parts."""
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


def best_of(rows: list[TrialRow], objective: str) -> TrialRow | None:
    """Return the best complete trial; among equals, the one with the narrowest trust region, then
    the earliest.
    """

    def quality(row: TrialRow) -> tuple[float, float]:
        assert row.value is not None
        return row.value, -region_width(objective, row.params)

    complete = [row for row in rows if row.state == "complete"]
    return max(complete, key=quality, default=None)
