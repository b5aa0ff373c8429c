"""The built-in tasks: the paper's 47 and variants of them.

This module is pure data: importing it loads neither JAX nor any environment, so that the command
line can list tasks instantly. To add a built-in task, add a row. User-defined tasks need no row:
see ``envs.registry``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from ratiosym.envs.suites import Suite, suite_of


class Sizes(NamedTuple):
    """Sizes of a task's ``EnvSpec``, without agent ids, for tables."""

    num_agents: int
    action_kind: Literal["discrete", "continuous"]
    action_size: int  # number of discrete actions, or length of the vector
    observation_size: int
    state_size: int
    time_limit: int


@dataclass(frozen=True)
class Task:
    """A named task and how to build its environment."""

    name: str
    factory: Callable[..., Any] | str  # the function, or a reference ``package.module:function``
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: Sizes | None = None  # for built-in tasks, known without building them

    @property
    def suite(self) -> Suite:
        """Suite that the task belongs to."""
        return suite_of(self.name)

    def build(self) -> Any:
        """Call the factory; the environment has no agent ids."""
        factory = resolve_name(self.factory) if isinstance(self.factory, str) else self.factory
        return factory(*self.arguments, **self.options)


def _rware(size: str, num_agents: int, hard: bool = False) -> Task:
    return Task(
        f"rware-{size}-{num_agents}ag{'-hard' if hard else ''}",
        "ratiosym.envs.adapters.jumanji.rware:rware",
        (size, num_agents, hard),
        sizes=Sizes(num_agents, "discrete", 5, 66, 66 * num_agents, 500),
    )


def _connector(side: int, num_agents: int) -> Task:
    return Task(
        f"connector-{side}x{side}x{num_agents}a",
        "ratiosym.envs.adapters.jumanji.connector:connector",
        (side, num_agents),
        sizes=Sizes(num_agents, "discrete", 5, 54, 54 * num_agents, side * side),
    )


def _smax(scenario: str, num_allies: int, num_enemies: int) -> Task:
    num_units = num_allies + num_enemies
    return Task(
        f"smax-{scenario}",
        "ratiosym.envs.adapters.jaxmarl.smax:smax",
        (scenario,),
        sizes=Sizes(
            num_allies, "discrete", 5 + num_enemies, 13 * (num_units - 1) + 10, 12 * num_units, 101
        ),
    )


def _mpe(num_agents: int) -> Task:
    view = 6 * num_agents
    return Task(
        f"mpe-spread-{num_agents}ag",
        "ratiosym.envs.adapters.jaxmarl.mpe:mpe_spread",
        (num_agents,),
        sizes=Sizes(num_agents, "continuous", 5, view, view * num_agents, 26),
    )


def _jaxnav(side: int, num_agents: int, encoded: bool = False) -> Task:
    # state size: the inner cells, seven numbers per robot, and the time
    state_size = (side - 2) ** 2 + 7 * num_agents + 1
    return Task(
        f"jaxnav-{side}x{side}x{num_agents}a{'-encoded' if encoded else ''}",
        "ratiosym.envs.adapters.jaxmarl.jaxnav:jaxnav",
        (side, num_agents),
        {"encoded": True} if encoded else {},
        sizes=Sizes(num_agents, "continuous", 2, 205, state_size, 500),
    )


def _paxmen(num_agents: int, held_out: bool = False) -> Task:
    # state size: the free cells of the map
    state_size, time_limit = {4: (101, 100), 5: (140, 115), 6: (187, 130)}[num_agents]
    return Task(
        f"paxmen-{num_agents}a{'-heldout' if held_out else ''}",
        "ratiosym.envs.paxmen.env:paxmen",
        (num_agents,),
        {"held_out": held_out},
        sizes=Sizes(num_agents, "discrete", 5, 25, state_size, time_limit),
    )


def _aerojax(num_agents: int, level: str | None = None) -> Task:
    name = f"aerojax-{num_agents}v{num_agents}"
    return Task(
        name if level is None else f"{name}-{level.lower()}",
        "ratiosym.envs.aerojax.env:dogfight",
        (num_agents,) if level is None else (num_agents, level),
        sizes=Sizes(num_agents, "continuous", 3, 24 * num_agents + 3, 38 * num_agents + 3, 500),
    )


def _search_and_rescue(num_targets: int, num_agents: int) -> Task:
    return Task(
        f"sar-{num_targets}tg-{num_agents}ag",
        "ratiosym.envs.adapters.jumanji.search_and_rescue:search_and_rescue",
        (num_targets, num_agents),
        sizes=Sizes(num_agents, "continuous", 2, 386, 386 * num_agents, 400),
    )


_ROWS = (
    _rware("tiny", 2),
    _rware("tiny", 2, hard=True),
    _rware("tiny", 4),
    _rware("tiny", 4, hard=True),
    _rware("small", 4),
    _rware("small", 4, hard=True),
    _rware("medium", 4),
    _rware("medium", 4, hard=True),
    _rware("medium", 6),
    _rware("large", 4),
    _rware("large", 4, hard=True),
    _rware("large", 8),
    _rware("large", 8, hard=True),
    _rware("xlarge", 4),
    _rware("xlarge", 4, hard=True),
    _connector(5, 3),
    _connector(7, 5),
    _connector(10, 10),
    _connector(15, 23),
    _connector(18, 33),
    _smax("2s3z", 5, 5),
    _smax("3s5z", 8, 8),
    _smax("3s5z_vs_3s6z", 8, 9),
    _smax("3s_vs_5z", 3, 5),
    _smax("5m_vs_6m", 5, 6),
    _smax("10m_vs_11m", 10, 11),
    _smax("27m_vs_30m", 27, 30),
    _smax("6h_vs_8z", 6, 8),
    _smax("smacv2_5_units", 5, 5),
    _smax("smacv2_10_units", 10, 10),
    _smax("smacv2_20_units", 20, 20),
    _mpe(3),
    _mpe(5),
    _mpe(10),
    _jaxnav(11, 4),
    _jaxnav(9, 3),
    _jaxnav(8, 2),
    _paxmen(4),
    _paxmen(5),
    _paxmen(6),
    _aerojax(2),
    _aerojax(4),
    _aerojax(8),
    _search_and_rescue(100, 2),
    _search_and_rescue(200, 4),
    _search_and_rescue(300, 6),
    _search_and_rescue(400, 8),
)

TASKS: dict[str, Task] = {task.name: task for task in _ROWS}

# Same as ``aerojax.opponents.LEVELS``, which needs JAX; a test compares the two.
OPPONENT_LEVELS = ("straight", "L1", "L2", "L3", "L4")

# Variants that can be trained by name but are not part of the paper's results.
_VARIANT_ROWS: tuple[Task, ...] = (
    *(_paxmen(num_agents, held_out=True) for num_agents in (4, 5, 6)),
    *(_jaxnav(side, num_agents, encoded=True) for side, num_agents in ((11, 4), (9, 3), (8, 2))),
    *(_aerojax(num_agents, level) for num_agents in (2, 4, 8) for level in OPPONENT_LEVELS),
)

VARIANTS: dict[str, Task] = {task.name: task for task in _VARIANT_ROWS}
