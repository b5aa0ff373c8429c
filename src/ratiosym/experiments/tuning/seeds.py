"""Training one seed of a trial: its value and its files."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from time import monotonic

from ratiosym.envs.registry import make
from ratiosym.errors import InputError, NonFiniteLoss
from ratiosym.learning.config import RunConfig
from ratiosym.learning.devices import enable_compilation_cache
from ratiosym.runs import files, tables
from ratiosym.runs.directory import write_failure
from ratiosym.runs.rows import evaluation_row
from ratiosym.runs.tables import Row
from ratiosym.runs.trackers import RunInfo, TrackerGroup, load_trackers

TrainSeed = Callable[[RunConfig], Iterable[Row]]


def train_seed(config: RunConfig) -> Iterator[Row]:
    """Train one seed and yield its evaluations. The absolute metric is left to final runs."""
    from ratiosym.learning.train import Evaluated, make_learner, train

    enable_compilation_cache()
    for event in train(make_learner(make(config.task), config, 1), config, [config.seed]):
        if isinstance(event, Evaluated):
            yield evaluation_row(config, event.update, event.episodes[0])
            if event.update == config.num_updates:
                return


def final_return(evaluations: list[Row]) -> float:
    """Return a seed's value: the mean return of the last 20% of its evaluations.

    The evaluation before training does not count.
    """
    returns = [row["mean_return"] for row in evaluations[1:]]
    return mean(returns[-math.ceil(0.2 * len(returns)) :])


class Diverged(ArithmeticError):  # noqa: N818  (what happened, not a mistake of the caller's)
    """The returns of a seed became NaN or infinite."""


def what_happened(error: Exception) -> str:
    """Return the first sentence of an error, without its advice for single runs."""
    return str(error).partition(". ")[0].rstrip(".") + "."


def seed_value(
    directory: Path, config: RunConfig, train: TrainSeed, track: Sequence[str] = ()
) -> float:
    """Return the value of a seed, which is trained and recorded unless its record exists."""
    if (known := read_value_of_seed(directory, config)) is not None:
        return known
    summary = directory / "summary.json"
    summary.unlink(missing_ok=True)
    files.write_json(directory / "config.json", {"config": config.to_dict()})
    began = monotonic()
    try:
        evaluations = train_tracked(directory, config, train, track)
        value = final_return(evaluations)
        if not math.isfinite(value):
            raise Diverged(f"The returns of seed {config.seed} are not finite numbers.")
    except (NonFiniteLoss, Diverged) as error:
        write_failure(directory, what_happened(error))
        raise
    tables.write_table(directory / "evaluations.csv", evaluations)
    files.write_json(summary, {"value": value, "seconds": round(monotonic() - began, 1)})
    return value


def read_value_of_seed(directory: Path, config: RunConfig) -> float | None:
    """Read the recorded value of a seed; None if there is none, or none of this configuration. A
    record that cannot be read counts as none: training the seed again is exact.
    """
    try:
        record = files.read_json(directory / "config.json")
        value = files.read_json(directory / "summary.json").get("value")
        is_own = RunConfig.from_dict(record.get("config")) == config
    except InputError:
        return None
    return value if is_own and type(value) is float and math.isfinite(value) else None


def train_tracked(
    directory: Path, config: RunConfig, train: TrainSeed, track: Sequence[str]
) -> list[Row]:
    """Yield the evaluations of a seed, and pass them to trackers."""
    trackers = TrackerGroup(load_trackers(track), RunInfo(directory, config, resumed_at=None))
    rows: list[Row] = []
    summary = None
    try:
        for row in train(config):
            trackers.log("evaluation", row)
            rows.append(row)
        summary = {"value": final_return(rows)}
    finally:
        trackers.end(summary)
    return rows
