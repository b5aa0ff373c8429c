"""One run on disk: drives ``learning.train``, writes records and checkpoints, resumes."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import jax
import numpy as np

from ratiosym.envs.registry import make
from ratiosym.errors import InputError
from ratiosym.learning.config import RunConfig
from ratiosym.learning.devices import agree, enable_compilation_cache
from ratiosym.learning.evaluate import Episodes
from ratiosym.learning.learner import TrainState
from ratiosym.learning.mesh import to_host
from ratiosym.learning.train import (
    Evaluated,
    Finished,
    NonFiniteLoss,
    Updated,
    make_learner,
    split_seeds,
)
from ratiosym.learning.train import (
    train as learn,
)
from ratiosym.runs import checkpoint, files, provenance, tables
from ratiosym.runs.directory import Run, occupy, read_config, run_directories
from ratiosym.runs.tables import Row
from ratiosym.runs.trackers import Trackers, import_wandb
from ratiosym.types import EnvSpec

CHECKPOINT_SECONDS = (
    20.0  # evaluations closer than this share a checkpoint; the last always has its own
)


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for a display."""

    config: RunConfig
    seeds: list[int]
    update: int
    rows: list[Row] | None = None  # of an update
    evaluations: list[Row] | None = None  # of an evaluation

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return self.update * self.config.shape.steps_per_update


def start(
    config: RunConfig,
    out: str | Path,
    num_seeds: int = 1,
    on_progress: Callable[[Progress], None] = lambda _: None,
    wandb: str | None = None,
) -> list[Run]:
    """A new run. The directory must not hold anything yet."""
    if num_seeds < 1:
        raise InputError(f"--num-seeds is {num_seeds}; it must be at least 1.")
    out = Path(out)
    runs = [
        Run(out if num_seeds == 1 else out / f"seed-{seed}", dataclasses.replace(config, seed=seed))
        for seed in range(config.seed, config.seed + num_seeds)
    ]
    for run in runs:
        run.config.validate()
    env = make(config.task)
    make_learner(env, config, num_seeds)  # whether seeds and groups fit the devices
    if wandb:
        import_wandb()
    on_first_process(partial(occupy, out, runs, env.spec))
    return keep(runs, None, 0, on_progress, wandb)


def on_first_process(action: Callable[[], None]) -> None:
    """Do something once, on the first of several processes. If it fails there, every process
    stops.
    """
    failure: InputError | None = None
    if jax.process_index() == 0:
        try:
            action()
        except InputError as error:
            failure = error
    if not agree(failure is None) and failure is None:
        failure = InputError("Process 0 could not begin; its message says why.")
    if failure is not None:
        raise failure


def resume(
    directory: str | Path,
    steps: int | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    wandb: str | None = None,
) -> list[Run]:
    """Go on with a run, or with seeds side by side, from the newest checkpoint that they all have.

    ``steps`` gives the run a larger budget than it had; evaluations keep their distance.
    """
    if wandb:
        import_wandb()
    directory = Path(directory)
    directories = run_directories(directory)
    if not directories:
        raise InputError(
            f"'{directory}' does not hold a run: there is no config.json in it. "
            f"Start one with: ratiosym train TASK --out '{directory}'"
        )
    runs = [Run(d, read_config(d)) for d in directories]
    if steps is not None:
        runs = [extend(run, steps) for run in runs]
    available = [set(checkpoint.updates(d / "checkpoint")) for d in directories]
    common = set.intersection(*available)
    if not common:
        if any(available):
            raise InputError(
                f"The seeds under '{directory}' have no checkpoint in common; resume each by "
                f"itself."
            )
        return keep(
            runs, None, 0, on_progress, wandb
        )  # killed before its first checkpoint: from the start
    update = max(common)
    checkpoints = [checkpoint.load(d / "checkpoint", update) for d in directories]
    for run, found in zip(runs, checkpoints, strict=True):
        check_origin(run, found)
        columns = found.meta["columns"]
        run.evaluations = tables.columns_to_rows(
            found.curves["evaluations"], columns["evaluations"]
        )
        run.training = tables.columns_to_rows(found.curves.get("training", {}), columns["training"])
    return keep(runs, checkpoints, update, on_progress, wandb)


def extend(run: Run, steps: int) -> Run:
    """A larger budget for a run on disk."""
    old = run.config
    if steps < old.steps:
        raise InputError(
            f"--steps {steps:,} is less than the {old.steps:,} this run was made for. Leave "
            f"--steps out to finish it, "
            f"or give it more."
        )
    num_evaluations = max(1, round(old.num_evaluations * steps / old.steps))
    return Run(
        run.directory, dataclasses.replace(old, steps=steps, num_evaluations=num_evaluations)
    )


def check_origin(run: Run, found: checkpoint.Checkpoint) -> None:
    """A checkpoint must belong to the run whose directory it lies in."""
    saved = {
        k: v
        for k, v in found.meta.get("config", {}).items()
        if k not in ("steps", "num_evaluations")
    }
    own = {k: v for k, v in run.config.to_dict().items() if k in saved}
    different = [k for k in saved if saved[k] != own.get(k)]
    if different:
        described = "; ".join(
            f"{k}: {saved[k]} in the checkpoint, {own.get(k)} in config.json" for k in different
        )
        raise checkpoint.CheckpointError(
            f"The checkpoint in '{run.directory}' is from another run ({described}). Nothing was "
            f"changed; put the "
            f"right checkpoint there or start a new run."
        )


def keep(
    runs: list[Run],
    checkpoints: list[checkpoint.Checkpoint] | None,
    update: int,
    on_progress: Callable[[Progress], None],
    wandb: str | None,
) -> list[Run]:
    """Drive the learner and write down what happens."""
    enable_compilation_cache()
    config, seeds = runs[0].config, [run.config.seed for run in runs]
    env = make(config.task)
    learner = make_learner(env, config, len(seeds))
    state = None if checkpoints is None else checkpoint.restore(learner, checkpoints)
    is_writer = jax.process_index() == 0
    if is_writer:
        for run in runs:
            run.write_budget()
    trackers = (
        [Trackers(r.directory, r.config.to_dict(), r.past(), wandb) for r in runs]
        if is_writer
        else []
    )
    began = last_saved = monotonic()
    on_progress(
        Progress(
            config, seeds, update, evaluations=[r.evaluations[-1] for r in runs] if update else None
        )
    )
    try:
        for event in learn(learner, config, seeds, state, update):
            if isinstance(event, Updated):
                for run, row in zip(runs, event.rows, strict=True):
                    run.training.append(row)
                for tracker, row in zip(trackers, event.rows, strict=bool(trackers)):
                    tracker.add("training", row)
                on_progress(Progress(config, seeds, event.update, rows=event.rows))
            elif isinstance(event, Evaluated):
                rows = [
                    evaluation_row(config, event.update, episodes) for episodes in event.episodes
                ]
                for run, row in zip(runs, rows, strict=True):
                    run.evaluations.append(row)
                for tracker, row in zip(trackers, rows, strict=bool(trackers)):
                    tracker.add("evaluation", row)
                is_last = event.update == config.num_updates
                # Clocks differ: the first process says when, for a state is gathered from all of
                # them.
                if (
                    is_last
                    or event.update == 0
                    or agree(monotonic() - last_saved >= CHECKPOINT_SECONDS)
                ):
                    save(runs, event.state, event.update, env.spec, is_writer)
                    last_saved = monotonic()
                if is_writer:
                    for run in runs:
                        run.write_curves()
                on_progress(Progress(config, seeds, event.update, evaluations=rows))
            elif isinstance(event, Finished):
                for run, episodes in zip(runs, event.episodes, strict=True):
                    run.summary = summarise(run, episodes, monotonic() - began)
                    if is_writer:
                        files.write_json(run.directory / "summary.json", run.summary)
    except NonFiniteLoss:
        if is_writer:
            for run in runs:
                run.write_curves()  # up to the last good update, to see what grew
        raise
    finally:
        for tracker in trackers:
            tracker.close()
    return runs


def save(runs: list[Run], state: TrainState, update: int, spec: EnvSpec, is_writer: bool) -> None:
    """A checkpoint for each seed."""
    key_free = jax.tree.map(lambda x: jax.random.key_data(x) if checkpoint.is_key(x) else x, state)
    for run, seed_state in zip(runs, split_seeds(to_host(key_free), len(runs)), strict=True):
        if is_writer:
            curves = run.curves()
            meta = {
                "config": run.config.to_dict(),
                "spec": spec.to_dict(),
                "versions": provenance.versions(),
                "columns": {table: list(columns) for table, columns in curves.items()},
            }
            checkpoint.save(run.directory / "checkpoint", update, seed_state, curves, meta)


def evaluation_row(config: RunConfig, update: int, episodes: Episodes) -> Row:
    """One row of ``evaluations.csv``."""
    return {"update": update, "steps": update * config.shape.steps_per_update, **describe(episodes)}


def describe(episodes: Episodes) -> Row:
    """Episodes as numbers: mean, spread, length, and the mean of each metric."""
    returns = np.asarray(episodes.returns, np.float64)
    return {
        "episodes": len(returns),
        "mean_return": float(returns.mean()),
        "std_return": float(returns.std(ddof=1)) if len(returns) > 1 else float("nan"),
        "min_return": float(returns.min()),
        "max_return": float(returns.max()),
        "mean_length": float(np.mean(episodes.lengths)),
        **{name: float(np.mean(values)) for name, values in sorted(episodes.metrics.items())},
    }


def summarise(run: Run, episodes: Episodes, seconds: float) -> dict[str, Any]:
    """What came out of a run."""
    best = max(run.evaluations, key=lambda row: row["mean_return"])
    speeds = [row["steps_per_second"] for row in run.training]
    return {
        "task": run.config.task,
        "objective": run.config.objective,
        "seed": run.config.seed,
        "steps": run.training[-1]["steps"],
        "updates": run.training[-1]["update"],
        "first_return": run.evaluations[0]["mean_return"],
        "final_return": run.evaluations[-1]["mean_return"],
        "best_return": best["mean_return"],
        "best_update": best["update"],
        "absolute_metric": describe(episodes),
        "median_steps_per_second": float(np.median(speeds)),
        "seconds_since_start_or_resume": round(seconds, 1),
    }
