"""The Optuna study of a search: its trials, their assignment to workers, and their results."""

from contextlib import ExitStack
from time import sleep
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from ratiosym.errors import InputError
from ratiosym.experiments.tuning.search import FINISHED, PRUNER, SAMPLER, Search, TrialRow
from ratiosym.experiments.tuning.storage import (
    NUMBER,
    JournalFile,
    PostgresDatabase,
    StudyStorage,
)

POLL_SECONDS = 1.0


class TrialQueue:
    """The trials of a search, shared by any number of processes."""

    def __init__(self, search: Search) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.search = search
        self.home: StudyStorage = (
            JournalFile(search.out)
            if search.storage is None
            else PostgresDatabase(search.storage, search.study_name)
        )
        self.distributions = {
            name: optuna.distributions.CategoricalDistribution(choices)
            for name, choices in search.space.items()
        }
        with self.home.exclusive():
            named = {"study_name": search.study_name, "storage": self.home.storage}
            try:
                self.study = optuna.load_study(**named)
            except KeyError:
                self.study = optuna.create_study(**named, direction="maximize")
            self.check_settings()
            self.fill()

    def check_settings(self) -> None:
        """Raise unless the study belongs to this search."""
        there, here = self.study.user_attrs.get("settings"), self.search.settings()
        if there is None:
            self.study.set_user_attr("settings", here)
        elif there != here:
            is_journal = self.search.storage is None
            where = self.search.out if is_journal else self.search.address
            raise InputError(
                f"The search '{self.search.study_name}' in '{where}' has other settings "
                f"({describe_differences(there, here)}). Use the same ones to resume it, or "
                f"choose another {'`out`' if is_journal else '`name`'}; nothing was changed."
            )

    def check_number(self) -> None:
        """Raise if the search has more trials than requested."""
        number = len(self.rows())
        if number > self.search.num_trials:
            raise InputError(
                f"The search '{self.search.study_name}' already has {number} trials, but "
                f"`num_trials` is {self.search.num_trials}. It can be raised, but not lowered; "
                f"nothing was changed."
            )

    def trials(self) -> list[FrozenTrial]:
        """All of Optuna's trials, including failed ones."""
        return self.study.get_trials(deepcopy=False)

    def rows(self) -> list[TrialRow]:
        """The state of every trial."""
        newest: dict[int, FrozenTrial] = {}
        for trial in self.trials():  # the last trial of a number counts
            newest[trial.user_attrs[NUMBER]] = trial
        return [make_row(number, newest[number]) for number in sorted(newest)]

    def is_finished(self) -> bool:
        """Whether nothing is left to run."""
        return all(row.state in FINISHED for row in self.rows())

    def fill(self) -> None:
        """Queue every trial that no worker has, keeping the results of dead workers.

        Called within ``exclusive``.
        """
        self.home.fail_abandoned(self.study)
        found: dict[int, list[FrozenTrial]] = {}
        for trial in self.trials():
            found.setdefault(trial.user_attrs[NUMBER], []).append(trial)
        for number in range(max(self.search.num_trials, len(found))):
            last = found.get(number, [None])[-1]
            if last is None or last.state == TrialState.FAIL:
                self.study.add_trial(self.make_waiting(number, last))

    def make_waiting(self, number: int, last: FrozenTrial | None) -> FrozenTrial:
        """Create a waiting trial with the parameters and seeds of an interrupted one."""
        grid = self.search.grid
        params = grid[number] if grid else last.params if last is not None else {}
        is_known = params.keys() == self.distributions.keys()
        seeds = last.user_attrs.get("seeds", {}) if last and is_known else {}
        return optuna.trial.create_trial(
            state=TrialState.WAITING,
            params=params if is_known else None,
            distributions=self.distributions if is_known else None,
            user_attrs={NUMBER: number, "seeds": seeds},
        )

    def has_waiting(self) -> bool:
        """Whether some trial waits for a worker."""
        with self.home.exclusive():
            self.fill()
        return any(trial.state == TrialState.WAITING for trial in self.trials())

    def claim(self, held: ExitStack, is_patient: bool = True) -> Any:
        """Claim a trial until ``held`` closes; None when all are finished.

        A patient worker waits for the others, which may die and leave their trials to it.
        """
        while True:
            with self.home.exclusive():
                self.fill()
                waiting = [t for t in self.trials() if t.state == TrialState.WAITING]
                if waiting:
                    return self.start(min(waiting, key=lambda t: t.user_attrs[NUMBER]), held)
            if not is_patient or self.is_finished():
                return None
            sleep(POLL_SECONDS)

    def start(self, waiting: FrozenTrial, held: ExitStack) -> Any:
        """Take over a waiting trial and sample its parameters."""
        number = waiting.user_attrs[NUMBER]
        held.enter_context(self.home.hold(waiting._trial_id, number))
        self.home.storage.set_trial_state_values(waiting._trial_id, TrialState.RUNNING)
        # A trial's random numbers depend only on the search's seed and the trial's number, not on
        # when or by which worker it is run.
        seed = int(np.random.SeedSequence((self.search.sampler_seed, number)).generate_state(1)[0])
        study = optuna.load_study(
            study_name=self.search.study_name,
            storage=self.home.storage,
            sampler=optuna.samplers.TPESampler(seed=seed, **SAMPLER),
            pruner=(
                optuna.pruners.NopPruner()
                if self.search.grid
                else optuna.pruners.MedianPruner(**PRUNER)
            ),
        )
        trial = optuna.trial.Trial(study, waiting._trial_id)
        for name, choices in self.search.space.items():
            trial.suggest_categorical(name, choices)
        return trial

    def known_seeds(self, params: dict[str, Any]) -> dict[str, float]:
        """Return the values of seeds that other trials have finished with these parameters.

        Running them again would give the same values.
        """
        same = [t.user_attrs.get("seeds", {}) for t in self.trials() if t.params == params]
        return {seed: value for seeds in same for seed, value in seeds.items()}

    def finish(self, trial: Any, state: TrialState, value: float | None = None) -> None:
        """End a trial; raise if it has been given to another worker in the meantime."""
        values = None if value is None else [value]
        self.home.storage.set_trial_state_values(trial._trial_id, state, values)


def make_row(number: int, trial: FrozenTrial) -> TrialRow:
    """Return the state of one trial."""
    names = {
        TrialState.FAIL: "waiting",
        TrialState.PRUNED: "diverged" if has_diverged(trial) else "pruned",
    }
    state = names.get(trial.state, trial.state.name.lower())
    value = trial.value if trial.state == TrialState.COMPLETE else None
    seeds = dict(trial.user_attrs.get("seeds", {}))
    return TrialRow(number, state, value, dict(trial.params), seeds)


def has_diverged(trial: FrozenTrial) -> bool:
    """Whether the training of one of its seeds diverged."""
    return "failure" in trial.user_attrs


def describe_differences(there: Any, here: Any, path: str = "") -> str:
    """Describe the differences between two settings."""
    if isinstance(there, dict) and isinstance(here, dict):
        names = sorted(there.keys() | here.keys())
        found = [
            describe_differences(there.get(n), here.get(n), f"{path} {n}".strip()) for n in names
        ]
        return "; ".join(words for words in found if words)
    return "" if there == here else f"{path}: {there} there, {here} here"
