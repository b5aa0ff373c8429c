"""Matches between levels of the heuristic pilots, to measure their strength and symmetry.

``python -m ratiosym.envs.aerojax.ladder`` prints the ladder of every task.
"""

import sys
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ratiosym.envs.aerojax.env import METRICS, AeroJax, dogfight
from ratiosym.envs.aerojax.opponents import LEVELS
from ratiosym.types import Key, Keys

RANDOM = -1.0  # pseudo-skill of uniformly random actions
ENTRANTS = {"random": RANDOM, **LEVELS}


class _Progress(NamedTuple):
    time: Int[Array, ""]
    state: Any
    is_over: Bool[Array, "E"]
    metrics: dict[str, Float[Array, "E"]]


@partial(jax.jit, static_argnums=0)
def play(
    env: AeroJax, keys: Keys, ours: Float[Array, "E"], theirs: Float[Array, "E"]
) -> dict[str, Float[Array, "E"]]:
    """Play one episode per key, our team against theirs, and return the final metrics.

    Skills are traced, so one program plays all matches of a task.
    """

    def start(key: Key, skill: Array) -> Any:
        state, _ = env.reset(jax.random.fold_in(key, 0))
        return state._replace(skill=jnp.full(env.size, skill))

    def step(key: Key, skill: Array, state: Any, time: Array) -> Any:
        step_key, noise_key = jax.random.split(jax.random.fold_in(key, time + 1))
        noise = jax.random.uniform(noise_key, (env.size, 3), minval=-1.0)
        scripted = env.script(state, noise, jnp.full(env.size, skill), is_ally=True)
        state, outcome = env.step(step_key, state, jnp.where(skill == RANDOM, noise, scripted))
        return state, outcome.terminated, outcome.metrics

    def body(progress: _Progress) -> _Progress:
        state, ends, metrics = jax.vmap(step, (0, 0, 0, None))(
            keys, ours, progress.state, progress.time
        )
        latest = jax.tree.map(
            lambda old, new: jnp.where(progress.is_over, old, new), progress.metrics, metrics
        )
        return _Progress(progress.time + 1, state, progress.is_over | ends, latest)

    nothing = {name: jnp.zeros(ours.shape) for name in METRICS}
    first = _Progress(
        jnp.zeros((), jnp.int32),
        jax.vmap(start)(keys, theirs),
        jnp.zeros(ours.shape, bool),
        nothing,
    )
    return jax.lax.while_loop(lambda p: ~p.is_over.all(), body, first).metrics


def matches(
    env: AeroJax, pairs: list[tuple[str, str]], num_episodes: int, seed: int = 0
) -> list[dict[str, np.ndarray]]:
    """Return the metrics of every pair (ours, theirs), all played in parallel."""
    ours, theirs = (np.repeat([ENTRANTS[pair[i]] for pair in pairs], num_episodes) for i in (0, 1))
    keys = jax.random.split(jax.random.key(seed), len(ours))
    played = play(env, keys, jnp.asarray(ours, jnp.float32), jnp.asarray(theirs, jnp.float32))
    columns = {
        name: np.asarray(value).reshape(len(pairs), num_episodes) for name, value in played.items()
    }
    return [{name: value[i] for name, value in columns.items()} for i in range(len(pairs))]


def interval(share: float, num: int) -> tuple[float, float]:
    """Return Wilson's 95% confidence interval of a proportion."""
    z = 1.95996
    middle = (share + z * z / (2 * num)) / (1 + z * z / num)
    half = z / (1 + z * z / num) * sqrt(share * (1 - share) / num + z * z / (4 * num * num))
    return middle - half, middle + half


def self_inflicted(metrics: dict[str, np.ndarray], size: int) -> float:
    """Return the fraction of our aircraft lost to anything but weapons."""
    causes = ("deaths_ground", "deaths_bounds", "deaths_collision")
    return float(sum(metrics[cause].mean() for cause in causes) / size)


def table(env: AeroJax, num_episodes: int, seed: int = 0) -> str:
    """Return a Markdown table of every entrant against L4."""
    lines = [
        f"| {env.spec.name}: team | wins against L4 (95% interval) | losses | draws | kills | "
        f"self-inflicted losses |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in zip(
        ENTRANTS, matches(env, [(e, "L4") for e in ENTRANTS], num_episodes, seed), strict=True
    ):
        won, lost = float(result["won"].mean()), float(result["lost"].mean())
        low, high = interval(won, num_episodes)
        lines.append(
            f"| {name} | {won:.1%} ({low:.1%} to {high:.1%}) | {lost:.1%} | "
            f"{max(0.0, 1 - won - lost):.1%} "
            f"| {result['kills'].mean() / env.size:.1%} | {self_inflicted(result, env.size):.2%} |"
        )
    return "\n".join(lines)


def main(num_episodes: int = 2000) -> None:
    """Print the ladder of every task."""
    for size in (2, 4, 8):
        print(table(dogfight(size), num_episodes), flush=True)
        print(flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
