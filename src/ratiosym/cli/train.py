"""``ratiosym train``: start a run, or resume one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

from ratiosym.cli.arguments import (
    Arg,
    Command,
    Option,
    field_docs,
    find_value,
    options_of,
    to_flag,
)
from ratiosym.errors import InputError

if TYPE_CHECKING:
    from ratiosym.learning.config import RunConfig
    from ratiosym.objectives import Objective
    from ratiosym.runs.directory import Run

RUN, OBJECTIVE, NETWORK = "run", "objective", "network"
OPTIMISATION, DEVICES = "optimisation", "devices"
GROUPS = (RUN, OBJECTIVE, OPTIMISATION, NETWORK, DEVICES)
# Settings are grouped under optimisation unless listed here.
GROUP_OF = {
    **dict.fromkeys(("seed", "steps", "num_evaluations", "num_eval_episodes"), RUN),
    **dict.fromkeys(("network", "hidden_size", "actor_hidden_size", "critic_hidden_size"), NETWORK),
    **dict.fromkeys(("actor_depth", "critic_depth", "critic", "action_distribution"), NETWORK),
}
METAVARS = {"network": "NAME"}
FURTHER_DOCS = {"seed": "The random seed. On one machine, a seed always gives the same numbers."}


@dataclass(frozen=True)
class Train(Command):
    """Train a policy on a task, or resume a run.

    examples:
      ratiosym train mpe-spread-3ag --objective mars --out runs/first
      ratiosym train mpe-spread-3ag --objective mappo --epsilon 0.1 --num-seeds 2
      ratiosym train aerojax-2v2 --tuned --steps 10000000    settings of a search
      ratiosym train --resume runs/first                     after an interruption
      ratiosym train --resume runs/first --steps 2000000     train for longer
      ratiosym train --from runs/first --actor-learning-rate 1e-4  from a checkpoint
      ratiosym train --config tuning/first/best.json         the result of a search
      ratiosym train my_tasks.py:make_env                    a task of your own

    Defaults depend on the preset and the task: 'ratiosym train TASK --help' shows those of a task,
    'ratiosym train TASK --preset paper --help' those with the paper's budget.

    The run's directory contains config.json, evaluations.csv, training.csv, summary.json and
    checkpoint/ (docs/concepts/run-directory.md explains the tables).
    """

    task: Annotated[str | None, Arg("TASK", RUN, is_positional=True)] = None
    """The task: one of 'ratiosym tasks', package.module:function or path/to/file.py:function for an
    environment of your own, jaxmarl:NAME or jumanji:NAME for one of those libraries."""
    preset: Annotated[str, Arg("NAME", RUN)] = "cpu"
    """Budget and sizes. paper: the paper's lengths, with sizes from Mava where the paper states
    none; cpu: minutes on two cores; smoke: seconds, to check that everything works."""
    tuned: Annotated[bool, Arg(group=RUN)] = False
    """Start from the settings that a search found for this task and objective
    (docs/how-to/tuning.md). Without this option, all objectives share the same settings."""
    config: Annotated[Path | None, Arg("FILE", RUN)] = None
    """Take the task and all settings from this file instead of a preset: the best.json of a search
    or the config.json of a run."""
    resume: Annotated[Path | None, Arg("DIR", RUN)] = None
    """Resume the run in this directory, exactly as if it had not been interrupted."""
    from_run: Annotated[str | None, Arg("RUN[@UPDATE]", RUN, flag="--from")] = None
    """Start a new run from a checkpoint of this run (the latest, or that of an update) with other
    settings. Task, seed, network and sizes cannot change."""
    out: Annotated[Path | None, Arg("DIR", RUN)] = None
    """The run's directory, new or empty (default: runs/TASK/OBJECTIVE/seed-S; with --from:
    RUN-from-UPDATE)."""
    num_seeds: Annotated[int, Arg(group=RUN)] = 1
    """Train seeds S, S + 1, ... in parallel, each in DIR/seed-S: one device per seed if there are
    enough devices, otherwise several seeds per device."""
    track: Annotated[tuple[str, ...], Arg("TRACKER", RUN)] = ()
    """Trackers to log to: tensorboard, wandb, or a custom one as package.module:function."""
    coordinator: Annotated[str | None, Arg("HOST:PORT", DEVICES)] = None
    """Several hosts: the address of process 0, the same for all of them."""
    num_processes: Annotated[int | None, Arg("N", DEVICES)] = None
    """Several hosts: the number of processes."""
    process_id: Annotated[int | None, Arg("I", DEVICES)] = None
    """Several hosts: the index of this process, from 0."""
    settings: dict[str, Any] = field(default_factory=dict)
    """All other options that were given, as arguments of ``presets.configure``."""
    given: frozenset[str] = frozenset()
    """The names of all options that were given, including those given with their default."""

    other_names: ClassVar = {
        **dict.fromkeys(("lr", "learning-rate", "actor-lr"), "--actor-learning-rate"),
        **dict.fromkeys(("algorithm", "algo", "alg", "loss"), "--objective"),
        **dict.fromkeys(("timesteps", "total-timesteps", "budget"), "--steps"),
        **dict.fromkeys(("output", "dir", "directory"), "--out"),
        **dict.fromkeys(("memory", "net", "model"), "--network"),
        **dict.fromkeys(("clip", "clip-eps", "eps"), "--epsilon"),
        **dict.fromkeys(("ent-coef", "entropy"), "--entropy-coefficient"),
        **dict.fromkeys(("anneal-lr", "lr-decay"), "--anneal-learning-rates"),
        "gamma": "--discount",
        "lambda": "--gae-lambda",
        "critic-lr": "--critic-learning-rate",
        "batch-size": "--num-minibatches",
        "wandb": "--track wandb",
        "env": "TASK",
        "task": "TASK",
    }

    @classmethod
    def options(cls, words: Sequence[str]) -> list[Option]:
        """Return the command's own options and all settings, including objective parameters."""
        own = options_of(cls, skip=("settings", "given"))
        found = [*own, *setting_options(find_objective(words))]
        return sorted(found, key=lambda option: GROUPS.index(option.arg.group))

    @classmethod
    def build(cls, given: dict[str, Any]) -> "Train":
        """Separate settings from the command's own options."""
        own = {f.name for f in fields(cls)}
        settings = {name: value for name, value in given.items() if name not in own}
        return cls(
            **{n: v for n, v in given.items() if n in own},
            settings=settings,
            given=frozenset(given),
        )

    @classmethod
    def defaults(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of the given preset, task and objective."""
        from ratiosym.experiments.presets import change, flat, preset
        from ratiosym.experiments.settings import shipped_settings

        train = cls.build(given)
        objective = {k: v for k, v in train.settings.items() if k == "objective"}
        if train.config is not None:
            base = read_config(train)
        elif train.from_run is not None:
            from ratiosym.runs.branch import find_parent

            base = find_parent(train.from_run)[0].config
        else:
            base = change(preset(train.preset, train.task or ""), **objective)
            if train.tuned:
                base = change(base, **shipped_settings(base.task, base.objective))
        return flat(change(base, **objective))

    def run_config(self) -> "RunConfig":
        """Return the same configuration as ``ratiosym.train`` for these options."""
        from ratiosym.envs.registry import task_name
        from ratiosym.experiments.presets import change, configure

        if self.config is not None:
            config = change(read_config(self), **self.settings)
            config.validate()
            return config
        if self.task is None:
            raise InputError(
                "Name a task, as in 'ratiosym train mpe-spread-3ag'. 'ratiosym tasks' lists all."
            )
        # Report an unknown task before anything that depends on it.
        return configure(task_name(self.task), self.preset, self.tuned, **self.settings)

    def check(self) -> None:
        """Reject settings, trackers and directories that cannot be used."""
        from ratiosym.plain import check_count
        from ratiosym.runs.branch import find_parent
        from ratiosym.runs.directory import check_free, runs_to_resume
        from ratiosym.runs.trackers import load_trackers

        if self.resume is not None:
            self.check_resume()
            runs_to_resume(self.resume)
        elif self.from_run is not None:
            self.check_from()
            find_parent(self.from_run)
        else:
            config = self.run_config()
            check_count("num_seeds", self.num_seeds)
            if self.coordinator is None:  # otherwise another process may already have created it
                check_free(self.find_out(config))
        load_trackers(self.track)

    def find_out(self, config: "RunConfig") -> Path:
        """Return the directory of a new run."""
        from ratiosym.runs.directory import default_directory

        return self.out or default_directory(config, self.num_seeds)

    def run(self) -> None:
        """Train or resume, and show the progress."""
        from ratiosym.cli.display import show_summaries

        if self.resume is not None:
            show_summaries(self.resume_run(self.resume))
        elif self.from_run is not None:
            show_summaries(self.branch_run(self.from_run))
        else:
            show_summaries(self.start_run(self.run_config()))

    def start_run(self, config: "RunConfig") -> "list[Run]":
        """Start a new run."""
        from ratiosym.cli.display import console, show_progress
        from ratiosym.learning.devices import start_jax
        from ratiosym.runs import loop

        start_jax(self.coordinator, self.num_processes, self.process_id)
        out = self.find_out(config)
        origin = {} if self.config else {"preset": self.preset, "tuned": self.tuned}
        if self.tuned:
            what = f"{config.objective} on {config.task}"
            console.print(f"Settings tuned for {what} (docs/how-to/tuning.md).", soft_wrap=True)
        with show_progress(out) as on_progress:
            return loop.start(config, out, self.num_seeds, on_progress, self.track, origin)

    def resume_run(self, directory: Path) -> "list[Run]":
        """Resume the run in a directory."""
        from ratiosym.cli.display import show_progress
        from ratiosym.learning.devices import start_jax
        from ratiosym.runs import loop

        start_jax(self.coordinator, self.num_processes, self.process_id)
        steps, track = self.settings.get("steps"), self.track or None
        with show_progress(directory) as on_progress:
            return loop.resume(directory, steps, on_progress, track)

    def branch_run(self, parent: str) -> "list[Run]":
        """Start a new run from a checkpoint of another."""
        from ratiosym.api import branched_config
        from ratiosym.cli.display import show_progress
        from ratiosym.learning.devices import start_jax
        from ratiosym.runs import loop
        from ratiosym.runs.branch import default_out, find_parent

        run, update = find_parent(parent)
        config = branched_config(run.config, self.settings)
        start_jax(self.coordinator, self.num_processes, self.process_id)
        out = self.out or default_out(run, update)
        with show_progress(out) as on_progress:
            return loop.branch(parent, config, out, on_progress, self.track or None)

    def check_resume(self) -> None:
        """Reject settings for a resumed run, except for a larger budget."""
        allowed = ("resume", "steps", "track", "coordinator", "num_processes", "process_id")
        if names := self.names_of(self.given - set(allowed)):
            raise InputError(
                f"--resume takes all settings from the run's config.json. Omit {names}; only "
                f"--steps can be given, to train for longer. To change other settings, start a new "
                f"run from its checkpoint with --from."
            )

    def check_from(self) -> None:
        """Reject options that cannot be combined with --from."""
        if names := self.names_of(self.given & {"task", "preset", "tuned", "config", "num_seeds"}):
            raise InputError(
                f"--from takes the task and all other settings from the run's config.json. Omit "
                f"{names}."
            )

    def names_of(self, names: Iterable[str]) -> str:
        """Return options as they are typed, in the order of the help."""
        own = [f.name for f in fields(self)]
        order = [*(n for n in own if n in names), *(n for n in self.settings if n in names)]
        known = {"task": "TASK", "from_run": "--from"}
        return ", ".join(known.get(name) or to_flag(name) for name in order)


def read_config(train: Train) -> "RunConfig":
    """Read the settings from the --config file."""
    from ratiosym.experiments.presets import read_settings

    if names := train.names_of(train.given & {"task", "preset", "tuned"}):
        raise InputError(f"--config provides the task and all settings. Omit {names}.")
    assert train.config is not None
    return read_settings(train.config)


def find_objective(words: Sequence[str]) -> str | None:
    """Find the objective on the command line, in the --config file or in the --from run, to offer
    its parameters.
    """
    objective, file = find_value(words, "--objective"), find_value(words, "--config")
    parent = find_value(words, "--from")
    if objective is not None or not (file or parent):
        return objective
    from ratiosym.experiments.presets import read_settings
    from ratiosym.runs.branch import find_parent

    try:
        if parent:
            return find_parent(parent)[0].config.objective
        return read_settings(Path(file or "")).objective
    except InputError:  # reported later, when the settings are read
        return None


# -------------------------------------------------------------------------------- settings of a run


def setting_options(objective: str | None) -> list[Option]:
    """Return an option per argument of ``presets.configure`` and per objective parameter."""
    from ratiosym.learning.config import Hyperparameters, RunConfig, RunShape

    parts = (RunConfig, Hyperparameters, RunShape)
    skip = {"task", "objective", "objective_parameters", "hyperparameters", "shape"}
    found = [option for part in parts for option in _settings_of(part, skip)]
    width = Option("hidden_size", int, "Sets both of the following.", Arg(group=NETWORK))
    index = next(i for i, option in enumerate(found) if option.name == "actor_hidden_size")
    return [*objective_options(objective), *found[:index], width, *found[index:]]


def _settings_of(part: type, skip: Iterable[str]) -> list[Option]:
    docs, hints = {**FURTHER_DOCS, **field_docs(part)}, get_type_hints(part)
    return [
        Option(
            f.name,
            hints[f.name],
            docs.get(f.name, ""),
            Arg(METAVARS.get(f.name, ""), GROUP_OF.get(f.name, OPTIMISATION)),
            has_negation=True,
        )
        for f in fields(part)
        if f.name not in skip
    ]


def objective_options(named: str | None) -> list[Option]:
    """Return ``--objective`` and each objective parameter once, even if several share it."""
    from ratiosym.objectives import OBJECTIVES, get_objective

    objectives = dict(OBJECTIVES)
    if named is not None and ":" in named:
        objectives[named] = get_objective(named)
    names = ", ".join(OBJECTIVES)
    choice = Option(
        "objective",
        str,
        f"The objective to maximise: {names}; or a custom one as package.module:OBJECTIVE.",
        Arg("NAME", OBJECTIVE),
    )
    parameters = dict.fromkeys(p.name for o in objectives.values() for p in o.parameters)
    return [choice, *(_parameter_option(name, objectives) for name in parameters)]


def _parameter_option(name: str, objectives: "dict[str, Objective]") -> Option:
    """Describe a parameter once for all objectives that share its meaning."""
    owners: dict[str, list[str]] = {}
    defaults = []
    for key, objective in objectives.items():
        for parameter in objective.parameters:
            if parameter.name == name:
                owners.setdefault(parameter.help, []).append(key)
                defaults.append(parameter.default)
    text = " ".join(f"For {', '.join(keys)}: {text}" for text, keys in owners.items())
    return Option(name, float, text.strip(), Arg(group=OBJECTIVE), default=defaults[0])
