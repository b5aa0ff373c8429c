"""Searching hyperparameters: Optuna's TPE, seeds one after another with pruning checks between
them.

search.json             what is searched, and with what
journal.log             the Optuna study, unless a database holds it
trials/0007/seed-1000/  one seed of a trial: config.json, evaluations.csv, and summary.json when it
has finished
trials.csv              what came out: every trial,
best.json               the best one's settings (``ratiosym train --config`` takes them),
importance.json         and how much each hyperparameter mattered

A search of N trials has the places 0 to N - 1, all queued at the start. A worker claims the lowest
one that waits; a place whose worker died is queued again with its parameters and finished seeds. So
there are never more or fewer than N trials, however many workers come and go (Decision 67).
"""

from ratiosym.experiments.tuning.outcome import Outcome, local_workers, ray_workers, tune
from ratiosym.experiments.tuning.search import SEEDS, Search, TrialRow, best_of
from ratiosym.experiments.tuning.workers import default_workers

__all__ = [
    "SEEDS",
    "Outcome",
    "Search",
    "TrialRow",
    "best_of",
    "default_workers",
    "local_workers",
    "ray_workers",
    "tune",
]
