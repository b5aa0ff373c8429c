"""``ratiosym render``: animate one episode."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ratiosym.cli.arguments import MAX_SEED, Arg, Command
from ratiosym.cli.evaluate import check_team


@dataclass(frozen=True)
class Render(Command):
    """Render one episode as an animation.

    examples:
      ratiosym render runs/first --out first.gif                   a trained team
      ratiosym render zoo:connector-5x5x3a                         a shipped team
      ratiosym render paxmen-4a --team oracle --out oracle.gif     a scripted team
      ratiosym render runs/aerojax --out fight.acmi                for Tacview
    """

    what: Annotated[str, Arg("DIR|TASK", is_positional=True)]
    """The directory of a run, zoo:TASK for a team that ships with ratiosym, or a task for a
    scripted team."""
    team: Annotated[str | None, Arg("NAME")] = None
    """The scripted team; 'ratiosym baselines TASK' lists them (default: random)."""
    which: Literal["best", "last"] = "best"
    """The parameters of a run's best evaluation, or the last ones."""
    task: Annotated[str | None, Arg("TASK")] = None
    """For a trained team: a task other than its own, with the same sizes."""
    seed: Annotated[int, Arg(low=0, high=MAX_SEED)] = 0
    """The seed of the episode."""
    out: Annotated[Path, Arg("FILE")] = Path("episode.gif")
    """The output file: .gif, or for AeroJAX also .acmi, which Tacview shows in three dimensions."""

    def check(self) -> None:
        """Reject an unknown task or team."""
        from ratiosym.envs.registry import resolve_task
        from ratiosym.runs.zoo import is_zoo, reject_script

        if is_zoo(self.what) or Path(self.what).exists():
            reject_script(self.what, self.team)
            check_team(self.what)
        else:
            resolve_task(self.what)

    def run(self) -> None:
        """Play the episode and draw it."""
        from ratiosym.learning.devices import start_jax
        from ratiosym.report.film import check_film, draw_film
        from ratiosym.runs.episodes import find_cast

        start_jax()
        cast = find_cast(self.what, self.team, self.which, self.task)
        check_film(cast.plain, self.out)
        draw_film(cast.plain, cast.record(self.seed), self.out, cast.title)
        print(self.out)
