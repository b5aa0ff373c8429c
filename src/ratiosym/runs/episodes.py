"""Episodes of trained teams (a run's directory or ``zoo:TASK``) and scripted ones (a task)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from ratiosym.envs.protocol import Env
from ratiosym.envs.registry import make, resolve_task
from ratiosym.envs.teams import Team, get_team, teams_of
from ratiosym.envs.wrappers import without_agent_ids
from ratiosym.errors import InputError
from ratiosym.learning.config import check_seed
from ratiosym.learning.evaluate import Episodes, Moment, record_episode, run_episodes
from ratiosym.learning.policy import Policy
from ratiosym.runs.trained import env_to_play, load_trained
from ratiosym.runs.zoo import is_zoo, reject_script

BATCH = 256  # episodes in parallel


@dataclass(frozen=True)
class Cast:
    """A team and the environment it plays."""

    title: str
    env: Env  # as the team observes it
    plain: Any  # the same without wrappers, for drawing
    team: Team

    def record(self, seed: int) -> list[Moment]:
        """Record the snapshots of one episode."""
        check_seed(seed)
        return record_episode(self.env, self.team, jax.random.key(seed))


def find_cast(
    what: str,
    team: str | None = None,
    which: str = "best",
    task: str | None = None,
    env: Env | None = None,
) -> Cast:
    """Find a trained team (``what`` is a run's directory or ``zoo:TASK``) or a scripted one
    (``what`` is a task).

    A trained team can play another ``task`` with the same sizes. A run that was trained on an
    ``Env`` object needs an equal object as ``env``.
    """
    if not is_zoo(what) and not Path(what).exists():
        what = resolve_task(what).name  # an error names the closest task
        if task is not None:
            raise InputError(
                f"`task` is for a trained team, but '{what}' is already a task. Omit one of them."
            )
        if env is not None:
            raise InputError(
                f"`env` is for a trained team, but '{what}' is a task, which has its own. Omit one "
                f"of them."
            )
        plain = make(what, agent_ids=False)
        name = team or "random"
        return Cast(f"{what} {name}", plain, plain, get_team(plain, name))
    reject_script(what, team)
    trained = load_trained(what, which)
    env = env_to_play(trained, task, env)
    policy = Policy(trained.model, trained.actor, trained.spec)
    title = f"{task or trained.config.task} {trained.config.objective}"
    return Cast(title, env, without_agent_ids(env), policy.team())


def play_baselines(task: str, num_episodes: int, seed: int) -> dict[str, tuple[Team, Episodes]]:
    """Play fresh episodes with every scripted team of a task."""
    if num_episodes < 2:
        raise InputError(
            f"`num_episodes` is {num_episodes}; it must be at least 2, for a standard error."
        )
    check_seed(seed)
    env = make(task, agent_ids=False)
    keys = jax.random.split(jax.random.key(seed), num_episodes)
    return {name: (team, play_episodes(env, team, keys)) for name, team in teams_of(env).items()}


def play_episodes(env: Env, team: Team, keys: jax.Array) -> Episodes:
    """Play one episode per key, batch by batch."""
    play = jax.jit(lambda keys: run_episodes(env, team, keys))
    size = min(BATCH, len(keys))
    # Always use full batches, so that only one program is compiled.
    padded = keys[jax.numpy.arange(-(-len(keys) // size) * size) % len(keys)]
    parts = [
        jax.device_get(play(padded[start : start + size])) for start in range(0, len(keys), size)
    ]
    return jax.tree.map(lambda *xs: jax.numpy.concatenate(xs)[: len(keys)], *parts)
