"""Searching for hyperparameters: Optuna's TPE, seeds one after another with pruning checks between
them.

search.json             what is searched, and with which settings
journal.log             the Optuna study, unless a database holds it
trials/0007/seed-1000/  one seed of a trial: config.json, evaluations.csv, and summary.json when it
                        has finished
work/                   locks and logs of worker processes
trials.csv              the outcome: every trial,
best.json               the settings of the best one (``ratiosym train --config`` takes them),
importance.json         and how much each hyperparameter mattered

A search of N trials numbers them 0 to N - 1 and queues all of them at the start. A worker claims
the lowest number that is waiting; a trial whose worker died is queued again with its parameters and
finished seeds. So there are never more or fewer than N trials, however many workers come and go
(Decision 67).
"""

from ratiosym.experiments.tuning.outcome import Outcome
from ratiosym.experiments.tuning.run import tune
from ratiosym.experiments.tuning.search import SEEDS, Search, TrialRow, best_of

__all__ = ["SEEDS", "Outcome", "Search", "TrialRow", "best_of", "tune"]
