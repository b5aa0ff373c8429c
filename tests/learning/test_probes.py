"""Every objective solves environments whose answer is known.

Objectives of one surrogate share a program. Every day all seven solve Recall, which needs the most:
memory, credit over time, rewards of each agent. MARS solves the others every day too, and all seven
do when slow tests run.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.config import RunShape
from ratiosym.learning.model import make_model
from ratiosym.objectives import OBJECTIVES
from ratiosym.types import Observation
from tests.learning.helpers import advance, make, start
from tests.probes import ConstantReward, Matching, Recall, Stakes, Target

SHAPE = {
    "num_envs": 32,
    "rollout_length": 9,
    "num_epochs": 4,
    "num_minibatches": 2,
    "hidden_size": 16,
}
# Not the defaults, for which some objectives would coincide.
PARAMETERS = {
    "mars": {"b_lower": 0.7, "b_upper": 1.4},
    "mappo": {"epsilon": 0.2},
    "maspo": {"epsilon": 0.2},
    "mappo-asymmetric": {"epsilon_lower": 0.2, "epsilon_upper": 0.4},
    "maspo-asymmetric": {"epsilon_lower": 0.2, "epsilon_upper": 0.4},
    "mars-multiplicative": {"b": 1.3},
    "mars-additive": {"b": 1.3},
}
EVERY_DAY = pytest.mark.parametrize("objective", OBJECTIVES)
MARS_EVERY_DAY = pytest.mark.parametrize(
    "objective",
    [pytest.param(name, marks=() if name == "mars" else pytest.mark.slow) for name in OBJECTIVES],
)


def learn(
    env, objective, num_updates, network="feedforward", entropy_coefficient=0.0, critic="central"
):
    """Train; return the state, and the mean returns of the first update and of the last ten."""
    objective = OBJECTIVES[objective]
    learner = make(
        env,
        num_devices=1,
        surrogate=objective.surrogate,
        network=network,
        critic=critic,
        **SHAPE,
    )
    bounds = objective.bounds(**PARAMETERS[objective.name])
    numbers = {
        "actor_learning_rate": 5e-3,
        "critic_learning_rate": 1e-2,
        "entropy_coefficient": entropy_coefficient,
    }
    state, measured = advance(learner, start(learner), num_updates, bounds, **numbers)
    returns = [sums.total_return.sum() / sums.num_ended.sum() for _, sums in measured]
    return state, returns[0], np.mean(returns[-10:])


def test_all_seven_objectives_are_here():
    assert list(PARAMETERS) == list(OBJECTIVES)
    assert len({(o.surrogate, o.bounds(**PARAMETERS[name])) for name, o in OBJECTIVES.items()}) == 7


@EVERY_DAY
def test_recall_is_solved_with_memory(objective):
    _, first, last = learn(Recall(), objective, 60, network="gru", entropy_coefficient=0.003)
    assert abs(first - 0.5) < 0.15
    assert last > 0.95


@MARS_EVERY_DAY
def test_recall_is_not_solved_without_memory(objective):
    _, _, last = learn(Recall(), objective, 40, entropy_coefficient=0.003)
    assert last < 0.6  # no policy can do better than 0.5


@MARS_EVERY_DAY
def test_matching_is_solved_without_ever_doing_what_is_illegal(objective):
    state, first, last = learn(Matching(), objective, 50, entropy_coefficient=0.003)
    assert abs(first - 0.25) < 0.15
    assert last > 0.95
    np.testing.assert_allclose(
        values(state, [[-1.0], [1.0]]), [1.0, 1.0], atol=0.1
    )  # the critic knows it


@MARS_EVERY_DAY
def test_target_is_solved_with_continuous_actions(objective):
    _, first, last = learn(Target(), objective, 120)
    assert first < -0.3
    assert last > -0.02


@pytest.mark.slow
@EVERY_DAY
def test_value_of_a_constant_reward(objective):
    state, first, last = learn(ConstantReward(), objective, 30)
    assert first == last == 1.0
    np.testing.assert_allclose(values(state, [[1.0]]), [1.0], atol=0.05)


@pytest.mark.parametrize("critic", ["central", "local"])
def test_a_local_critic_values_each_agent_and_a_central_one_the_team(critic):
    """Only the agent itself can predict its reward; the team's critic knows the mean."""
    state, _, last = learn(Stakes(), "mars", 50, critic=critic)
    seen = np.array([[-1.0, 1.0], [1.0, 1.0]])  # the cues of two agents in two environments
    cues = Observation(jnp.array(seen)[None, ..., None], None, None, jnp.ones((1, 2, 1)))
    model = make_model(RunShape(network="feedforward", critic=critic))
    params = jax.tree.map(lambda x: x[0], state.params)
    value = model.critic(params.critic, cues, jnp.zeros((1, 2), bool), ())[0][0]
    right = [[0, 1], [1, 1]]
    policy, _ = model.actor(params.actor, cues._replace(legal=LEGAL), jnp.zeros((1, 2), bool), ())
    np.testing.assert_array_equal(policy.mode()[0], right)
    assert last > 0.6  # 1 up to random cues
    if critic == "local":
        np.testing.assert_allclose(value, 2 * seen + 1, atol=0.3)
    else:
        np.testing.assert_allclose(value, [1.0, 1.0], atol=0.6)


LEGAL = jnp.ones((1, 2, 2, 2), bool)


def values(state, seen):
    """Return V of some states, without memory."""
    model = make_model(RunShape(network="feedforward"))
    critic = jax.tree.map(lambda x: x[0], state.params.critic)
    seen = Observation(None, None, None, jnp.array(seen)[None])  # [1, E, S]
    return model.critic(critic, seen, jnp.zeros(seen.state.shape[:2], bool), ())[0][0]
