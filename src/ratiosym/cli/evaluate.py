"""``ratiosym evaluate``: evaluate a trained policy on fresh episodes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ratiosym.cli.arguments import MAX_SEED, Arg, Command


@dataclass(frozen=True)
class Evaluate(Command):
    """Evaluate a trained policy on fresh episodes.

    examples:
      ratiosym evaluate runs/first --episodes 320
      ratiosym evaluate zoo:connector-5x5x3a                    a shipped team
      ratiosym evaluate runs/paxmen --task paxmen-4a-heldout    unseen layouts
      ratiosym evaluate runs/aerojax --task aerojax-2v2-l4      strong opponents
    """

    run_or_zoo: Annotated[str, Arg("DIR", is_positional=True)]
    """The directory of a run, or zoo:TASK for a team that ships with ratiosym."""
    num_episodes: Annotated[int, Arg("N", flag="--episodes")] = 320
    """The number of episodes; the paper's absolute metric uses 320."""
    which: Literal["best", "last"] = "best"
    """The parameters of the best evaluation, or the last ones."""
    task: Annotated[str | None, Arg("TASK")] = None
    """A task other than the one it was trained on, with the same sizes."""
    seed: Annotated[int, Arg(low=0, high=MAX_SEED)] = 0
    """The seed of the episodes."""

    def check(self) -> None:
        """Reject an unknown run or team."""
        check_team(self.run_or_zoo)

    def run(self) -> None:
        """Evaluate the policy and show the results."""
        from ratiosym.cli.display import show_episodes
        from ratiosym.learning.devices import start_jax
        from ratiosym.runs.trained import evaluate

        start_jax()
        episodes = evaluate(self.run_or_zoo, self.num_episodes, self.which, self.seed, self.task)
        show_episodes(self.run_or_zoo, episodes)


def check_team(name: str) -> None:
    """Reject what is neither a run nor a team of the zoo."""
    from ratiosym.runs import zoo
    from ratiosym.runs.directory import single_run

    if zoo.is_zoo(name):
        zoo.find_team(name)
    else:
        single_run(Path(name))
