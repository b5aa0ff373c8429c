"""Studies (algorithms x tasks x seeds): their status, and running what is missing.

    STUDY/plan.json                    the plan, and where it was started
    STUDY/tuning/TASK/LABEL/           the search of an algorithm on a task, if the plan tunes them
    STUDY/settings.json                the results of the searches, once all have ended
    STUDY/runs/TASK/LABEL/seed-S/      one run each, as 'ratiosym train' writes it; failure.txt if
                                       it failed
    STUDY/work/                        locks, progress notes and logs of workers

These files contain the whole state of a study: all processes see the same, and a study can be
interrupted at any time and resumed from them.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ratiosym.errors import InputError
from ratiosym.experiments import settings
from ratiosym.experiments.jobs import (
    LocalProcesses,
    MakeExecutor,
    claim,
    is_claimed,
    job_file,
    run_jobs,
)
from ratiosym.experiments.plans import Plan, PlannedRun
from ratiosym.experiments.portable import check_portable
from ratiosym.experiments.run_job import RunJob
from ratiosym.experiments.shards import Shard
from ratiosym.learning.devices import num_cores
from ratiosym.runs import files, provenance
from ratiosym.runs.directory import read_config, read_failure

TUNING = "tuning"  # directory of a study's searches

State = Literal["done", "running", "failed", "interrupted", "missing"]
NOTES = ("steps", "mean_return", "steps_per_second", "timed_steps", "seconds")
STATES: tuple[State, ...] = ("done", "running", "failed", "interrupted", "missing")


@dataclass(frozen=True)
class RunStatus:
    """The state of one run."""

    run: PlannedRun
    state: State
    steps: int = 0
    mean_return: float | None = None  # of the latest evaluation
    steps_per_second: float | None = None  # of the latest update
    timed_steps: int = 0  # steps of its last process ...
    seconds: float = 0.0  # ... and their duration, including start and evaluations
    error: str = ""


@dataclass(frozen=True)
class StudyStatus:
    """The state of every run of a study."""

    plan: Plan
    runs: tuple[RunStatus, ...]

    def of(self, state: State) -> list[RunStatus]:
        """Return the runs in a state."""
        return [run for run in self.runs if run.state == state]

    @property
    def steps(self) -> int:
        """Number of environment steps done."""
        return sum(run.steps for run in self.runs)

    @property
    def total_steps(self) -> int:
        """Number of environment steps of the whole study."""
        return sum(run.run.steps for run in self.runs)

    def seconds_left(self) -> float | None:
        """Estimate the time left from the speed of each task so far, or the average of the others.

        Returns None before any speed is known. Failed runs count as over. Assumes the current
        number of parallel runs, or one per core if nothing is running.
        """
        left = [run for run in self.runs if run.state not in ("done", "failed")]
        if not left:
            return 0.0
        usual = speed(self.runs)
        if usual is None:
            return None
        speeds = {
            task: speed([r for r in self.runs if r.run.task == task]) or usual
            for task in self.plan.tasks
        }
        seconds = sum((run.run.steps - run.steps) / speeds[run.run.task] for run in left)
        return seconds / min(len(left), len(self.of("running")) or num_cores())


def speed(runs: Sequence[RunStatus]) -> float | None:
    """Return the steps per second of these runs, or None if there are no steps."""
    steps = sum(run.timed_steps for run in runs)
    seconds = sum(run.seconds for run in runs if run.timed_steps)
    return steps / seconds if steps > 0 and seconds > 0 else None


# ------------------------------------------------------------------------------------ the directory


def check_directory(plan: Plan, directory: Path) -> None:
    """Raise unless the directory is new, empty, or contains this study."""
    if (directory / "plan.json").exists():
        check_same_plan(plan, read_study(directory), directory)
        return
    if directory.exists() and not directory.is_dir():
        raise InputError(
            f"'{directory}' is a file; `out` must be a directory: new, empty or a study's."
        )
    if directory.exists() and any(not files.is_leftover(p.name) for p in directory.iterdir()):
        raise InputError(
            f"'{directory}' is not empty, but contains no study: there is no plan.json in it. "
            f"Choose another `out`; nothing was changed."
        )


def begin_study(plan: Plan, directory: Path) -> None:
    """Write the plan of a new study; do not change an existing one."""
    check_directory(plan, directory)
    if (directory / "plan.json").exists():
        return
    try:
        details = {"plan": plan.to_dict(), **provenance.provenance()}
        files.write_json(directory / "plan.json", details)
    except OSError as error:
        raise InputError(
            f"'{directory}' cannot be written ({error.strerror}). Choose another `out`, where you "
            f"may write."
        ) from None


def read_study(directory: Path, command: str = "study run") -> Plan:
    """Read the plan of a study, with the settings that its searches have found so far.

    ``command`` is the one that starts such a study, for messages.
    """
    path = directory / "plan.json"
    if not path.exists():
        what = (
            "holds no study: there is no plan.json in it"
            if directory.exists()
            else "does not exist"
        )
        raise InputError(
            f"'{directory}' {what}. Start one with: ratiosym {command} PLAN --out '{directory}'"
        )
    data = files.read_json(path)
    if not isinstance(data.get("plan"), dict):
        raise InputError(
            f"'{path}' contains no plan. Restore the right one, or start a study in another "
            f"directory."
        )
    try:
        plan = Plan.from_dict(data["plan"])
    except InputError as error:
        raise InputError(f"'{path}' does not match this version of ratiosym: {error}") from None
    if plan.tuning is None or plan.settings:
        return plan
    # Until all searches have ended, use what is known so far.
    found = settings.find_entries(directory / TUNING, plan.pairs(), directory)
    return dataclasses.replace(plan, settings=settings.to_settings(found))


def freeze_settings(plan: Plan, directory: Path) -> bool:
    """Write the results of all searches to ``settings.json`` and ``plan.json``, once all have
    ended; return whether they have.

    ``settings.json`` and ``plan.json`` are each written once. If a process dies in between, the
    next one writes the second.
    """
    if plan.tuning is None:
        return True
    found = settings.find_entries(directory / TUNING, plan.pairs(), directory)
    if len(found) < len(plan.pairs()):
        return False
    settings.freeze(directory, found)
    details = files.read_json(directory / "plan.json")
    if not details["plan"].get("settings"):
        frozen = settings.read_tuned(directory, plan.pairs())
        details["plan"]["settings"] = frozen
        files.write_json(directory / "plan.json", details)
    return True


def check_same_plan(plan: Plan, found: Plan, directory: Path) -> None:
    """Raise unless runs and searches are the same. Name, description and trackers may change, and
    settings may be omitted if the directory has them.
    """
    if any(
        found.settings.get(task, {}).get(label) != options
        for task, by_label in plan.settings.items()
        for label, options in by_label.items()
    ):
        raise InputError(
            f"'{directory}' contains this study with other settings. Resume that one: ratiosym "
            f"study run --out '{directory}'. Or choose another `out`; nothing was changed."
        )
    bare, there = (dataclasses.replace(p, settings={}) for p in (plan, found))
    is_same = {run.path: run for run in bare.runs()} == {run.path: run for run in there.runs()}
    if is_same and plan.tuning == found.tuning:
        return
    names = [f.name for f in dataclasses.fields(Plan) if f.name not in _MAY_DIFFER]
    different = [name for name in names if getattr(plan, name) != getattr(found, name)]
    described = "; ".join(
        f"{n} {brief(getattr(found, n))} there, {brief(getattr(plan, n))} here" for n in different
    )
    raise InputError(
        f"'{directory}' contains a different study: {described or 'the presets have changed'}. "
        f"Resume that one: ratiosym study run --out '{directory}'. Or choose another `out`; "
        f"nothing was changed."
    )


_MAY_DIFFER = ("name", "about", "track", "settings")


def brief(value: object) -> str:
    """Format a part of a plan briefly."""
    if not isinstance(value, tuple):
        return repr(value)
    names = [str(getattr(entry, "label", entry)) for entry in value]
    return ", ".join(names if len(names) <= 12 else [*names[:3], f"... ({len(names)})"])


def check_runs(runs: Iterable[PlannedRun], directory: Path) -> None:
    """Raise if a run on disk has settings other than the plan's."""
    for run in runs:
        place = directory / run.path
        if (place / "config.json").exists() and read_config(place) != run.config:
            raise InputError(
                f"'{place}' holds a run with settings other than the plan's (compare its "
                f"config.json; another version may have other presets). Move it away, or "
                f"choose another `out`; nothing was changed."
            )


# ------------------------------------------------------------------------------------------- status


def run_status(job: RunJob) -> RunStatus:
    """Determine the state of one run from its files."""
    run, notes = job.planned, read_notes(job.notes)
    if job.is_done:
        return RunStatus(run, "done", **{**notes, "steps": run.steps})
    if is_claimed(job):
        return RunStatus(run, "running", **notes)
    notes["steps"] = int(job.progress())  # from where it would be resumed
    if (error := read_failure(job.directory)) is not None:
        return RunStatus(run, "failed", **notes, error=error)
    has_begun = (job.directory / "config.json").exists()
    return RunStatus(run, "interrupted" if has_begun else "missing", **notes)


def read_notes(path: Path) -> dict[str, Any]:
    """Read the progress that a worker recorded last; empty if there is none."""
    try:
        data = files.read_json(path)
    except InputError:
        return {}
    return {name: data[name] for name in NOTES if type(data.get(name)) in (int, float)}


def study_status(directory: str | Path) -> StudyStatus:
    """Determine the state of the study in a directory."""
    directory = Path(directory)
    plan = read_study(directory)
    return StudyStatus(plan, tuple(run_status(RunJob(directory, run)) for run in plan.runs()))


# ------------------------------------------------------------------------------------------ running


def run_study(
    plan: Plan,
    directory: str | Path,
    executor: MakeExecutor = LocalProcesses,
    retry_failed: bool = False,
    on_progress: Callable[[StudyStatus], None] = lambda _: None,
    shard: Shard | None = None,
) -> StudyStatus:
    """Run whatever is missing of a study. Failed runs are only repeated with ``retry_failed``.

    ``executor`` is called to create an executor, after everything has been checked. Several calls
    at the same time share the work; each returns when everything is over. With a ``shard``, only
    its part of the runs is run and waited for.
    """
    directory = Path(directory).absolute()
    plan.validate()
    check_directory(plan, directory)
    if not plan.settings and (directory / "plan.json").exists():
        plan = dataclasses.replace(plan, settings=read_study(directory).settings)
    plan.check_settings()
    runs = plan.runs()
    part = runs if shard is None else shard.part(runs)
    return run_part(plan, part, directory, executor, retry_failed, on_progress)


def run_part(
    plan: Plan,
    runs: Sequence[PlannedRun],
    directory: Path,
    executor: MakeExecutor,
    retry_failed: bool,
    on_progress: Callable[[StudyStatus], None],
) -> StudyStatus:
    """Run whatever is missing of some runs of a study."""
    check_runs(runs, directory)
    origin = {"preset": plan.preset, "tuned": plan.tuned or bool(plan.settings)}
    jobs = [RunJob(directory, run, plan.track, origin) for run in runs]
    for job in jobs:
        check_portable(job.planned.config)
    with closing(executor()) as workers:
        begin_study(plan, directory)
        if retry_failed:
            forget_failures(jobs)
        statuses = {job.name: run_status(job) for job in jobs}

        def report() -> None:
            for job in jobs:
                # Skip runs without a lock, which never had a worker: there can be thousands.
                is_over = statuses[job.name].state in ("done", "failed")
                if not is_over and job_file(job, ".lock").exists():
                    statuses[job.name] = run_status(job)
            on_progress(StudyStatus(plan, tuple(statuses.values())))

        run_jobs(jobs, workers, report)
    return StudyStatus(plan, tuple(run_status(job) for job in jobs))


def forget_failures(jobs: list[RunJob]) -> None:
    """Make failed runs resumable, unless someone is working on them."""
    for job in jobs:
        if read_failure(job.directory) is not None:
            with claim(job) as is_ours:
                if is_ours:
                    job.forget_failure()
