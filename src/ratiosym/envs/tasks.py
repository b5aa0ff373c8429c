"""The table of tasks. A further task is a further row."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from ratiosym.envs.adapters.jaxmarl import jaxnav, mpe_spread, smax
from ratiosym.envs.adapters.jumanji import connector, rware, search_and_rescue
from ratiosym.envs.aerojax.env import dogfight
from ratiosym.envs.aerojax.opponents import LEVELS
from ratiosym.envs.paxmen.env import paxmen
from ratiosym.envs.protocol import Env
from ratiosym.envs.wrappers import with_agent_ids
from ratiosym.errors import InputError


@dataclass(frozen=True)
class Task:
    """One row: ``<suite>-<task>``, and how its environment is made."""

    name: str
    suite: str
    make: Callable[[], Env]


_ROWS = (
    Task("rware-tiny-2ag", "rware", partial(rware, "tiny", 2)),
    Task("rware-tiny-2ag-hard", "rware", partial(rware, "tiny", 2, hard=True)),
    Task("rware-tiny-4ag", "rware", partial(rware, "tiny", 4)),
    Task("rware-tiny-4ag-hard", "rware", partial(rware, "tiny", 4, hard=True)),
    Task("rware-small-4ag", "rware", partial(rware, "small", 4)),
    Task("rware-small-4ag-hard", "rware", partial(rware, "small", 4, hard=True)),
    Task("rware-medium-4ag", "rware", partial(rware, "medium", 4)),
    Task("rware-medium-4ag-hard", "rware", partial(rware, "medium", 4, hard=True)),
    Task("rware-medium-6ag", "rware", partial(rware, "medium", 6)),
    Task("rware-large-4ag", "rware", partial(rware, "large", 4)),
    Task("rware-large-4ag-hard", "rware", partial(rware, "large", 4, hard=True)),
    Task("rware-large-8ag", "rware", partial(rware, "large", 8)),
    Task("rware-large-8ag-hard", "rware", partial(rware, "large", 8, hard=True)),
    Task("rware-xlarge-4ag", "rware", partial(rware, "xlarge", 4)),
    Task("rware-xlarge-4ag-hard", "rware", partial(rware, "xlarge", 4, hard=True)),
    Task("connector-5x5x3a", "connector", partial(connector, 5, 3)),
    Task("connector-7x7x5a", "connector", partial(connector, 7, 5)),
    Task("connector-10x10x10a", "connector", partial(connector, 10, 10)),
    Task("connector-15x15x23a", "connector", partial(connector, 15, 23)),
    Task("connector-18x18x33a", "connector", partial(connector, 18, 33)),
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
    Task("jaxnav-11x11x4a", "jaxnav", partial(jaxnav, 11, 4)),
    Task("jaxnav-9x9x3a", "jaxnav", partial(jaxnav, 9, 3)),
    Task("jaxnav-8x8x2a", "jaxnav", partial(jaxnav, 8, 2)),
    Task("paxmen-4a", "paxmen", partial(paxmen, 4)),
    Task("paxmen-5a", "paxmen", partial(paxmen, 5)),
    Task("paxmen-6a", "paxmen", partial(paxmen, 6)),
    Task("aerojax-2v2", "aerojax", partial(dogfight, 2)),
    Task("aerojax-4v4", "aerojax", partial(dogfight, 4)),
    Task("aerojax-8v8", "aerojax", partial(dogfight, 8)),
    Task("sar-100tg-2ag", "sar", partial(search_and_rescue, 100, 2)),
    Task("sar-200tg-4ag", "sar", partial(search_and_rescue, 200, 4)),
    Task("sar-300tg-6ag", "sar", partial(search_and_rescue, 300, 6)),
    Task("sar-400tg-8ag", "sar", partial(search_and_rescue, 400, 8)),
)

TASKS: dict[str, Task] = {task.name: task for task in _ROWS}

# Beside the paper's tasks: made and trained by name, but in no table of results.
_VARIANT_ROWS: tuple[Task, ...] = (
    Task("paxmen-4a-heldout", "paxmen", partial(paxmen, 4, held_out=True)),
    Task("paxmen-5a-heldout", "paxmen", partial(paxmen, 5, held_out=True)),
    Task("paxmen-6a-heldout", "paxmen", partial(paxmen, 6, held_out=True)),
    *(
        Task(f"aerojax-{n}v{n}-{level.lower()}", "aerojax", partial(dogfight, n, level))
        for n in (2, 4, 8)
        for level in LEVELS
    ),
)

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

    ``agent_ids`` puts the one-hot agent id in front of each agent's observation, as in all the
    paper's runs.
    """
    env = find_task(name).make()
    return with_agent_ids(env) if agent_ids else env
