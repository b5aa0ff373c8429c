"""The progress of a search, determined from its files alone."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from ratiosym.errors import InputError
from ratiosym.experiments.jobs.job import is_locked
from ratiosym.experiments.settings import Pair
from ratiosym.experiments.tuning.search import FINISHED, Search, TrialRow, best_of
from ratiosym.runs import files

SearchState = Literal["done", "running", "interrupted", "missing"]


@dataclass(frozen=True)
class SearchStatus:
    """State of one search of a plan."""

    pair: Pair
    num_trials: int
    num_seeds: int  # of a trial
    state: SearchState
    trials: int = 0  # finished ones
    seeds: int = 0  # finished ones of all trials
    best: float | None = None
    seconds: float | None = None  # that a seed takes

    @property
    def share(self) -> float:
        """Fraction of finished trials, pruned ones included."""
        return 1.0 if self.state == "done" else self.trials / self.num_trials

    def seconds_left(self, usual: float | None) -> float | None:
        """Estimate the time left for one worker; ``usual`` is the time per seed elsewhere."""
        each = self.seconds or usual
        left = (1 - self.share) * self.num_trials * self.num_seeds
        return 0.0 if left == 0 else None if each is None else left * each


class SearchNotes:
    """The progress of a search, which workers write to ``work/progress.json``."""

    def __init__(self, search: Search) -> None:
        self.search, self.began = search, monotonic()
        self.seeds_before: int | None = None

    def take(self, rows: list[TrialRow]) -> None:
        """Record the state of all trials and the time per seed of this worker."""
        seeds = sum(len(row.seeds) for row in rows)
        if self.seeds_before is None:
            self.seeds_before = seeds
        best = best_of(rows, self.search.config.objective)
        own = seeds - self.seeds_before
        notes = {
            "trials": sum(row.state in FINISHED for row in rows),
            "seeds": seeds,
            "best": None if best is None else best.value,
            "seconds": (monotonic() - self.began) / own if own else None,
        }
        files.write_json(notes_file(self.search.out), notes)


def notes_file(out: Path) -> Path:
    """Return the file with the progress of a search."""
    return out / "work" / "progress.json"


def has_ended(search: Search) -> bool:
    """Whether the results of all trials have been written (importance.json comes last)."""
    return (search.out / "importance.json").exists()


def search_status(pair: Pair, search: Search) -> SearchStatus:
    """Determine the state of a search from its files."""
    plan = (pair, search.num_trials, len(search.seeds))
    notes = read_notes(search.out)
    if has_ended(search):
        path = search.out / "best.json"
        best = files.read_json(path)["value"] if path.exists() else None
        return SearchStatus(
            *plan, "done", search.num_trials, best=best, seconds=notes.get("seconds")
        )
    if any(map(is_locked, (search.out / "work").glob("*.lock"))):
        return SearchStatus(*plan, "running", **notes)
    has_begun = (search.out / "search.json").exists()
    return SearchStatus(*plan, "interrupted" if has_begun else "missing", **notes)


def read_notes(out: Path) -> dict[str, Any]:
    """Read the progress that workers recorded last; empty if there is none."""
    try:
        data = files.read_json(notes_file(out))
    except InputError:
        return {}
    names = [f.name for f in dataclasses.fields(SearchStatus)]
    return {name: value for name, value in data.items() if name in names}
