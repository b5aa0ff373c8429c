"""MARS learns something against the weakest opponents within minutes: to return more than the
random team. Not crashing is enough for that; docs/environments/aerojax.md reports whether
it learns to fight.
"""

import jax
import numpy as np
import pytest

from ratiosym.envs.aerojax.env import dogfight
from ratiosym.envs.teams import get_team
from ratiosym.envs.wrappers import with_agent_ids
from ratiosym.experiments.presets import configure
from ratiosym.learning.evaluate import run_episodes
from ratiosym.learning.train import Finished, make_learner, train

NUM_STEPS = 400_000


@pytest.mark.slow
def test_a_short_training_against_l1_returns_more_than_random():
    """The difference is at least five standard errors."""
    env = dogfight(2).against("L1")
    config = configure(
        "aerojax-2v2",
        "cpu",
        num_envs=32,
        hidden_size=64,
        steps=NUM_STEPS,
        num_evaluations=4,
        actor_learning_rate=1e-3,
        critic_learning_rate=1e-3,
    )
    learner = make_learner(with_agent_ids(env), config, num_seeds=1)
    *_, last = train(learner, config, [0])
    assert isinstance(last, Finished)
    learned = last.episodes[0].returns  # 320 fresh episodes
    keys = jax.random.split(jax.random.key(0), len(learned))
    random = np.asarray(run_episodes(env, get_team(env, "random"), keys).returns)
    error = np.sqrt(learned.var() / len(learned) + random.var() / len(random))
    assert learned.mean() > random.mean() + 5 * error
