"""``ratiosym baselines``: the scripted teams of a task."""

from dataclasses import dataclass
from typing import Annotated

from ratiosym.cli.arguments import MAX_SEED, Arg, Command


@dataclass(frozen=True)
class Baselines(Command):
    """Play the scripted teams of a task, as baselines for training.

    examples:
      ratiosym baselines paxmen-4a --episodes 1000
    """

    task: Annotated[str, Arg("TASK", is_positional=True)]
    """The task. Every task has a random team; some have more."""
    num_episodes: Annotated[int, Arg("N", flag="--episodes")] = 320
    """The number of episodes per team."""
    seed: Annotated[int, Arg(low=0, high=MAX_SEED)] = 0
    """The seed of the episodes; all teams start from the same states."""

    def check(self) -> None:
        """Reject an unknown task."""
        from ratiosym.envs.registry import resolve_task

        resolve_task(self.task)

    def run(self) -> None:
        """Play all teams and show their results."""
        from ratiosym.cli.display import show_baselines
        from ratiosym.envs.registry import make
        from ratiosym.envs.teams import references_of
        from ratiosym.learning.devices import start_jax
        from ratiosym.runs.episodes import play_baselines

        start_jax()
        played = play_baselines(self.task, self.num_episodes, self.seed)
        show_baselines(self.task, played, references_of(make(self.task, agent_ids=False)))
