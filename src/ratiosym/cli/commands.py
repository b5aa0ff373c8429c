"""The commands as typed options, one dataclass each."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import tyro

from ratiosym.cli.report import Report
from ratiosym.cli.study import Study
from ratiosym.cli.tune import Tune
from ratiosym.envs.registry import make
from ratiosym.envs.tasks import TASKS
from ratiosym.errors import InputError
from ratiosym.experiments.presets import PRESETS, preset, read_settings
from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape
from ratiosym.objectives import OBJECTIVES

Flat = tyro.conf.arg(name="")
TrustRegion = dataclasses.make_dataclass(
    "TrustRegion",
    [
        (name, float | None, None)
        for name in dict.fromkeys(p.name for o in OBJECTIVES.values() for p in o.parameters)
    ],
    frozen=True,
)


def option(name: str) -> str:
    """The option of a name."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Train:
    """Train a policy on a task, or go on with a run.

    Learn: ratiosym train mpe-spread-3ag --objective mars --out runs/first

    Compare: ratiosym train mpe-spread-3ag --objective mappo --epsilon 0.1 --num-seeds 2

    Go on after an interruption: ratiosym train --resume runs/first

    Train for longer: ratiosym train --resume runs/first --steps 2000000

    With settings that a search found: ratiosym train --config tuning/first/best.json

    The run's directory holds config.json, evaluations.csv, training.csv, summary.json, checkpoint/
    and TensorBoard events. The defaults shown here are those of the preset: try 'ratiosym train
    --preset paper --help'.
    """

    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """What to learn; 'ratiosym tasks' lists them."""
    preset: Annotated[str, tyro.conf.arg(metavar="{" + ",".join(PRESETS) + "}")] = "cpu"
    """Budget and sizes: the paper's, minutes on two cores (and tuned settings where there are some:
    docs/tuning.md), or seconds to see that all works."""
    objective: Annotated[str, tyro.conf.arg(metavar="{" + ",".join(OBJECTIVES) + "}")] = "mars"
    """The ratio objective."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where the run is kept; new or empty. By default runs/TASK/OBJECTIVE/seed-S."""
    settings: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None
    """Begin with the task and all settings in this file, a search's best.json or a run's
    config.json, not a preset.
    """
    resume: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Go on with the run in this directory, bit for bit as if it had never stopped."""
    seed: int = 0
    """Everything random comes from it. The same seed on the same machine gives the same numbers."""
    num_seeds: int = 1
    """Train seeds S, S + 1, ... side by side: over devices first, then together on one; DIR/seed-S/
    each.
    """
    steps: int = 0
    """Environment steps to train for."""
    num_evaluations: int = 0
    """Evaluations, evenly spaced, beside the one before training."""
    trust_region: Annotated[TrustRegion, Flat] = field(default_factory=TrustRegion)  # type: ignore[valid-type]
    hyperparameters: Annotated[Hyperparameters, Flat] = field(default_factory=Hyperparameters)
    shape: Annotated[RunShape, Flat] = field(default_factory=RunShape)
    track: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Also log to tensorboard, wandb, or a tracker of your own, package.module:function."""
    coordinator: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """Several hosts: the address of process 0, the same for all."""
    num_processes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Several hosts: how many processes."""
    process_id: Annotated[int | None, tyro.conf.arg(metavar="I")] = None
    """Several hosts: which one this is, from 0."""

    @classmethod
    def of_preset(cls, name: str, task: str, objective: str = "mars") -> "Train":
        """The options as a preset sets them."""
        config = preset(name, task)
        names = ("steps", "num_evaluations", "hyperparameters", "shape")
        return cls(preset=name, **{name: getattr(config, name) for name in names})

    @classmethod
    def of_file(cls, path: Path) -> "Train":
        """The options as a file sets them."""
        config = read_settings(path)
        fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
        del fields["anneal_learning_rates"]
        return cls(**fields, trust_region=TrustRegion(**fields.pop("objective_parameters")))

    def config(self) -> RunConfig:
        """What the options describe."""
        if self.task is None:
            raise InputError(
                "Name a task, as in 'ratiosym train mpe-spread-3ag'; 'ratiosym tasks' lists them "
                "all."
            )
        names = ("task", "objective", "seed", "steps", "num_evaluations")
        given = {k: v for k, v in vars(self.trust_region).items() if v is not None}
        return RunConfig(
            **{name: getattr(self, name) for name in (*names, "hyperparameters", "shape")},
            objective_parameters=given,
        )

    def run(self) -> None:
        """Train and show it."""
        from ratiosym.cli.display import show_summaries, watch
        from ratiosym.learning.devices import start_jax
        from ratiosym.runs import directory, loop

        start_jax(self.coordinator, self.num_processes, self.process_id)
        if self.resume is not None:
            if self.settings is not None:
                raise InputError(
                    "--resume goes on with a run and its settings; leave --config out."
                )
            steps = self.check_resume()
            with watch(self.resume) as on_progress:
                runs = loop.resume(self.resume, steps, on_progress, self.track or None)
        else:
            config = self.config()
            out = self.out or directory.default_directory(config, self.num_seeds)
            with watch(out) as on_progress:
                runs = loop.start(config, out, self.num_seeds, on_progress, self.track)
        show_summaries(runs)

    def check_resume(self) -> int | None:
        """A resumed run has its settings; only its budget may be changed."""
        default = dataclasses.replace(
            Train.of_preset(self.preset, self.task or "", self.objective), preset="cpu"
        )
        allowed = ("resume", "steps", "track", "coordinator", "num_processes", "process_id")
        own, before = self.flat(), default.flat()
        changed = [name for name in own if name not in allowed and own[name] != before[name]]
        if changed:
            names = ", ".join("TASK" if n == "task" else option(n) for n in changed)
            raise InputError(
                f"--resume takes its settings from the run's config.json, but there is also "
                f"{names}. Leave that out; "
                f"only --steps may be given, to train for longer."
            )
        return self.steps or None

    def flat(self) -> dict[str, Any]:
        """All options by name."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for part in ("trust_region", "hyperparameters", "shape"):
            values |= dataclasses.asdict(values.pop(part))
        return values


@dataclass(frozen=True)
class Evaluate:
    """Play fresh episodes with a trained policy.

    ratiosym evaluate runs/first --episodes 320

    On layouts it has never seen: ratiosym evaluate runs/paxmen --task paxmen-4a-heldout

    Against the strongest opponents: ratiosym evaluate runs/aerojax --task aerojax-2v2-l4
    """

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The directory of a run."""
    episodes: int = 320
    """How many (320 is the paper's absolute metric)."""
    which: Literal["best", "last"] = "best"
    """The parameters of the best evaluation, or the newest."""
    task: Annotated[str | None, tyro.conf.arg(metavar="TASK")] = None
    """Another task of the same sizes than the one it was trained on."""
    seed: int = 0
    """Of the episodes."""

    def run(self) -> None:
        """Evaluate and show it."""
        from ratiosym.cli.display import show_episodes
        from ratiosym.learning.devices import start_jax
        from ratiosym.runs.trained import evaluate

        start_jax()
        show_episodes(
            self.directory,
            evaluate(self.directory, self.episodes, self.which, self.seed, self.task),
        )


@dataclass(frozen=True)
class Baselines:
    """Play the scripted teams of a task: what a trained one has to beat.

    ratiosym baselines paxmen-4a --episodes 1000
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """'random' plays every task; some have more."""
    episodes: int = 320
    """How many for each team."""
    seed: int = 0
    """Of the episodes; all teams meet the same starts."""

    def run(self) -> None:
        """Play and compare."""
        from ratiosym.cli.display import show_baselines
        from ratiosym.envs.teams import references_of
        from ratiosym.learning.devices import enable_compilation_cache, start_jax
        from ratiosym.runs.episodes import play_baselines

        start_jax()
        enable_compilation_cache()
        played = play_baselines(self.task, self.episodes, self.seed)
        show_baselines(self.task, played, references_of(make(self.task, agent_ids=False)))


@dataclass(frozen=True)
class Render:
    """Make a film of one episode.

    A trained team: ratiosym render runs/first --out first.gif

    A scripted one: ratiosym render paxmen-4a --team oracle --out oracle.gif

    For Tacview: ratiosym render runs/aerojax --task aerojax-2v2-l2 --out fight.acmi
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR|TASK")]
    """The directory of a run, or a task for a scripted team."""
    team: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The scripted team; 'ratiosym baselines TASK' lists them. By default the random one."""
    which: Literal["best", "last"] = "best"
    """The parameters of a run's best evaluation, or the newest."""
    task: Annotated[str | None, tyro.conf.arg(metavar="TASK")] = None
    """For a trained team: another task of the same sizes than its own."""
    seed: int = 0
    """Of the episode."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("episode.gif")
    """The film, .gif; episodes of AeroJAX also as .acmi, which Tacview shows in three
    dimensions.
    """

    def run(self) -> None:
        """Play and draw."""
        from ratiosym.learning.devices import enable_compilation_cache, start_jax
        from ratiosym.report.film import check_film, draw_film
        from ratiosym.runs.episodes import find_cast

        start_jax()
        enable_compilation_cache()
        cast = find_cast(self.what, self.team, self.which, self.task)
        check_film(cast.plain, self.out)
        draw_film(cast.plain, cast.record(self.seed), self.out, cast.title)
        print(self.out)


@dataclass(frozen=True)
class Play:
    """Steer one agent yourself, in the terminal; a scripted team plays the others.

    ratiosym play paxmen-4a
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A task of PaxMen."""
    agent: int = 0
    """Which one is yours."""
    team: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Who plays the others; 'ratiosym baselines TASK' lists the teams. By default the last of
    them.
    """
    seed: int = 0
    """Of the episode."""

    def run(self) -> None:
        """Play an episode."""
        from ratiosym.cli.play import play
        from ratiosym.learning.devices import enable_compilation_cache, start_jax

        start_jax()
        enable_compilation_cache()
        play(self.task, self.agent, self.team, self.seed)


@dataclass(frozen=True)
class Tasks:
    """List the tasks."""

    json: bool = False
    """For programs."""

    def run(self) -> None:
        """Print the table."""
        from ratiosym.cli.display import show_tasks

        rows = [
            {
                "task": task.name,
                "suite": task.suite.name,
                **(task.sizes._asdict() if task.sizes else {}),
            }
            for task in TASKS.values()
        ]
        show_tasks(rows, [], self.json)


@dataclass(frozen=True)
class Figures:
    """Draw the paper's figure of objectives, the curves of runs, or how AeroJAX's aircraft flies.

    ratiosym figures objectives --out figure1.png

    ratiosym figures runs runs/mars runs/mappo --out curves.png

    ratiosym figures runs runs/mars --show mean_return rooms_cleared entropy

    ratiosym figures aerojax --out aerojax.png

    Figures 2 and 3 are part of 'ratiosym report'.
    """

    what: Annotated[Literal["objectives", "runs", "aerojax"], tyro.conf.Positional]
    """objectives: Figure 1, the three surrogates and their gradients. runs: learning curves and
    ratios. aerojax: turn rates, energy, glide and stall, measured in flight beside the solved
    equations."""
    directories: Annotated[
        tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")
    ] = ()
    """Run directories, for 'runs'."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The picture (.png or .pdf); by default objectives.png, curves.png or aerojax.png here. Ratios
    go beside the curves; those of AeroJAX are aerojax-turns.png and so on."""
    show: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN ...")] = ("mean_return",)
    """For 'runs': columns of evaluations.csv or training.csv, a panel each (docs/metrics.md
    explains them).
    """

    def run(self) -> None:
        """Draw."""
        from ratiosym.report.figures import objectives_figure
        from ratiosym.report.runs import draw_runs

        if self.out is not None and self.out.suffix not in (".png", ".pdf"):
            raise InputError(f"--out is '{self.out}'; its name must end in .png or .pdf.")
        if self.what == "objectives":
            paths = [self.out or Path("objectives.png")]
            objectives_figure(paths[0])
        elif self.what == "aerojax":
            from ratiosym.report.aerojax import draw_all

            paths = draw_all(self.out or Path("aerojax.png"))
        else:
            paths = draw_runs(self.directories, self.out or Path("curves.png"), self.show)
        for path in paths:
            print(path)


@dataclass(frozen=True)
class Demo:
    """MARS learns a task before your eyes, then MAPPO on the same budget. A few minutes on two
    cores.
    """

    out: Path = Path("demo")
    """Where runs and pictures go; a demo that was there before is taken up again or left as it
    is.
    """
    task: str = "connector-5x5x3a"
    """What to learn."""
    steps: int = 400_000
    """Environment steps for each of the two."""

    def run(self) -> None:
        """Train both, draw, compare."""
        from ratiosym.cli.demo import run_demo
        from ratiosym.learning.devices import start_jax

        start_jax()
        run_demo(self.out, self.task, self.steps)


@dataclass(frozen=True)
class Doctor:
    """Say what is installed, which devices there are, and whether the installation matches the
    lock.
    """

    def run(self) -> None:
        """Examine the installation."""
        from ratiosym.cli.display import show_checks
        from ratiosym.cli.doctor import examine
        from ratiosym.learning.devices import start_jax

        start_jax()
        if not show_checks(examine()):
            raise SystemExit(1)


def parse(arguments: list[str]) -> Any:
    """A command from its words. The preset sets the defaults that --help shows and the other
    options change.
    """
    train: Train | None = None
    is_overview = arguments[:1] in ([], ["-h"], ["--help"])

    def about(command: type) -> str | None:
        return (command.__doc__ or "").splitlines()[0] if is_overview else None

    if arguments[:1] == ["train"]:
        if file := find_option(arguments, "--config"):
            if find_option(arguments, "--preset"):
                raise InputError(
                    "--config brings all settings, and --preset others. Give one of them."
                )
            train = Train.of_file(Path(file))
        else:
            objective = find_option(arguments, "--objective") or "mars"
            train = Train.of_preset(find_preset(arguments), find_task_name(arguments), objective)
        if any(a.split("=")[0] == "--resume" for a in arguments):
            train = dataclasses.replace(
                train, steps=0
            )  # the run's own budget, unless another one is given
    is_planned = arguments[:1] != ["tune"] or any(a.split("=")[0] == "--all" for a in arguments)
    tune = (
        Tune() if is_planned else Tune.of_preset(find_preset(arguments), find_task_name(arguments))
    )
    commands = [
        Annotated[
            Train, tyro.conf.subcommand("train", default=train or Train(), description=about(Train))
        ],
        Annotated[Tune, tyro.conf.subcommand("tune", default=tune, description=about(Tune))],
        *(
            Annotated[c, tyro.conf.subcommand(c.__name__.lower(), description=about(c))]
            for c in (
                Evaluate,
                Study,
                Report,
                Baselines,
                Render,
                Play,
                Tasks,
                Figures,
                Demo,
                Doctor,
            )
        ),
    ]
    return tyro.cli(  # type: ignore[call-overload, no-any-return, unused-ignore]
        Union[tuple(commands)],  # noqa: UP007
        prog="ratiosym",
        description="MARS, Multi-Agent Ratio Symmetry: train, evaluate, compare ratio objectives.",
        args=arguments,
    )


def find_preset(arguments: list[str]) -> str:
    """The value of --preset, before everything else is read."""
    found = find_option(arguments, "--preset")
    return "cpu" if found is None else found


def find_option(arguments: list[str], option: str) -> str | None:
    """The value of an option; None without it."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def find_task_name(arguments: list[str]) -> str:
    """The task among the arguments; nothing without it."""
    return next((a for a in arguments if a in TASKS), "")
