"""``ratiosym tasks``: list the tasks."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ratiosym.cli.arguments import Command


@dataclass(frozen=True)
class Tasks(Command):
    """List the tasks.

    Wherever a task is expected, you can also give an environment of your own as
    package.module:function or path/to/file.py:function, or an environment of another library as
    jaxmarl:NAME or jumanji:NAME (docs/environments/).
    """

    json: bool = False
    """Print JSON, for other programs."""

    def run(self) -> None:
        """Print the table, without sizes for custom tasks, as no environment is built."""
        from ratiosym.cli.display import show_tasks
        from ratiosym.envs.registry import tasks
        from ratiosym.envs.suites import suite_of
        from ratiosym.envs.tasks import TASKS

        rows: list[dict[str, Any]] = []
        for name in tasks():
            sizes = TASKS[name].sizes if name in TASKS else None
            rows.append(
                {"task": name, "suite": suite_of(name).name, **(sizes._asdict() if sizes else {})}
            )
        show_tasks(rows, missing_libraries(), self.json)


def missing_libraries() -> list[str]:
    """Return what to install for tasks whose library is missing."""
    from ratiosym.cli.doctor import OPTIONAL

    return [OPTIONAL[name] for name in ("jaxmarl", "jumanji") if find_spec(name) is None]
