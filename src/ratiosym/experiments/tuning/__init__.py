"""Hyperparameter search: Optuna's TPE with pruning between seeds, or a grid without pruning.

search.json             the search space and settings
journal.log             the Optuna study, unless it is in a database
trials/0007/seed-1000/  one seed of a trial: config.json, evaluations.csv, and summary.json when it
                        has finished
work/                   locks, logs and progress of worker processes
trials.csv              results: every trial,
best.json               the settings of the best one (for ``ratiosym train --config``),
importance.json         and the importance of each hyperparameter

A search of N trials numbers them 0 to N - 1 and queues all of them at the start. A worker claims
the lowest waiting number. A trial whose worker died is queued again with its parameters and
finished seeds. So there are exactly N trials, however many workers come and go.
"""

from ratiosym.experiments.search_spaces import SEEDS
from ratiosym.experiments.tuning.outcome import Outcome
from ratiosym.experiments.tuning.planned import planned_searches
from ratiosym.experiments.tuning.run import tune, tune_all
from ratiosym.experiments.tuning.search import Search, TrialRow, best_of
from ratiosym.experiments.tuning.status import SearchStatus, search_status

__all__ = [
    "SEEDS",
    "Outcome",
    "Search",
    "SearchStatus",
    "TrialRow",
    "best_of",
    "planned_searches",
    "search_status",
    "tune",
    "tune_all",
]
