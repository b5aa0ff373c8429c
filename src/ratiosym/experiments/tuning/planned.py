"""The searches of a plan."""

import dataclasses
from pathlib import Path
from typing import Any

from ratiosym.experiments.plans import Plan, Tuning
from ratiosym.experiments.presets import change
from ratiosym.experiments.settings import Pair
from ratiosym.experiments.tuning.search import Search


def planned_searches(
    plan: Plan,
    tuning: Tuning,
    tree: Path,
    name: str = "",
    options: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[Pair, Search]:
    """Return one search for every task and algorithm, in TREE/TASK/LABEL.

    ``options`` override settings of the trials' runs, ``fields`` are fields of ``Search``, and
    ``name`` is the prefix of the searches' names in a database.
    """
    found = {}
    algorithms = {algorithm.label: algorithm for algorithm in plan.algorithms}
    for pair in plan.pairs():
        algorithm = algorithms[pair.label]
        search = Search(
            change(plan.tuning_config(algorithm, pair.task), **(options or {})),
            tuning.num_trials(algorithm),
            tree / pair.place,
            tuning.seeds,
            tuning.sampler_seed,
            name="/".join(filter(None, (name, *pair.place.parts))),
            kind=tuning.search,
            grid=tuning.points(algorithm),
            # Other lengths of a trial on the command line keep the paper's rule.
            final_steps=plan.config(algorithm, pair.task, 0).steps if not options else None,
        )
        found[pair] = dataclasses.replace(search, **fields)
    return found
