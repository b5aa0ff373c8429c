"""Algorithms x tasks x seeds: what is done, what is missing, run the rest.

    STUDY/plan.json                    what is to be run, and where it was begun
    STUDY/runs/TASK/LABEL/seed-S/      a run each, as 'ratiosym train' writes it; failure.txt if it
    failed
    STUDY/work/                        locks, notes and logs of workers

Everything that is known of a study is in these files: whoever reads them sees the same, and a study
that was interrupted at any moment goes on from them.
"""

import dataclasses
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any, Literal

from ratiosym.errors import InputError
from ratiosym.experiments.executors import Executor, LocalProcesses, MakeExecutor
from ratiosym.experiments.plans import Plan, PlannedRun
from ratiosym.experiments.worker import claim, is_claimed, work_file
from ratiosym.learning.devices import num_cores
from ratiosym.runs import checkpoint, files, provenance
from ratiosym.runs.directory import read_config, read_failure, write_failure

MAX_LOST = 3  # workers that a run may lose in a row without getting any further
LOOK_SECONDS = 0.5  # between two looks at the workers

State = Literal["done", "running", "failed", "interrupted", "missing"]
STATES: tuple[State, ...] = ("done", "running", "failed", "interrupted", "missing")


@dataclass(frozen=True)
class RunState:
    """Where one run stands."""

    run: PlannedRun
    state: State
    steps: int = 0
    mean_return: float | None = None  # of the newest evaluation
    steps_per_second: float | None = None  # of the newest update
    timed_steps: int = 0  # steps of its last process ...
    seconds: float = 0.0  # ... and how long that took, start and evaluations included
    error: str = ""


@dataclass(frozen=True)
class Standing:
    """Where a study stands."""

    plan: Plan
    runs: tuple[RunState, ...]

    def of(self, state: State) -> list[RunState]:
        """The runs in a state."""
        return [run for run in self.runs if run.state == state]

    @property
    def steps(self) -> int:
        """Environment steps done."""
        return sum(run.steps for run in self.runs)

    @property
    def total_steps(self) -> int:
        """Environment steps of the whole study."""
        return sum(run.run.steps for run in self.runs)

    def seconds_left(self) -> float | None:
        """An estimate from the pace of each task so far; a task not seen yet counts like the
        others.

        None before anything is known. Failed runs count as over. As many runs at once as there are
        now, or, while nothing runs, as there are cores.
        """
        left = [run for run in self.runs if run.state not in ("done", "failed")]
        if not left:
            return 0.0
        usual = pace(self.runs)
        if usual is None:
            return None
        paces = {
            task: pace([r for r in self.runs if r.run.task == task]) or usual
            for task in self.plan.tasks
        }
        seconds = sum((run.run.steps - run.steps) / paces[run.run.task] for run in left)
        return seconds / min(len(left), len(self.of("running")) or num_cores())


def pace(runs: list[RunState] | tuple[RunState, ...]) -> float | None:
    """Steps a second of these runs' processes; None if none has got anywhere."""
    steps, seconds = (
        sum(run.timed_steps for run in runs),
        sum(run.seconds for run in runs if run.timed_steps),
    )
    return steps / seconds if steps > 0 and seconds > 0 else None


# ------------------------------------------------------------------------------------ the directory


def check_place(plan: Plan, directory: Path) -> None:
    """A directory is new, empty, or the place of this study."""
    if (directory / "plan.json").exists():
        check_same(plan, read_study(directory), directory)
        return
    if directory.exists() and not directory.is_dir():
        raise InputError(
            f"'{directory}' is a file; --out must name a directory that is new, empty or a study's."
        )
    if directory.exists() and any(not files.is_leftover(p.name) for p in directory.iterdir()):
        raise InputError(
            f"'{directory}' is not empty and holds no study: there is no plan.json in it. Choose "
            f"another --out; "
            f"nothing was changed."
        )


def begin(plan: Plan, directory: Path) -> None:
    """Make a directory the place of a study, unless it is already."""
    check_place(plan, directory)
    if (directory / "plan.json").exists():
        return
    try:
        files.write_json(
            directory / "plan.json", {"plan": plan.to_dict(), **provenance.provenance()}
        )
    except OSError as error:
        raise InputError(
            f"'{directory}' cannot be written ({error.strerror}). Choose another --out, in a "
            f"directory of yours."
        ) from None


def read_study(directory: Path) -> Plan:
    """The plan of a study on disk."""
    path = directory / "plan.json"
    if not path.exists():
        what = (
            "is not there"
            if not directory.exists()
            else "holds no study: there is no plan.json in it"
        )
        raise InputError(
            f"'{directory}' {what}. Start one with: ratiosym study run PLAN --out '{directory}'"
        )
    data = files.read_json(path)
    if not isinstance(data.get("plan"), dict):
        raise InputError(
            f"'{path}' has no plan in it. Put the right one back, or start a study in another "
            f"directory."
        )
    try:
        return Plan.from_dict(data["plan"])
    except InputError as error:
        raise InputError(f"'{path}' does not fit this version of ratiosym: {error}") from None


def check_same(plan: Plan, kept: Plan, directory: Path) -> None:
    """A directory holds one study. Its name and description may change, its runs may not."""
    if {run.path: run for run in plan.runs()} == {run.path: run for run in kept.runs()}:
        return
    names = [f.name for f in dataclasses.fields(Plan) if f.name not in ("name", "about")]
    different = [name for name in names if getattr(plan, name) != getattr(kept, name)]
    described = "; ".join(
        f"{n} {brief(getattr(kept, n))} there, {brief(getattr(plan, n))} here" for n in different
    )
    raise InputError(
        f"'{directory}' holds another study: {described or 'the presets have changed'}. Go on with "
        f"that one: ratiosym "
        f"study run --out '{directory}'. Or choose another --out; nothing was changed."
    )


def brief(value: object) -> str:
    """A part of a plan in a few words."""
    if isinstance(value, tuple):
        names = [str(getattr(entry, "label", entry)) for entry in value]
        return (
            f"{', '.join(names)}"
            if len(names) <= 12
            else f"{', '.join(names[:3])} ... ({len(names)})"
        )
    return repr(value)


def check_runs(plan: Plan, directory: Path) -> None:
    """Runs that are there are those of the plan."""
    for run in plan.runs():
        place = directory / run.path
        if (place / "config.json").exists() and read_config(place) != run.config:
            raise InputError(
                f"'{place}' holds a run with other settings than the plan has for it now (see its "
                f"config.json; "
                f"another version may have other presets). Move it away, or choose another --out; "
                f"nothing was changed."
            )


def look(directory: Path, run: PlannedRun) -> RunState:
    """Where one run stands, from its files."""
    place = directory / run.path
    notes = read_notes(work_file(directory, run, ".json"))
    if (place / "summary.json").exists():
        return RunState(run, "done", **{**notes, "steps": run.steps})
    if is_claimed(directory, run):
        return RunState(run, "running", **notes)
    updates = checkpoint.updates(place / "checkpoint")
    notes["steps"] = (
        updates[-1] * run.config.shape.steps_per_update if updates else 0
    )  # from where it would go on
    if (error := read_failure(place)) is not None:
        return RunState(run, "failed", **notes, error=error)
    return RunState(run, "interrupted" if (place / "config.json").exists() else "missing", **notes)


def read_notes(path: Path) -> dict[str, Any]:
    """What a worker wrote down last; nothing if it has not yet."""
    try:
        data = files.read_json(path)
    except InputError:
        return {}
    names = [f.name for f in dataclasses.fields(RunState)]
    return {name: value for name, value in data.items() if name in names}


def examine(directory: str | Path) -> Standing:
    """Where the study in a directory stands."""
    directory = Path(directory)
    plan = read_study(directory)
    return Standing(plan, tuple(look(directory, run) for run in plan.runs()))


# ------------------------------------------------------------------------------------------ running


def run_study(
    plan: Plan,
    directory: str | Path,
    executor: MakeExecutor = LocalProcesses,
    retry_failed: bool = False,
    on_progress: Callable[[Standing], None] = lambda _: None,
) -> Standing:
    """Do what is missing of a study. Runs that failed are left as they are, unless
    ``retry_failed``.

    ``executor`` makes the place to compute from the study's directory. Several ``run_study`` at
    once share the work; each returns when everything is done.
    """
    directory = Path(directory)
    plan.validate()
    check_place(plan, directory)
    check_runs(plan, directory)
    with closing(executor(directory)) as workers:
        begin(plan, directory)
        return _Study(plan, directory, workers, retry_failed).run(on_progress)


class _Study:
    """A study while it runs."""

    def __init__(self, plan: Plan, directory: Path, workers: Executor, retry_failed: bool) -> None:
        self.plan, self.directory, self.workers = plan, directory, workers
        self.states = {run.path: look(directory, run) for run in plan.runs()}
        self.retried = {
            path for path, s in self.states.items() if s.state == "failed" and retry_failed
        }
        self.waiting = deque(s.run for s in self.states.values() if not self.is_over(s))
        self.started: set[Path] = set()  # and not ended: ours
        self.lost: dict[
            Path, tuple[int, int]
        ] = {}  # how many workers in a row, and the steps it had then

    def run(self, on_progress: Callable[[Standing], None]) -> Standing:
        """Start runs, look after them, until none is left."""
        while True:
            for run, death in self.workers.ended():
                self.started.discard(run.path)
                self.settle(run, death)
            self.start_more()
            for path in self.started:
                self.states[path] = look(self.directory, self.states[path].run)
            standing = Standing(self.plan, tuple(self.states.values()))
            on_progress(standing)
            if not self.waiting and not self.started:
                return standing
            sleep(LOOK_SECONDS)

    def start_more(self) -> None:
        """Give free workers the next runs. Those that somebody else is busy with wait: they may be
        left to us.
        """
        for run in list(self.waiting):
            if not self.workers.has_room():
                return
            state = self.states[run.path] = look(self.directory, run)
            if state.state == "running":
                continue
            self.waiting.remove(run)
            if not self.is_over(state):
                self.retried.discard(run.path)
                self.started.add(run.path)
                self.workers.start(run)

    def is_over(self, state: RunState) -> bool:
        """Whether there is nothing to do about a run."""
        return state.state == "done" or (
            state.state == "failed" and state.run.path not in self.retried
        )

    def settle(self, run: PlannedRun, death: str) -> None:
        """A worker has ended: take note of what came out, or start the run again."""
        state = self.states[run.path] = look(self.directory, run)
        if state.state in ("done", "failed"):
            return
        if not death or state.state == "running":  # somebody else had it
            self.waiting.append(run)
            return
        count, steps = self.lost.get(run.path, (0, -1))  # Decision 54
        count = count + 1 if state.steps <= steps else 1
        self.lost[run.path] = (count, state.steps)
        if count < MAX_LOST:
            self.waiting.appendleft(run)
            return
        with claim(self.directory, run, patience=1.0) as is_ours:
            if not is_ours:
                self.waiting.append(run)
                return
            write_failure(
                self.directory / run.path,
                f"{MAX_LOST} workers in a row died with this run. {death}",
            )
        self.states[run.path] = look(self.directory, run)
