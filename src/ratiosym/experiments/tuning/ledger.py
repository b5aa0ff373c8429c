"""The Optuna study of a search: its N places, who may run which, and what has come of them."""

from contextlib import ExitStack
from time import sleep
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from ratiosym.errors import InputError
from ratiosym.experiments.tuning.search import FINISHED, PRUNER, SAMPLER, Search, TrialRow
from ratiosym.experiments.tuning.storage import Database, Home, Journal

POLL_SECONDS = 1.0


class Ledger:
    """The study of a search: its N places, who may run which, and what has come of them."""

    def __init__(self, search: Search) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.search = search
        self.home: Home = (
            Journal(search.out)
            if search.storage is None
            else Database(search.storage, search.study_name)
        )
        self.distributions = {
            name: optuna.distributions.CategoricalDistribution(choices)
            for name, choices in search.space.items()
        }
        with self.home.claiming():
            named = {"study_name": search.study_name, "storage": self.home.storage}
            try:
                self.study = optuna.load_study(**named)
            except KeyError:
                self.study = optuna.create_study(**named, direction="maximize")
            self.check_settings()
            self.queue()

    def check_settings(self) -> None:
        """A study belongs to one search."""
        there, here = self.study.user_attrs.get("settings"), self.search.settings()
        if there is None:
            self.study.set_user_attr("settings", here)
        elif there != here:
            different = describe_differences(there, here)
            where = (
                f"in '{self.search.out}'"
                if self.search.storage is None
                else f"in '{self.search.address}'"
            )
            other = "--out" if self.search.storage is None else "--name"
            raise InputError(
                f"The search '{self.search.study_name}' {where} has other settings ({different}). "
                f"Give the same ones "
                f"to go on with it, or choose another {other}; nothing was changed."
            )

    def check_number(self) -> None:
        """A search can be made longer, not shorter."""
        number = len(self.rows())
        if number > self.search.num_trials:
            raise InputError(
                f"The search '{self.search.study_name}' has {number} trials already, but --trials "
                f"is "
                f"{self.search.num_trials}. It may raise their number, not lower it; nothing was "
                f"changed."
            )

    def trials(self) -> list[FrozenTrial]:
        """All of Optuna's trials, failed ones too."""
        return self.study.get_trials(deepcopy=False)

    def rows(self) -> list[TrialRow]:
        """The places and where they stand."""
        places: dict[int, FrozenTrial] = {}
        for trial in self.trials():  # a place's last trial is the one that counts
            places[trial.user_attrs["place"]] = trial
        return [self.row(number, places[number]) for number in sorted(places)]

    def row(self, number: int, trial: FrozenTrial) -> TrialRow:
        """One place."""
        names = {
            TrialState.FAIL: "waiting",
            TrialState.PRUNED: "diverged" if is_diverged(trial) else "pruned",
        }
        state = names.get(trial.state, trial.state.name.lower())
        value = trial.value if trial.state == TrialState.COMPLETE else None
        return TrialRow(
            number, state, value, dict(trial.params), dict(trial.user_attrs.get("seeds", {}))
        )

    def queue(self) -> None:
        """Queue every place that nobody has; those whose worker died with what they have. Called
        while claiming.
        """
        self.home.fail_dead(self.study)
        found: dict[int, list[FrozenTrial]] = {}
        for trial in self.trials():
            found.setdefault(trial.user_attrs["place"], []).append(trial)
        for place in range(max(self.search.num_trials, len(found))):
            last = found.get(place, [None])[-1]
            if last is None or last.state == TrialState.FAIL:
                self.study.add_trial(self.waiting(place, last))

    def waiting(self, place: int, last: FrozenTrial | None) -> FrozenTrial:
        """A trial that waits for a worker; with what an interrupted one of its place had."""
        is_known = last is not None and last.params.keys() == self.distributions.keys()
        return optuna.trial.create_trial(
            state=TrialState.WAITING,
            params=last.params if last and is_known else None,
            distributions=self.distributions if is_known else None,
            user_attrs={
                "place": place,
                "seeds": last.user_attrs.get("seeds", {}) if last and is_known else {},
            },
        )

    def claim(self, held: ExitStack) -> Any:
        """A trial to run, held until ``held`` closes; None when all places are finished. Waits for
        other workers.
        """
        while True:
            with self.home.claiming():
                self.queue()
                waiting = [t for t in self.trials() if t.state == TrialState.WAITING]
                if waiting:
                    return self.begin(min(waiting, key=lambda t: t.user_attrs["place"]), held)
            if all(row.state in FINISHED for row in self.rows()):
                return None
            sleep(POLL_SECONDS)  # another worker may die and leave its trial to this one

    def begin(self, waiting: FrozenTrial, held: ExitStack) -> Any:
        """Make a waiting trial this worker's and draw its parameters."""
        place = waiting.user_attrs["place"]
        held.enter_context(self.home.hold(waiting._trial_id, place))
        self.home.storage.set_trial_state_values(waiting._trial_id, TrialState.RUNNING)
        # A place's random numbers depend on the search's seed and the place alone, whoever runs it
        # and when.
        seed = int(np.random.SeedSequence((self.search.sampler_seed, place)).generate_state(1)[0])
        study = optuna.load_study(
            study_name=self.search.study_name,
            storage=self.home.storage,
            sampler=optuna.samplers.TPESampler(seed=seed, **SAMPLER),
            pruner=optuna.pruners.MedianPruner(**PRUNER),
        )
        trial = optuna.trial.Trial(study, waiting._trial_id)
        for name, choices in self.search.space.items():
            trial.suggest_categorical(name, choices)
        return trial

    def known_seeds(self, params: dict[str, Any]) -> dict[str, float]:
        """Seeds that other trials have finished with these parameters: they would come out the same
        (Decision 69).
        """
        same = [t.user_attrs.get("seeds", {}) for t in self.trials() if t.params == params]
        return {seed: value for seeds in same for seed, value in seeds.items()}

    def finish(self, trial: Any, state: TrialState, value: float | None = None) -> None:
        """Settle a trial, once: this fails where another worker has been given it."""
        values = None if value is None else [value]
        self.home.storage.set_trial_state_values(trial._trial_id, state, values)


def is_diverged(trial: FrozenTrial) -> bool:
    """Whether its training broke down."""
    return "failure" in trial.user_attrs


def describe_differences(there: Any, here: Any, path: str = "") -> str:
    """Where two settings differ, in words."""
    if isinstance(there, dict) and isinstance(here, dict):
        names = sorted(there.keys() | here.keys())
        found = [
            describe_differences(there.get(n), here.get(n), f"{path} {n}".strip()) for n in names
        ]
        return "; ".join(words for words in found if words)
    return "" if there == here else f"{path}: {there} there, {here} here"
