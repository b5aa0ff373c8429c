"""``ratiosym play``: control one agent in the terminal."""

from dataclasses import dataclass
from typing import Annotated

from ratiosym.cli.arguments import MAX_SEED, Arg, Command


@dataclass(frozen=True)
class Play(Command):
    """Control one agent yourself, in a scripted team.

    examples:
      ratiosym play paxmen-4a
    """

    task: Annotated[str, Arg("TASK", is_positional=True)]
    """A task of PaxMen."""
    agent: int = 0
    """The agent that you control."""
    team: Annotated[str | None, Arg("NAME")] = None
    """The scripted team that plays the others; 'ratiosym baselines TASK' lists them (default: the
    last one)."""
    seed: Annotated[int, Arg(low=0, high=MAX_SEED)] = 0
    """The seed of the episode."""

    def check(self) -> None:
        """Reject an unknown task."""
        from ratiosym.envs.registry import resolve_task

        resolve_task(self.task)

    def run(self) -> None:
        """Play an episode."""
        from ratiosym.cli.terminal_game import play_episode
        from ratiosym.learning.devices import start_jax

        start_jax()
        play_episode(self.task, self.agent, self.team, self.seed)
