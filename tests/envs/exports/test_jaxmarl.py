"""The export to JaxMARL: the core's numbers in its shapes, and its own wrappers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jaxmarl import library
from ratiosym.envs.exports.jaxmarl import JaxMarlEnv
from tests.envs.exports.core import PAXMEN, Leaving, environments, same, start_of, step_of
from tests.probes import Counter, Matching, Target


@pytest.fixture(scope="module")
def wrappers():
    """``jaxmarl.wrappers.baselines``."""
    return library._import_alone("jaxmarl.wrappers.baselines")


def by_agent(env, values):
    return {agent: values[index] for index, agent in enumerate(env.agents)}


def stacked(env, values):
    return np.stack([values[agent] for agent in env.agents])


@pytest.mark.parametrize("core", list(environments("paxmen-4a")))
def test_the_export_gives_the_environments_numbers(core, key):
    env = JaxMarlEnv(core)
    core_state, seen = start_of(core, key)
    observation, state = env.reset(key)
    same(state.env_state, core_state)
    check_observation(env, state, observation, seen)
    done = {"__all__": False}
    while not done["__all__"]:
        key, step_key = jax.random.split(key)
        action, core_state, step = step_of(core, step_key, state.env_state, seen)
        seen, num_steps = step.observation, int(state.step) + 1
        observation, state, reward, done, info = env.step_env(
            step_key, state, by_agent(env, action)
        )
        same(state.env_state, core_state)
        check_observation(env, state, observation, seen)
        same(stacked(env, reward), step.reward)
        is_over = bool(step.terminated | step.truncated)
        assert bool(done["__all__"]) == bool(state.done) == is_over
        same(stacked(env, done), is_over | ~seen.active)
        assert state.step == num_steps
        facts = step.metrics | {"truncated": step.truncated}
        same(info, {name: np.full(env.num_agents, fact) for name, fact in facts.items()})


def check_observation(env, state, observation, expected):
    assert set(observation) == {*env.agents, "world_state"}
    same(stacked(env, observation), expected.local)
    same(observation["world_state"], expected.state)
    same(env.get_world_state(state), expected.state)
    same(stacked(env, env.get_avail_actions(state)), expected.legal)


def test_a_task_by_name_has_no_agent_ids():
    env = JaxMarlEnv("paxmen-4a")
    assert env.name == "paxmen-4a"
    assert env.agents == ["agent_0", "agent_1", "agent_2", "agent_3"]
    assert env.agent_classes == {"agents": env.agents}
    assert env.num_agents == 4
    assert env.max_steps == 100
    assert env.state_size == 101
    assert env.observation_space("agent_3").shape == (25,)
    assert env.action_space("agent_3").n == 5


def test_it_is_an_environment_of_the_library():
    assert isinstance(
        JaxMarlEnv(Counter()), library.load("test", "multi_agent_env", "MultiAgentEnv")
    )


def test_continuous_actions_are_a_box(key):
    space = JaxMarlEnv(Target()).action_space("agent_0")
    assert (space.low, space.high, space.shape) == (-1.0, 1.0, (1,))
    assert space.contains(space.sample(key))


@pytest.mark.parametrize("truncates", [False, True])
def test_step_starts_the_next_episode(truncates, key):
    env = JaxMarlEnv(Counter(lengths=(3,), truncates=truncates))
    actions = dict.fromkeys(env.agents, jnp.int32(0))
    _, state = env.reset(key)
    seen = []
    for step_key in jax.random.split(key, 7):
        observation, state, reward, done, info = env.step(step_key, state, actions)
        seen.append(
            (
                int(observation["agent_1"][0]),
                int(reward["agent_1"]),
                bool(done["__all__"]),
                int(state.step),
            )
        )
        assert info["truncated"].tolist() == [truncates and bool(done["__all__"])] * 2
    assert seen == [(1, 1, False, 1), (2, 2, False, 2), (0, 3, True, 0)] * 2 + [(1, 1, False, 1)]


def test_step_goes_on_from_the_start_it_is_given(key):
    env = JaxMarlEnv(Counter(lengths=(1,)))
    actions = dict.fromkeys(env.agents, jnp.int32(0))
    first, start = env.reset(key)
    observation, state, *_ = env.step(key, start, actions, start)
    np.testing.assert_array_equal(observation["world_state"], first["world_state"])
    assert state.env_state.episode == start.env_state.episode


def test_an_agent_that_no_longer_acts_is_done_and_still_rewarded(key):
    env = JaxMarlEnv(Leaving())
    _, state = env.reset(key)
    actions = dict.fromkeys(env.agents, jnp.int32(1))
    _, state, reward, done, _ = env.step_env(key, state, actions)
    assert done == {"agent_0": True, "agent_1": False, "agent_2": False, "__all__": False}
    assert reward == dict.fromkeys(env.agents, 1.0)
    assert env.get_avail_actions(state)["agent_0"].tolist() == [False, True]


@pytest.mark.parametrize(
    "name", [PAXMEN[0], *(pytest.param(name, marks=pytest.mark.slow) for name in PAXMEN[1:])]
)
def test_the_librarys_log_wrapper_sees_whole_episodes(name, wrappers, key):
    core = JaxMarlEnv(name)
    env = wrappers.LogWrapper(core)
    length = core.max_steps

    def body(state, key):
        _, state, reward, done, info = env.step(key, state, dict.fromkeys(env.agents, jnp.int32(4)))
        return state, (reward["agent_0"], done["__all__"], info)

    _, state = env.reset(key)
    _, (rewards, dones, info) = jax.jit(lambda state, keys: jax.lax.scan(body, state, keys))(
        state, jax.random.split(key, 2 * length)
    )
    assert np.flatnonzero(dones).tolist() == [length - 1, 2 * length - 1]
    # There are no dots in the hub, so the idle team's return is known exactly.
    idle = -0.025 * core.num_agents * length
    np.testing.assert_allclose(rewards.sum(), 2 * idle, rtol=1e-5)
    np.testing.assert_allclose(
        info["returned_episode_returns"][-1], np.full(core.num_agents, idle), rtol=1e-5
    )
    assert info["returned_episode_lengths"][-1].tolist() == [length] * core.num_agents
    assert all(leaf.shape == (2 * length, core.num_agents) for leaf in jax.tree.leaves(info))


def test_the_librarys_rollout_manager_batches_it(wrappers, key):
    env = wrappers.CTRolloutManager(JaxMarlEnv(Matching()), batch_size=4)
    observation, state = env.batch_reset(key)
    assert observation["__all__"].shape == (4, 2)  # observations of both agents
    assert observation["agent_1"].shape == (4, 1 + 2)  # and its id
    cue = observation["agent_0"][:, 0]
    action = jnp.where(cue < 0, 1, 2)
    _, state, reward, done, _ = env.batch_step(key, state, {"agent_0": action, "agent_1": action})
    assert reward["__all__"].tolist() == [2.0] * 4
    assert done["__all__"].all()


@pytest.mark.slow
def test_the_librarys_rollout_manager_takes_the_critics_view_and_masks_of_smax(wrappers, key):
    env = wrappers.CTRolloutManager(JaxMarlEnv("smax-3s_vs_5z"), batch_size=2)
    observation, state = env.batch_reset(key)
    assert observation["__all__"].shape == (2, env.state_size)
    masks = env.get_valid_actions(state)
    np.testing.assert_array_equal(masks["agent_0"], state.observation.legal[:, 0])
