"""The benchmarks measure what they name."""

import jax
import numpy as np
import pytest

from benchmarks import environments
from ratiosym.envs.registry import make


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:scatter inputs")  # of the library
@pytest.mark.parametrize("task", environments.BARS)
def test_environments_play_in_the_library_and_in_ours(task, monkeypatch):
    monkeypatch.setattr(environments, "NUM_STEPS", 3)
    with jax.numpy_rank_promotion("allow"):
        plays = (
            environments.as_it_ships(task, 2),
            environments.ours(make(task, agent_ids=False), 2),
        )
        assert all(np.isfinite(play(jax.random.key(0))) for play in plays)
