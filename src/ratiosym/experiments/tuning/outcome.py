"""The results of a search and their files."""

import csv
import dataclasses
import io
from dataclasses import dataclass
from typing import Any

from ratiosym.experiments.tuning.importance import TARGET_QUANTILE
from ratiosym.experiments.tuning.search import FINISHED, Search, TrialRow, best_of
from ratiosym.runs import files


@dataclass(frozen=True)
class Outcome:
    """Results of a finished search."""

    search: Search
    rows: list[TrialRow]
    importance: dict[str, float]  # main effects; empty with too few trials
    ped_anova: dict[str, float]  # likewise

    @property
    def best(self) -> TrialRow | None:
        """Best complete trial."""
        return best_of(self.rows, self.search.config.objective)


def write_outcome(outcome: Outcome, origin: dict[str, Any]) -> None:
    """Write ``trials.csv``, ``best.json`` if a trial was completed, and ``importance.json``, which
    marks the end of the search.
    """
    search = outcome.search
    write_trials(search, outcome.rows)
    write_best(outcome, origin)
    measures = {"main_effects": outcome.importance, "ped_anova": outcome.ped_anova}
    files.write_json(
        search.out / "importance.json", {**measures, "ped_anova_target_quantile": TARGET_QUANTILE}
    )


def write_best(outcome: Outcome, origin: dict[str, Any]) -> None:
    """Write the best trial as a complete configuration, if there is one."""
    search, rows, best = outcome.search, outcome.rows, outcome.best
    if best is None:
        return
    config = search.trial_config(best.params, seed=0)
    final_steps = search.final_steps or 2 * config.steps
    details = {
        # As long as the plan's runs; otherwise twice as long as the search's, as in the paper.
        "config": dataclasses.replace(config, steps=final_steps).to_dict(),
        "params": best.params,
        "value": best.value,
        "trial": best.number,
        "trials": {state: sum(row.state == state for row in rows) for state in FINISHED},
        "steps": config.steps,
        "seeds": best.seeds,
    }
    files.write_json(search.out / "best.json", {**details, **origin})


def write_trials(search: Search, rows: list[TrialRow]) -> None:
    """Write one line per trial: number, state, value, parameters, value of each seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["trial", "state", "value", *search.space, *(f"seed-{seed}" for seed in search.seeds)]
    )
    for row in rows:
        params = [row.params.get(name, "") for name in search.space]
        seeds = [row.seeds.get(str(seed), "") for seed in search.seeds]
        value = "" if row.value is None else row.value
        writer.writerow([row.number, row.state, value, *params, *seeds])
    files.write_whole(search.out / "trials.csv", text.getvalue())
