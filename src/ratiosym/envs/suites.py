"""Suites of tasks: titles, order in tables and figures, and the paper's budgets."""

from dataclasses import dataclass
from pathlib import PurePath

PAPER_STEPS = 80_000_000  # per final run: twice the length of a tuning run (section 4.1)
PAPER_STEPS_LONG = 240_000_000  # AeroJAX and JaxNav


@dataclass(frozen=True)
class Suite:
    """An environment of the paper, or a family of user-defined tasks."""

    name: str  # prefix of the names of built-in tasks: <name>-<task>
    title: str
    paper_steps: int = PAPER_STEPS


# In the order of the paper's Figure 2.
SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("aerojax", "AeroJAX", PAPER_STEPS_LONG),
        Suite("jaxnav", "JaxNav", PAPER_STEPS_LONG),
        Suite("mpe", "MPE"),
        Suite("paxmen", "PaxMen"),
        Suite("rware", "RWARE"),
        Suite("sar", "Search and Rescue"),
        Suite("smax", "SMAX"),
        Suite("connector", "Connector"),
    )
}

# Families of tasks named ``<library>:<environment>``.
_LIBRARIES = {"jaxmarl": "JaxMARL", "jumanji": "Jumanji"}


def suite_of(task: str) -> Suite:
    """Return the suite of a task, which need not exist.

    User-defined tasks belong to a family: ``mine-easy`` to ``mine``, ``package.module:function`` to
    ``module``, ``path/to/file.py:function`` to ``file``, ``jaxmarl:NAME`` to ``jaxmarl``.
    """
    before, colon, _ = task.rpartition(":")
    if colon and before in _LIBRARIES:
        return Suite(before, _LIBRARIES[before])
    if colon:
        is_file = before.endswith(".py")
        name = PurePath(before).stem if is_file else before.rpartition(".")[2]
        return Suite(name, name)
    name = task.partition("-")[0]
    return SUITES.get(name, Suite(name, name))
