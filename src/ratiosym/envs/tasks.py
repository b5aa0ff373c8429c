"""The table of tasks. A further task is a further row."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from ratiosym.envs.jaxmarl import mpe_spread, smax
from ratiosym.envs.protocol import Env
from ratiosym.envs.wrappers import with_agent_ids
from ratiosym.types import InputError


@dataclass(frozen=True)
class Task:
    """One row: ``<suite>-<task>``, and how its environment is made."""

    name: str
    suite: str
    make: Callable[[], Env]


_ROWS = (
    Task("smax-2s3z", "smax", partial(smax, "2s3z")),
    Task("smax-3s5z", "smax", partial(smax, "3s5z")),
    Task("smax-3s5z_vs_3s6z", "smax", partial(smax, "3s5z_vs_3s6z")),
    Task("smax-3s_vs_5z", "smax", partial(smax, "3s_vs_5z")),
    Task("smax-5m_vs_6m", "smax", partial(smax, "5m_vs_6m")),
    Task("smax-10m_vs_11m", "smax", partial(smax, "10m_vs_11m")),
    Task("smax-27m_vs_30m", "smax", partial(smax, "27m_vs_30m")),
    Task("smax-6h_vs_8z", "smax", partial(smax, "6h_vs_8z")),
    Task("smax-smacv2_5_units", "smax", partial(smax, "smacv2_5_units")),
    Task("smax-smacv2_10_units", "smax", partial(smax, "smacv2_10_units")),
    Task("smax-smacv2_20_units", "smax", partial(smax, "smacv2_20_units")),
    Task("mpe-spread-3ag", "mpe", partial(mpe_spread, 3)),
    Task("mpe-spread-5ag", "mpe", partial(mpe_spread, 5)),
    Task("mpe-spread-10ag", "mpe", partial(mpe_spread, 10)),
)

TASKS: dict[str, Task] = {task.name: task for task in _ROWS}

# Beside the paper's tasks: made and trained by name, but in no table of results.
_VARIANT_ROWS: tuple[Task, ...] = ()

VARIANTS: dict[str, Task] = {task.name: task for task in _VARIANT_ROWS}


def find_task(name: str) -> Task:
    """The row of a task, or an error that names the closest one."""
    tasks = TASKS | VARIANTS
    if name not in tasks:
        closest = "".join(f" Closest: {match!r}." for match in get_close_matches(name, tasks, n=1))
        raise InputError(f"Unknown task {name!r}.{closest} List all with 'ratiosym tasks'.")
    return tasks[name]


def make(name: str, agent_ids: bool = True) -> Env:
    """Make the environment of a task; twice the same name gives equal environments.

    ``agent_ids`` puts the one-hot agent id in front of each agent's observation, as in all the paper's runs.
    """
    env = find_task(name).make()
    return with_agent_ids(env) if agent_ids else env
