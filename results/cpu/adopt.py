"""Turn the records of the search (``search-TASK/``) into searches of ``ratiosym reproduce cpu``.

    python results/cpu/adopt.py studies/cpu         # from results/cpu/search-*
    ratiosym reproduce cpu --out studies/cpu        # resumes: these seeds are not trained again

The plan ``cpu`` searches what these studies ran, point by point: their runs become seeds of its
trials. A run is taken only if its configuration is the one of the trial.
"""

import shutil
import sys
from pathlib import Path

from ratiosym.experiments.plans import Plan, read_plan
from ratiosym.experiments.reproduce import find_searches
from ratiosym.experiments.study import begin_study
from ratiosym.experiments.tuning import Search
from ratiosym.experiments.tuning.run import begin_directory
from ratiosym.experiments.tuning.seeds import final_return
from ratiosym.experiments.tuning.storage import trial_directory
from ratiosym.learning.config import RunConfig
from ratiosym.runs.directory import read_config
from ratiosym.runs.files import read_json, write_json
from ratiosym.runs.tables import read_table


def adopt(records: Path, directory: Path, plan: Plan) -> int:
    """Copy finished runs into the searches of an experiment; return how many."""
    runs = {}
    for summary in records.glob("search-*/runs/*/*/seed-*/summary.json"):
        config = read_config(summary.parent)
        runs[key(config)] = (config, summary.parent)
    begin_study(plan, directory)
    return sum(adopt_search(search, runs) for search in find_searches(plan, directory).values())


def adopt_search(search: Search, runs: dict[str, tuple[RunConfig, Path]]) -> int:
    """Copy the runs of one search."""
    begin_directory(search)
    number = 0
    for trial, point in enumerate(search.grid):
        for seed in search.seeds:
            config = search.trial_config(point, seed)
            found, run = runs.get(key(config), (None, None))
            if run is None or found != config:
                continue
            place = trial_directory(search.out, trial) / f"seed-{seed}"
            place.mkdir(parents=True, exist_ok=True)
            table = read_table(run / "evaluations.csv")
            rows = [{"mean_return": float(value)} for value in table["mean_return"]]
            shutil.copy(run / "evaluations.csv", place)
            write_json(place / "config.json", {"config": config.to_dict()})
            commit = read_json(run / "config.json").get("commit")
            summary = {"value": final_return(rows), "run": str(run), "commit": commit}
            write_json(place / "summary.json", summary)
            number += 1
    return number


def key(config: RunConfig) -> str:
    """Identify a configuration."""
    return str(config.to_dict())


if __name__ == "__main__":
    total = adopt(Path(__file__).parent, Path(sys.argv[1]), read_plan("cpu"))
    print(f"{total} runs adopted; resume with: ratiosym reproduce cpu --out {sys.argv[1]}")
