"""One run, kept: drives ``learning.train`` and writes records and checkpoints. ``ratiosym.train`` is this."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import jax
import numpy as np

from ratiosym.envs.tasks import make
from ratiosym.experiments import records
from ratiosym.experiments.presets import configure
from ratiosym.experiments.records import Row, Trackers
from ratiosym.learning import checkpoint
from ratiosym.learning.config import RunConfig, RunShape
from ratiosym.learning.devices import agree, keep_programs
from ratiosym.learning.evaluate import Episodes
from ratiosym.learning.learner import TrainState, to_host
from ratiosym.learning.networks import init_params
from ratiosym.learning.policy import Policy
from ratiosym.learning.train import (
    Evaluated,
    Finished,
    NonFiniteLoss,
    Updated,
    absolute_metric,
    make_learner,
    split_seeds,
)
from ratiosym.learning.train import (
    train as learn,
)
from ratiosym.types import Continuous, Discrete, EnvSpec, InputError

CHECKPOINT_SECONDS = 20.0  # evaluations closer than this share a checkpoint; the last one always has its own


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


@dataclass
class Run:
    """One seed's run on disk."""

    directory: Path
    config: RunConfig
    evaluations: list[Row] = field(default_factory=list)
    training: list[Row] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    def write_budget(self) -> None:
        """A budget that was raised goes into config.json, and the summary of the smaller one goes away."""
        path = self.directory / "config.json"
        details = records.read_json(path)
        if details["config"] != self.config.to_dict():
            (self.directory / "summary.json").unlink(missing_ok=True)
            records.write_json(path, {**details, "config": self.config.to_dict()})

    def write_curves(self) -> None:
        """Both tables, whole."""
        records.write_table(self.directory / "evaluations.csv", self.evaluations)
        if self.training:
            records.write_table(self.directory / "training.csv", self.training)

    def past(self) -> dict[str, list[Row]]:
        """Both tables for the trackers."""
        return {"evaluation": self.evaluations, "training": self.training}

    def curves(self) -> checkpoint.Curves:
        """Both tables for the checkpoint."""
        return {
            "evaluations": records.rows_to_columns(self.evaluations),
            "training": records.rows_to_columns(self.training),
        }


def train(
    task: str,
    objective: str = "mars",
    *,
    out: str | Path | None = None,
    seed: int = 0,
    num_seeds: int = 1,
    preset: str = "cpu",
    on_progress: Callable[[Progress], None] = lambda _: None,
    wandb: str | None = None,
    **options: Any,
) -> list[Run]:
    """Train ``num_seeds`` seeds from ``seed`` on, side by side, and keep everything under ``out``.

    ``options`` are the fields of RunConfig, RunShape, Hyperparameters and TrustRegion: ``steps=400_000``,
    ``num_envs=32``, ``actor_learning_rate=5e-4``, ``b_upper=2.0`` ...
    """
    config = configure(task, preset, objective=objective, seed=seed, **options)
    return start(config, out or default_directory(config, num_seeds), num_seeds, on_progress, wandb)


def default_directory(config: RunConfig, num_seeds: int) -> Path:
    """Where a run goes if nobody says."""
    name = f"seed-{config.seed}" if num_seeds == 1 else f"seeds-{config.seed}-{config.seed + num_seeds - 1}"
    return Path("runs") / config.task / config.objective / name


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
        records.import_wandb()
    on_first_process(partial(occupy, out, runs, env.spec))
    return keep(runs, None, 0, on_progress, wandb)


def occupy(out: Path, runs: list[Run], spec: EnvSpec) -> None:
    """Make a directory the place of these runs, unless it holds something already."""
    provenance = records.provenance()
    try:
        check_free(out)
        for run in runs:
            details = {"config": run.config.to_dict(), "spec": spec_to_dict(spec), **provenance}
            records.write_json(run.directory / "config.json", details)
    except OSError as error:
        raise InputError(
            f"'{out}' cannot be written ({error.strerror}). Choose another --out, in a directory of yours."
        ) from None


def on_first_process(action: Callable[[], None]) -> None:
    """Do something once, on the first of several processes. If it fails there, every process stops."""
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


def check_free(out: Path) -> None:
    """Never write into a directory that holds something else."""
    if out.exists() and not out.is_dir():
        raise InputError(f"'{out}' is a file; --out must name a directory that is new or empty.")
    if not out.exists() or not any(out.iterdir()):
        return
    if run_directories(out):
        raise InputError(
            f"'{out}' already holds a run. Go on with it: ratiosym train --resume '{out}'. "
            f"Or choose another --out; nothing was changed."
        )
    raise InputError(f"'{out}' is not empty and holds no run. Choose another --out; nothing was changed.")


def run_directories(directory: Path) -> list[Path]:
    """The run in a directory, or the runs of seeds side by side."""
    if (directory / "config.json").exists():
        return [directory]
    seeds = {p.name.removeprefix("seed-"): p for p in directory.glob("seed-*") if (p / "config.json").exists()}
    return [seeds[name] for name in sorted(filter(str.isdecimal, seeds), key=int)]


def read_config(directory: Path) -> RunConfig:
    """The configuration of a run on disk."""
    data = records.read_json(directory / "config.json")
    if not isinstance(data.get("config"), dict):
        raise InputError(f"'{directory / 'config.json'}' has no configuration in it.")
    return RunConfig.from_dict(data["config"])


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
        records.import_wandb()
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
            raise InputError(f"The seeds under '{directory}' have no checkpoint in common; resume each by itself.")
        return keep(runs, None, 0, on_progress, wandb)  # killed before its first checkpoint: from the start
    update = max(common)
    checkpoints = [checkpoint.load(d / "checkpoint", update) for d in directories]
    for run, found in zip(runs, checkpoints, strict=True):
        check_origin(run, found)
        columns = found.meta["columns"]
        run.evaluations = records.columns_to_rows(found.curves["evaluations"], columns["evaluations"])
        run.training = records.columns_to_rows(found.curves.get("training", {}), columns["training"])
    return keep(runs, checkpoints, update, on_progress, wandb)


def extend(run: Run, steps: int) -> Run:
    """A larger budget for a run on disk."""
    old = run.config
    if steps < old.steps:
        raise InputError(
            f"--steps {steps:,} is less than the {old.steps:,} this run was made for. Leave --steps out to finish it, "
            f"or give it more."
        )
    num_evaluations = max(1, round(old.num_evaluations * steps / old.steps))
    return Run(run.directory, dataclasses.replace(old, steps=steps, num_evaluations=num_evaluations))


def check_origin(run: Run, found: checkpoint.Checkpoint) -> None:
    """A checkpoint must belong to the run whose directory it lies in."""
    saved = {k: v for k, v in found.meta.get("config", {}).items() if k not in ("steps", "num_evaluations")}
    own = {k: v for k, v in run.config.to_dict().items() if k in saved}
    different = [k for k in saved if saved[k] != own.get(k)]
    if different:
        described = "; ".join(f"{k}: {saved[k]} in the checkpoint, {own.get(k)} in config.json" for k in different)
        raise checkpoint.CheckpointError(
            f"The checkpoint in '{run.directory}' is from another run ({described}). Nothing was changed; put the "
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
    keep_programs()
    config, seeds = runs[0].config, [run.config.seed for run in runs]
    env = make(config.task)
    learner = make_learner(env, config, len(seeds))
    state = None if checkpoints is None else checkpoint.restore(learner, checkpoints)
    is_writer = jax.process_index() == 0
    if is_writer:
        for run in runs:
            run.write_budget()
    trackers = [Trackers(r.directory, r.config.to_dict(), r.past(), wandb) for r in runs] if is_writer else []
    began = last_saved = monotonic()
    on_progress(Progress(config, seeds, update, evaluations=[r.evaluations[-1] for r in runs] if update else None))
    try:
        for event in learn(learner, config, seeds, state, update):
            if isinstance(event, Updated):
                for run, row in zip(runs, event.rows, strict=True):
                    run.training.append(row)
                for tracker, row in zip(trackers, event.rows, strict=bool(trackers)):
                    tracker.add("training", row)
                on_progress(Progress(config, seeds, event.update, rows=event.rows))
            elif isinstance(event, Evaluated):
                rows = [evaluation_row(config, event.update, episodes) for episodes in event.episodes]
                for run, row in zip(runs, rows, strict=True):
                    run.evaluations.append(row)
                for tracker, row in zip(trackers, rows, strict=bool(trackers)):
                    tracker.add("evaluation", row)
                is_last = event.update == config.num_updates
                # Clocks differ: the first process says when, for a state is gathered from all of them.
                if is_last or event.update == 0 or agree(monotonic() - last_saved >= CHECKPOINT_SECONDS):
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
                        records.write_json(run.directory / "summary.json", run.summary)
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
                "spec": spec_to_dict(spec),
                "versions": records.versions(),
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


def load_policy(directory: str | Path, which: str = "best") -> Policy:
    """The policy of a run: its best parameters so far, or the ``last`` ones."""
    check_which(which)
    found, config, spec = load_run(Path(directory))
    params = load_params(found, config.shape, spec, which)
    return Policy(params.actor, spec, config.shape.carry_size)


def arena(config: RunConfig, task: str | None) -> str:
    """The task that a policy was trained on, or another in which its agents see and do as much."""
    if task is None:
        return config.task
    own, other = make(config.task).spec, make(task).spec
    names = ("num_agents", "observation_size", "state_size", "action")
    different = [name for name in names if getattr(own, name) != getattr(other, name)]
    if different:
        words = "; ".join(f"{n.replace('_', ' ')} {getattr(other, n)}, not {getattr(own, n)}" for n in different)
        raise InputError(
            f"A policy of '{config.task}' cannot play '{task}' ({words}). Choose a task of the same sizes, such as "
            f"the held-out layouts of PaxMen or the levels of AeroJAX's opponents."
        )
    return task


def check_which(which: str) -> None:
    """Whether such parameters are in a checkpoint."""
    if which not in ("best", "last"):
        raise InputError(f"which='{which}'; it must be 'best' or 'last'.")


def load_run(directory: Path) -> tuple[checkpoint.Checkpoint, RunConfig, EnvSpec]:
    """The newest checkpoint of one seed and what it says of itself."""
    directories = run_directories(directory)
    if len(directories) > 1:
        names = ", ".join(d.name for d in directories)
        raise InputError(f"'{directory}' holds several seeds ({names}). Name one, as in '{directories[0]}'.")
    if not directories:
        raise InputError(f"'{directory}' does not hold a run: there is no config.json in it.")
    found = checkpoint.load(directories[0] / "checkpoint")
    return found, RunConfig.from_dict(found.meta["config"]), spec_from_dict(found.meta["spec"])


def load_params(found: checkpoint.Checkpoint, shape: RunShape, spec: EnvSpec, which: str) -> Any:
    """Parameters out of a checkpoint."""
    like = jax.eval_shape(lambda k: init_params(k, spec, shape.hidden_size, shape.has_memory), jax.random.key(0))
    return checkpoint.unflatten(found.arrays, like, "best_params/" if which == "best" else "params/")


def evaluate(
    directory: str | Path, num_episodes: int = 320, which: str = "best", seed: int = 0, task: str | None = None
) -> Episodes:
    """Fresh episodes with a trained policy, sampled as in the paper; on its own task or on another that fits."""
    if num_episodes < 1:
        raise InputError(f"--episodes is {num_episodes}; it must be at least 1.")
    check_which(which)
    keep_programs()
    found, config, _ = load_run(Path(directory))
    env = make(arena(config, task))
    shape = dataclasses.replace(config.shape, num_eval_episodes=min(num_episodes, config.shape.num_eval_episodes))
    learner = make_learner(env, dataclasses.replace(config, shape=shape), 1)
    params = load_params(found, shape, env.spec, which)
    params = jax.tree.map(lambda x: np.asarray(x)[None], params)
    return absolute_metric(learner, params, [seed], found.meta["update"], num_episodes)[0]


def spec_to_dict(spec: EnvSpec) -> dict[str, Any]:
    """A spec as plain data."""
    data = dataclasses.asdict(spec)
    data["action"] = {"kind": type(spec.action).__name__.lower(), **data["action"]}
    data["metrics"] = list(spec.metrics)
    return data


def spec_from_dict(data: dict[str, Any]) -> EnvSpec:
    """A spec from plain data."""
    action = {k: v for k, v in data["action"].items() if k != "kind"}
    kind = Discrete if data["action"]["kind"] == "discrete" else Continuous
    return EnvSpec(**{**data, "action": kind(**action), "metrics": tuple(data["metrics"])})
