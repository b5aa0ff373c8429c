"""The agent id is prepended to the agents' observations, and nothing else changes."""

import copy
import pickle
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.protocol import check_env
from ratiosym.envs.registry import make
from ratiosym.envs.teams import Team, get_team, references_of, teams_of
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


@dataclass(frozen=True)
class Rich(Counter):
    """An environment with all optional members."""

    references = {"mine": 1.0}  # noqa: RUF012
    anything = "else"

    def draw(self, state):
        return np.full((2, 2, 3), state.time, np.uint8)

    @property
    def teams(self):
        def act(key, state, observation, memory):
            assert observation.local.shape == (2, 3)  # as without ids
            return jnp.zeros(2, jnp.int32), memory

        return {"mine": Team("mine", lambda key, state: (), act)}


def test_what_a_wrapper_does_not_change_it_forwards(key):
    env = with_agent_ids(Rich())
    state, observation = env.reset(key)
    np.testing.assert_array_equal(env.draw(state), np.zeros((2, 2, 3)))
    assert env.anything == "else"
    assert references_of(env) == {"mine": 1.0}
    assert list(teams_of(env)) == ["random", "mine"]
    action, _ = get_team(env, "mine").act(key, state, observation, ())
    np.testing.assert_array_equal(action, [0, 0])


def test_what_an_environment_does_not_have_its_wrapper_has_not(key):
    env = with_agent_ids(Counter())
    assert not hasattr(env, "draw")
    assert list(teams_of(env)) == ["random"]
    with pytest.raises(AttributeError, match="'Counter' object has no attribute 'draw'"):
        env.draw(None)


def test_wrappers_can_be_copied_and_pickled():
    env = with_agent_ids(Counter())
    assert copy.deepcopy(env) == pickle.loads(pickle.dumps(env)) == env


def test_built_in_tasks_draw_behind_their_agent_ids(key):
    env = make("connector-5x5x3a")
    picture = env.draw(jax.jit(env.reset)(key)[0])
    assert picture.dtype == np.uint8
    assert picture.shape[-1] == 3
