"""The suites: titles, their order in tables and figures, and the paper's budgets."""

from dataclasses import dataclass

PAPER_STEPS = 80_000_000  # of a final run: twice the tuning length (section 4.1)
PAPER_STEPS_LONG = 240_000_000  # AeroJAX and JaxNav


@dataclass(frozen=True)
class Suite:
    """One environment of the paper, or a family of tasks of your own."""

    name: str  # a task's name begins with it: <name>-<task>
    title: str
    paper_steps: int = PAPER_STEPS


# In the order of the paper's Table 1.
SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("aerojax", "AeroJAX", PAPER_STEPS_LONG),
        Suite("connector", "Connector"),
        Suite("jaxnav", "JaxNav", PAPER_STEPS_LONG),
        Suite("mpe", "MPE"),
        Suite("paxmen", "PaxMen"),
        Suite("rware", "RWARE"),
        Suite("sar", "Search and Rescue"),
        Suite("smax", "SMAX"),
    )
}


def suite_of(task: str) -> Suite:
    """The suite of a task. A task of your own is a suite by itself, named after what comes before
    its first dash.
    """
    name = task.partition("-")[0]
    return SUITES.get(name, Suite(name, name))
