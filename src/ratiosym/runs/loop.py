"""Start, resume and record runs: drive ``learning.train``, and write tables and checkpoints."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax

from ratiosym.envs.protocol import Env
from ratiosym.envs.registry import check_before_training, make, resolve_task
from ratiosym.errors import InputError, NonFiniteLoss
from ratiosym.learning.config import RunConfig
from ratiosym.learning.devices import agree, enable_compilation_cache, reporting_lost_processes
from ratiosym.learning.diagnosis import find_cause
from ratiosym.learning.learner import Learner, TrainState
from ratiosym.learning.train import Evaluated, Finished, Updated, make_learner
from ratiosym.learning.train import train as learn
from ratiosym.plain import check_count
from ratiosym.runs import checkpoint, files, provenance
from ratiosym.runs.branch import (
    check_settings,
    complete_copy,
    copy_parent,
    describe_parent,
    find_parent,
)
from ratiosym.runs.checkpoint import Checkpoint, CheckpointError
from ratiosym.runs.directory import (
    CONFIG,
    SEEDS,
    Run,
    bring_to_checkpoint,
    check_free,
    claim_directory,
    lock_directories,
    read_returns,
    read_run_record,
    record_of,
    runs_to_resume,
    write_records,
)
from ratiosym.runs.environments import find_env
from ratiosym.runs.recorder import Recorder
from ratiosym.runs.rows import evaluation_row
from ratiosym.runs.state import restore
from ratiosym.runs.tables import Row
from ratiosym.runs.trackers import MakeTracker, load_trackers

# Minimum seconds between checkpoints, which are written after evaluations. The last evaluation
# always has one.
CHECKPOINT_SECONDS = 20.0

OnProgress = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """Progress of a run, for displays. The rows are copies, so that a display may change them."""

    config: RunConfig
    seeds: list[int]
    update: int
    rows: list[Row] | None = None  # of an update
    evaluations: list[Row] | None = None  # of an evaluation

    def __post_init__(self) -> None:
        """Copy the rows, which are recorded as well."""
        object.__setattr__(self, "rows", deepcopy(self.rows))
        object.__setattr__(self, "evaluations", deepcopy(self.evaluations))

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return self.update * self.config.shape.steps_per_update


# ----------------------------------------------------------------------------------- start, resume


def start(
    config: RunConfig,
    out: str | Path,
    num_seeds: int = 1,
    on_progress: OnProgress = lambda _: None,
    track: Sequence[str] | None = None,
    origin: Mapping[str, Any] | None = None,
) -> list[Run]:
    """Start a run in a new or empty directory.

    ``track`` names trackers (``runs.trackers``). ``origin`` is recorded with the configuration and
    says where its settings come from.
    """
    check_count("num_seeds", num_seeds)
    task, out = resolve_task(config.task), Path(out)
    config = dataclasses.replace(config, task=task.name)  # valid from any working directory
    runs = [
        Run(out if num_seeds == 1 else out / f"seed-{seed}", dataclasses.replace(config, seed=seed))
        for seed in range(config.seed, config.seed + num_seeds)
    ]
    for run in runs:
        run.config.validate()
    env = make(config.task)
    learner = make_learner(env, config, num_seeds)
    trackers = load_trackers(track or ())
    check_before_training(task)
    place = out / (CONFIG if num_seeds == 1 else SEEDS)
    is_repeatable = not (origin or {}).get("environment")  # no command can recreate an object
    command = provenance.train_command(place, num_seeds) if is_repeatable else None
    record = {
        "config": config.to_dict(),
        "spec": env.spec.to_dict(),
        **(origin or {}),
        "track": list(trackers),
        **provenance.provenance(command),
    }
    with ExitStack() as stack:
        on_first_process(lambda: stack.enter_context(claimed(out, runs, record)))
        return train_and_record(learner, runs, None, None, on_progress, trackers)


@contextmanager
def claimed(out: Path, runs: list[Run], record: dict[str, Any]) -> Iterator[None]:
    """Create a directory for runs and lock it while they are trained."""
    with ExitStack() as stack:
        with files.reporting_write_errors(out, "Choose another `out` that you can write to."):
            check_free(out)  # before creating the lock
            out.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_directories([out]))
            claim_directory(out, runs, record)
            seeds = [run.directory for run in runs if run.directory != out]
            stack.enter_context(lock_directories(seeds))
        yield


def resume(
    directory: str | Path,
    steps: int | None = None,
    on_progress: OnProgress = lambda _: None,
    track: Sequence[str] | None = None,
    env: Env | None = None,
) -> list[Run]:
    """Resume a run, or parallel seeds, from the newest checkpoint that all of them have.

    The result is identical, bit for bit, to that of an uninterrupted run. ``steps`` raises the
    budget, keeping the interval between evaluations. ``track`` replaces the trackers of the run. A
    run that was trained on an ``Env`` object needs an equal object as ``env``.
    """
    directory = Path(directory)
    runs = runs_to_resume(directory)
    if steps is not None:
        runs = [extend(run, steps) for run in runs]
    path = record_of(directory)
    record = read_run_record(path)
    trackers = load_trackers(record.track if track is None else track)
    env = find_env(runs[0].config, env, record.environment, directory)
    learner = make_learner(env, runs[0].config, len(runs))
    with ExitStack() as stack:
        places = [directory, *(run.directory for run in runs if run.directory.exists())]
        on_first_process(lambda: stack.enter_context(lock_directories(places)))
        if record.parent is not None:
            on_first_process(partial(complete_copy, runs[0], record.parent))
        found = find_checkpoints(directory, runs)
        state = None if found is None else restore(learner, found)
        on_first_process(partial(reopen, directory, runs, found, files.read_json(path)))
        update = None if found is None else found[0].meta.update
        return train_and_record(learner, runs, state, update, on_progress, trackers)


def branch(
    parent: str | Path,
    config: RunConfig,
    out: str | Path,
    on_progress: OnProgress = lambda _: None,
    track: Sequence[str] | None = None,
    env: Env | None = None,
) -> list[Run]:
    """Start a new run from a checkpoint of another, ``RUN`` or ``RUN@UPDATE``, with other settings.

    Its tables start with the parent's rows up to that checkpoint, and its record names the parent.
    """
    source, update = find_parent(parent)
    config.validate()
    check_settings(source, update, config)
    own = read_run_record(source.directory / CONFIG)
    run, trackers = Run(Path(out), config), load_trackers(own.track if track is None else track)
    env = find_env(config, env, own.environment, source.directory)
    learner = make_learner(env, config, 1)
    found = checkpoint.load(source.checkpoints, update)
    check_origin(source, found)
    state = restore(learner, [found])
    run.returns = read_returns(source, found)
    record = {
        "config": config.to_dict(),
        "spec": env.spec.to_dict(),
        "environment": own.environment,
        "parent": dataclasses.asdict(describe_parent(source, update)),
        "track": list(trackers),
        **provenance.provenance(),
    }

    def begin() -> None:
        stack.enter_context(claimed(run.directory, [run], record))
        with files.reporting_write_errors(run.directory, "Choose another `out`."):
            copy_parent(run, source, found)

    with ExitStack() as stack:
        on_first_process(begin)
        return train_and_record(learner, [run], state, update, on_progress, trackers)


def reopen(
    out: Path, runs: list[Run], found: list[Checkpoint] | None, record: dict[str, Any]
) -> None:
    """Reset the files of runs to the state from which they continue."""
    with files.reporting_write_errors(out, "Nothing is lost: resume once this is fixed."):
        bring_to_checkpoint(runs, found)
        write_records(out, runs, record)


def on_first_process(action: Callable[[], Any]) -> None:
    """Run an action on the first process only; if it fails there, all processes stop."""
    failure: InputError | None = None
    if jax.process_index() == 0:
        try:
            action()
        except InputError as error:
            failure = error
    if not agree(failure is None) and failure is None:
        failure = InputError("Process 0 could not start; see its message.")
    if failure is not None:
        raise failure


def extend(run: Run, steps: int) -> Run:
    """Raise the budget of a run on disk."""
    old = run.config
    if steps < old.steps:
        raise InputError(
            f"`steps` is {steps:,}, less than this run's budget of {old.steps:,}. Omit `steps` to "
            f"finish it, or choose a larger number."
        )
    if steps > old.steps and old.anneal_learning_rates:
        # The learning rates so far followed the smaller budget, so no single configuration would
        # describe the whole run.
        raise InputError(
            f"This run anneals its learning rates to 0 over its {old.steps:,} steps, so its budget "
            f"cannot be raised. Start a new run with `steps` {steps:,}."
        )
    num_evaluations = max(1, round(old.num_evaluations * steps / old.steps))
    return Run(
        run.directory, dataclasses.replace(old, steps=steps, num_evaluations=num_evaluations)
    )


def find_checkpoints(out: Path, runs: list[Run]) -> list[Checkpoint] | None:
    """Find the newest checkpoints of an update that all runs have; return None to start over.

    Starting over gives the same results. It is done if some run was interrupted before its first
    checkpoint and no run got past it.
    """
    available = [set(checkpoint.updates(run.checkpoints)) for run in runs]
    common = set.intersection(*available)
    if common:
        update = max(common)
        found = [checkpoint.load(run.checkpoints, update) for run in runs]
        for run, one in zip(runs, found, strict=True):
            check_origin(run, one)
            run.returns = read_returns(run, one)
        return found
    lost = [
        run.directory
        for run, updates in zip(runs, available, strict=True)
        if not updates and run.has_trained()
    ]
    if lost:
        raise InputError(
            f"The checkpoints of the run in '{lost[0]}' are missing, so it cannot be resumed. Its "
            f"tables were not changed. To train it again: "
            f"{provenance.train_command(lost[0] / CONFIG, 1)} --out NEW"
        )
    if not all(available) and not any(max(updates, default=0) for updates in available):
        return None
    raise InputError(
        f"The seeds under '{out}' have no checkpoint in common, so they cannot be resumed "
        f"together. Resume each one separately, as in: ratiosym train --resume "
        f"'{runs[0].directory}'"
    )


def check_origin(run: Run, found: Checkpoint) -> None:
    """Raise unless a checkpoint belongs to the run in its directory."""
    own, saved = run.config.to_dict(), found.meta.config
    budget = ("steps", "num_evaluations")
    different = [k for k in own if k not in budget and own[k] != saved.get(k)]
    if different:
        described = "; ".join(
            f"{k}: {saved.get(k)} in the checkpoint, {own[k]} in config.json" for k in different
        )
        raise CheckpointError(
            f"The checkpoint in '{run.directory}' is from another run ({described}). Nothing was "
            f"changed; put the right checkpoint there or start a new run."
        )


# ------------------------------------------------------------------------------ training, recording


def train_and_record(
    learner: Learner,
    runs: list[Run],
    state: TrainState | None,
    resumed_at: int | None,
    on_progress: OnProgress,
    trackers: dict[str, MakeTracker],
) -> list[Run]:
    """Drive the learner from the start or from a checkpoint, and record its events."""
    enable_compilation_cache()
    config, seeds = runs[0].config, [run.config.seed for run in runs]
    update = resumed_at or 0
    past = [run.returns.last for run in runs if run.returns]
    on_progress(Progress(config, seeds, update, evaluations=past or None))
    recorder = Recorder(runs, learner.env.spec, resumed_at, trackers, CHECKPOINT_SECONDS)
    with recorder, reporting_lost_processes(), explaining(learner, runs):
        for event in learn(learner, config, seeds, state, update):
            if isinstance(event, Updated):
                recorder.add_updates(event.rows)
                on_progress(Progress(config, seeds, event.update, rows=event.rows))
            elif isinstance(event, Evaluated):
                rows = [evaluation_row(config, event.update, e) for e in event.episodes]
                recorder.add_evaluations(rows)
                if recorder.is_checkpoint_due(event.update):
                    recorder.save(event.update, event.state)
                on_progress(Progress(config, seeds, event.update, evaluations=rows))
            elif isinstance(event, Finished):
                recorder.finish(event.episodes)
    return runs


@contextmanager
def explaining(learner: Learner, runs: list[Run]) -> Iterator[None]:
    """Add the cause of a non-finite loss, and what to do about it, to the error."""
    try:
        yield
    except NonFiniteLoss as error:
        raise NonFiniteLoss(error.update, error.seed, reason(learner, runs, error)) from None


def reason(learner: Learner, runs: list[Run], error: NonFiniteLoss) -> str:
    """Return what the environment did wrong, or else the usual advice and how to follow it."""
    failed = next(run for run in runs if run.config.seed == error.seed)
    advice = (
        f"{error.ADVICE} A new run can start from the last good checkpoint with another rate "
        f"(ratiosym train --from '{failed.directory}' --actor-learning-rate "
        f"{failed.config.hyperparameters.actor_learning_rate / 4:g})."
    )
    if jax.process_count() > 1:  # repeating updates takes all processes; some may not have failed
        return advice
    try:
        found = find_checkpoints(failed.directory, runs)
    except (InputError, OSError):  # removed in the meantime; do not hide the original error
        found = None
    if found is None:
        return advice
    state, update = restore(learner, found), found[0].meta.update
    cause = find_cause(learner, failed.config, runs.index(failed), state, update, error.update)
    return cause or advice
