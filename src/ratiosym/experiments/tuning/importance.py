"""Importance of hyperparameters in a search."""

import numpy as np
import optuna

from ratiosym.experiments.search_spaces import Choices
from ratiosym.experiments.tuning.search import FINISHED, TrialRow
from ratiosym.experiments.tuning.storage import quietly
from ratiosym.experiments.tuning.trials import TrialQueue

TARGET_QUANTILE = 0.25  # of PED-ANOVA
FEWEST = 8  # minimum number of trials for a rough estimate


def main_effects(rows: list[TrialRow], space: dict[str, Choices]) -> dict[str, float]:
    """Return the fraction of the variation between trials that each hyperparameter explains.

    Fits an additive model, value = sum over hyperparameters of effect(choice), by ridge regression
    to all trials with a finished seed, without duplicates. The importance of a hyperparameter is
    the variance of its effects over its choices. If a single hyperparameter determines nearly
    everything, this finds it with 40 trials, whereas PED-ANOVA does not
    (docs/paper/decisions.md, 71).
    """
    distinct = {
        tuple(row.params.values()): row for row in rows if row.seeds and row.state in FINISHED
    }.values()
    values = np.array([np.mean(list(row.seeds.values())) for row in distinct])
    if len(values) < FEWEST or values.std() == 0:
        return {}
    tried = {name: sorted({row.params[name] for row in distinct}) for name in space}
    columns = [(name, choice) for name, choices in tried.items() for choice in choices]
    x = np.array(
        [[float(row.params[name] == choice) for name, choice in columns] for row in distinct]
    )
    x, y = x - x.mean(axis=0), (values - values.mean()) / values.std()
    effects = np.linalg.solve(x.T @ x + np.eye(len(columns)), x.T @ y)
    spread = {
        n: float(np.var([e for e, (name, _) in zip(effects, columns, strict=True) if name == n]))
        for n in space
    }
    total = sum(spread.values())
    return {name: spread[name] / total for name in sorted(space, key=lambda n: -spread[n])}


def ped_anova(queue: TrialQueue) -> dict[str, float]:
    """Return PED-ANOVA importances: what distinguishes the best quarter of the complete trials.

    It is Optuna's only measure that needs no further library.
    """
    if sum(row.state == "complete" for row in queue.rows()) < FEWEST:
        return {}
    with quietly():
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=TARGET_QUANTILE)
        return dict(optuna.importance.get_param_importances(queue.study, evaluator=evaluator))
