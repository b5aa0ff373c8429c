"""The agent id goes in front of what the agents see, and nowhere else."""

import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.protocol import check_env
from ratiosym.envs.wrappers import with_agent_ids
from tests.probes import Counter, Matching, Target

ACTION = jnp.zeros(2, jnp.int32)


@pytest.mark.parametrize("probe", [Counter(), Matching(), Target(num_agents=3)], ids=str)
def test_agent_ids_keep_the_contract(probe, key):
    check_env(with_agent_ids(probe), key, num_steps=6)


def test_only_the_observation_size_grows():
    plain, wrapped = Counter(num_agents=4).spec, with_agent_ids(Counter(num_agents=4)).spec
    assert wrapped.observation_size == plain.observation_size + 4
    for field in ("name", "num_agents", "state_size", "action", "time_limit", "metrics"):
        assert getattr(wrapped, field) == getattr(plain, field)


def test_ids_stand_in_front_of_each_agents_view(key):
    env = Counter(num_agents=2)
    state, observation = env.reset(key)
    _, step = env.step(key, state, ACTION)
    wrapped_state, wrapped_observation = with_agent_ids(env).reset(key)
    _, wrapped_step = with_agent_ids(env).step(key, wrapped_state, ACTION)

    for plain, wrapped in [
        (observation, wrapped_observation),
        (step.observation, wrapped_step.observation),
    ]:
        np.testing.assert_array_equal(wrapped.local[:, :2], [[1, 0], [0, 1]])
        np.testing.assert_array_equal(wrapped.local[:, 2:], plain.local)
        np.testing.assert_array_equal(wrapped.state, plain.state)
        np.testing.assert_array_equal(wrapped.legal, plain.legal)
        np.testing.assert_array_equal(wrapped.active, plain.active)
    np.testing.assert_array_equal(wrapped_step.reward, step.reward)
    assert wrapped_step.metrics == step.metrics


def test_wrapping_equal_environments_gives_equal_environments():
    assert with_agent_ids(Counter()) == with_agent_ids(Counter())
    assert hash(with_agent_ids(Counter())) == hash(with_agent_ids(Counter()))
    assert with_agent_ids(Counter()) != with_agent_ids(Counter(lengths=(7,)))
