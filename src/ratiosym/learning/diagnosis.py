"""Find out whether the environment or the learner caused a non-finite loss.

Nothing is checked during training. Once a loss is not finite, the updates since the last checkpoint
are repeated, and the rollout of the failed one is searched for non-finite numbers.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ratiosym.learning.config import RunConfig
from ratiosym.learning.learner import Learner, TrainState, train_step
from ratiosym.learning.mesh import to_host
from ratiosym.learning.rollout import rollout
from ratiosym.learning.train import hyperparameters_at
from ratiosym.types import Transition


def find_cause(
    learner: Learner, config: RunConfig, index: int, state: TrainState, update: int, failed: int
) -> str | None:
    """Describe what the environment did wrong in update ``failed``; None if its outputs were
    finite.

    ``state`` is after ``update`` updates, and ``index`` is that of the failed seed.
    """
    bounds = jax.tree.map(np.float32, config.bounds)
    for number in range(update, failed - 1):
        hyperparameters = jax.tree.map(np.float32, hyperparameters_at(config, number))
        state, _ = train_step(learner, state, hyperparameters, bounds)
    transition = _repeat_rollout(learner, state, index)
    return describe(transition, (failed - 1) * config.shape.rollout_length)


def _repeat_rollout(learner: Learner, state: TrainState, index: int) -> Transition:
    """Repeat the rollout of one seed, [T, E, ...], with its random numbers (see ``collect``)."""
    keys = jax.random.key_data(state.groups.key)  # keys themselves cannot be moved off the devices
    groups = jax.tree.map(lambda x: x[index], to_host(state.groups._replace(key=keys)))
    actor = jax.tree.map(lambda x: jnp.asarray(x[index]), to_host(state.params.actor))
    keys = jax.vmap(jax.random.split)(jax.random.wrap_key_data(groups.key))
    play = partial(rollout, learner.env, learner.shape, learner.model, actor)
    _, transition, _ = jax.jit(jax.vmap(play, out_axes=(0, 1, 0)))(groups._replace(key=keys[:, 0]))
    host = jax.device_get(transition)  # [T, G, E, ...] -> [T, G E, ...]
    return jax.tree.map(lambda x: x.reshape(len(x), x.shape[1] * x.shape[2], *x.shape[3:]), host)


def describe(transition: Transition, steps_before: int) -> str | None:
    """Describe the first non-finite number of an environment.

    Returns None if there is none, or if the policy's actions were non-finite before it.
    ``steps_before`` counts the steps of each environment before this rollout.
    """
    seen, after = transition.observation, transition.last_observation
    given = [  # in the order of a step
        ("observation", seen.local),
        ("state for the critic", seen.state),
        ("reward", transition.reward),
        ("observation", after.local),
        ("state for the critic", after.state),
    ]
    found = [(place, what, x) for what, x in given if (place := _first(x)) is not None]
    if not found:
        return None
    place, what, values = min(found, key=lambda entry: entry[0][0])  # the earliest
    time, env, *rest = place
    actions = [_first(np.asarray(x, np.float64)) for x in jax.tree.leaves(transition.action)]
    # Observations precede the action of a step; the reward follows it.
    first_action = min((action[0] for action in actions if action is not None), default=None)
    is_before = values is seen.local or values is seen.state
    if first_action is not None and first_action < time + (not is_before):
        return None
    agent = "" if values.ndim == 3 and what != "reward" else f" of agent {rest[0]}"
    starts = np.flatnonzero(transition.is_start[: time + 1, env])
    episode = f" (step {time - starts[-1] + 1} of its episode)" if len(starts) else ""
    return (
        f"The environment is the cause: the {what}{agent} in environment {env} is {values[place]} "
        f"at its step {steps_before + time + 1}{episode}. Other settings will not help; fix the "
        f"environment (test it with ratiosym.check_env)."
    )


def _first(values: Any) -> tuple[int, ...] | None:
    """Return the index of the first non-finite number of [T, E, ...] in time order."""
    places = np.argwhere(~np.isfinite(values))
    return tuple(map(int, places[0])) if len(places) else None
