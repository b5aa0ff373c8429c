"""The settings of every algorithm on every task, and their sources."""

from collections.abc import Sequence
from typing import Any

from ratiosym.report.analysis import Analysis
from ratiosym.report.response import bounds_of
from ratiosym.report.results import RunResult, Study
from ratiosym.report.tables import Cell, Row, Table, text_cell

# Columns: what the paper tunes, and what determines the cost of a run. The rest is in config.json.
COLUMNS = {
    "algorithm": "Algorithm",
    "targets": "Target ratios",
    "actor_learning_rate": "Actor rate",
    "critic_learning_rate": "Critic rate",
    "entropy_coefficient": "Entropy",
    "value_clip": "Value clip",
    "num_epochs": "Epochs",
    "num_minibatches": "Mini\u00adbatches",
    "num_envs": "Envs",
    "steps": "Steps",
    "source": "Settings from",
}


def settings_table(analysis: Analysis) -> Table:
    """Return a table with one row per task and algorithm, from the configurations of the runs."""
    results = analysis.results
    rows = []
    for task in analysis.tasks.values():
        for label, title in analysis.titles.items():
            runs = results.of(task.name, label)
            if runs:
                cells = (
                    text_cell(title),
                    *run_cells(runs),
                    text_cell(source(results.studies, runs[0])),
                )
                rows.append(Row(task.name, task.suite, cells, label))
    about = (
        "The trust region (the two target ratios) and the main settings of every algorithm, from "
        "the configurations of its runs. Everything else is in each run's config.json."
    )
    return Table("settings", "Settings and trust regions", about, "Task", COLUMNS, tuple(rows))


def run_cells(runs: Sequence[RunResult]) -> list[Cell]:
    """Return target ratios and settings, with all values if runs of an algorithm differ."""
    targets = dict.fromkeys(f"{b.lower:.3g} to {b.upper:.3g}" for b in map(bounds_of, runs))
    flat = [flatten(run.config.to_dict()) for run in runs]
    names = [name for name in COLUMNS if name not in ("algorithm", "targets", "source")]
    return [
        text_cell(", ".join(targets)),
        *(setting_cell([x[name] for x in flat]) for name in names),
    ]


def flatten(config: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration and of its parts, by name."""
    return {**config, **config["hyperparameters"], **config["shape"]}


def setting_cell(values: Sequence[float]) -> Cell:
    """Return a cell with one value, or with all if runs differ."""
    different = list(dict.fromkeys(values))
    texts = [f"{x:,}" if isinstance(x, int) else f"{x:g}" for x in different]
    return Cell(", ".join(texts), value=float(different[0]))


def source(studies: Sequence[Study], run: RunResult) -> str:
    """Return the source of a run's settings."""
    (study,) = [study for study in studies if study.directory == run.study]
    found = study.settings.get(run.task, {}).get(run.label)
    if found:
        num = sum(found["trials"].values())
        return f"search of {num} trials ({found['search']}), value {found['value']:.4g}"
    if run.label in study.plan.settings.get(run.task, {}):
        return "searches given by --tuned"
    if study.plan.tuned:
        return "settings shipped with the package"
    return f"plan {study.plan.name}"
