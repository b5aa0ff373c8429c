"""The export to PettingZoo: the core's numbers as NumPy, and its own checks."""

import jax
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import parallel_api_test, parallel_seed_test
from pettingzoo.utils.conversions import parallel_to_aec

from ratiosym.envs.exports.pettingzoo import _advance, parallel_env
from ratiosym.errors import InputError
from tests.envs.exports.core import Leaving, environments, same, start_of, step_of
from tests.probes import Counter, Matching, Target


@pytest.mark.parametrize("core", list(environments("paxmen-4a")))
def test_the_export_gives_the_environments_numbers(core):
    env = parallel_env(core)
    observations, infos = env.reset(seed=3)
    core_state, seen = start_of(core, jax.random.split(jax.random.key(3))[1])
    same(env._moment.state, core_state)
    check_observation(env, observations, infos, seen, {})
    while env.agents:
        moment, living = env._moment, list(env.agents)
        rows = [env.possible_agents.index(agent) for agent in living]
        drawn, core_state, step = step_of(core, jax.random.split(moment.key)[1], moment.state, seen)
        given = dict(zip(living, np.asarray(drawn)[rows], strict=True))
        observations, rewards, terminations, truncations, infos = env.step(given)
        seen = step.observation
        same(env._moment.state, core_state)
        check_observation(env, observations, infos, seen, step.metrics)
        assert (
            list(observations)
            == list(rewards)
            == list(terminations)
            == list(truncations)
            == list(infos)
            == living
        )
        same(np.array(list(rewards.values())), step.reward[np.array(rows)])
        out = np.asarray(step.terminated | ~seen.active)
        assert terminations == {agent: out[row] for agent, row in zip(living, rows, strict=True)}
        assert truncations == dict.fromkeys(living, bool(step.truncated))
        assert env.agents == [
            agent for agent in living if not (terminations[agent] or truncations[agent])
        ]


def check_observation(env, observations, infos, expected, metrics):
    for agent, seen in observations.items():
        row = env.possible_agents.index(agent)
        assert env.observation_space(agent).contains(seen)
        assert seen.flags.writeable
        same(seen, expected.local[row])
        info = dict(infos[agent])
        if isinstance(env.action_space(agent), spaces.Discrete):
            mask = info.pop("action_mask")
            assert mask.dtype == np.int8
            same(mask, expected.legal[row])
        same(info, metrics)
    assert env.state_space.contains(env.state())
    same(env.state(), expected.state)


@pytest.mark.parametrize("core", list(environments("paxmen-4a", "aerojax-2v2")))
def test_the_librarys_checks(core):
    parallel_api_test(parallel_env(core), num_cycles=core.spec.time_limit + 1)
    parallel_seed_test(lambda: parallel_env(core), num_cycles=core.spec.time_limit)


def test_a_task_by_name_has_no_agent_ids():
    env = parallel_env("paxmen-4a")
    assert str(env) == "paxmen-4a"
    assert env.possible_agents == ["agent_0", "agent_1", "agent_2", "agent_3"]
    assert env.observation_space("agent_0").shape == (25,)
    assert env.action_space("agent_0") == spaces.Discrete(5)
    assert env.state_space.shape == (101,)


def test_continuous_actions_are_a_box():
    env = parallel_env(Target())
    assert env.action_space("agent_0") == spaces.Box(-1.0, 1.0, (1,), np.float32)
    observations, infos = env.reset(seed=0)
    assert infos == {"agent_0": {}, "agent_1": {}}
    wishes = {agent: seen.astype(np.float64) + 0.125 for agent, seen in observations.items()}
    assert list(env.step(wishes)[1].values()) == pytest.approx([-(0.125**2)] * 2)


def test_a_mask_samples_legal_actions():
    env = parallel_env(Matching())
    _, infos = env.reset(seed=0)
    drawn = {
        int(env.action_space("agent_0").sample(infos["agent_0"]["action_mask"])) for _ in range(50)
    }
    assert drawn == {1, 2}


def test_seeds():
    one, other = parallel_env(Target()), parallel_env(Target())
    first = one.reset(seed=5)[0]
    assert first == other.reset(seed=5)[0]
    second = one.reset()[0]  # continues from the seed
    assert second != first
    assert second == other.reset()[0]
    assert first != other.reset(seed=6)[0]
    assert parallel_env(Target()).reset()[0] != parallel_env(Target()).reset()[0]  # by chance


def test_an_agent_that_no_longer_acts_leaves():
    env = parallel_env(Leaving())
    env.reset(seed=0)
    observations, rewards, terminations, *_ = env.step(dict.fromkeys(env.agents, 0))
    assert set(observations) == set(rewards) == set(env.possible_agents)
    assert terminations == {"agent_0": True, "agent_1": False, "agent_2": False}
    assert env.agents == ["agent_1", "agent_2"]
    observations, *_ = env.step({"agent_1": 0, "agent_2": 0})
    assert set(observations) == {"agent_1", "agent_2"}
    assert env.state()[1] == 1  # the agent that left took its only legal action


def test_environments_made_alike_share_compiled_programs():
    def play_one_step():
        env = parallel_env(Counter(lengths=(9, 2)))
        env.reset(seed=0)
        env.step(dict.fromkeys(env.agents, 0))
        return _advance._cache_size()

    assert play_one_step() == play_one_step()


def test_the_libraries_other_form_plays_too():
    env = parallel_to_aec(parallel_env(Counter(lengths=(3,))))
    env.reset(seed=0)
    returns = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        returns[agent] += reward
        env.step(None if terminated or truncated else 0)
    assert returns == {"agent_0": 6.0, "agent_1": 6.0}


def test_pictures():
    env = parallel_env(Leaving(), render_mode="rgb_array")
    assert env.metadata["render_modes"] == ["rgb_array"]
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 0))
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.tolist() == [[[1, 0, 0]]]


def test_pictures_of_paxmen():
    env = parallel_env("paxmen-4a", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(dict.fromkeys(env.agents, 0))
    assert before.dtype == np.uint8
    assert before.ndim == 3
    assert before.shape[2] == 3
    assert (env.render() != before).any()


def test_without_a_render_mode_there_is_a_warning_and_no_picture():
    env = parallel_env(Leaving())
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render mode"):
        assert env.render() is None


@pytest.mark.parametrize(
    ("play_wrongly", "message"),
    [
        (
            lambda: parallel_env(Counter(), render_mode="rgb_array"),
            "'counter': render_mode is 'rgb_array', expected .*",
        ),
        (
            lambda: parallel_env(Leaving(), render_mode="human"),
            "expected one of .None, 'rgb_array'.",
        ),
        (lambda: parallel_env(Counter()).state(), "no episode has been started. Call reset"),
        (lambda: parallel_env(Counter()).step({}), "no episode is running. Call reset"),
        (
            lambda: started(Counter()).step({"agent_0": 0}),
            r"actions are for \['agent_0'\], expected .*'agent_1'",
        ),
        (
            lambda: started(Counter()).step({"agent_0": 0, "agent_1": 2}),
            r"actions are \[0, 2\], expected all from 0 to 1",
        ),
        (
            lambda: started(Counter()).step({"agent_0": 0, "agent_1": 0.9}),
            "the action of agent_1 is 0.9, expected a whole number",
        ),
        (
            lambda: started(Target()).step({"agent_0": [0.0], "agent_1": [np.nan]}),
            "nan.*, expected all from -1 to 1",
        ),
    ],
)
def test_wrong_use_says_what_to_do(play_wrongly, message):
    with pytest.raises(InputError, match=message):
        play_wrongly()


def started(core):
    env = parallel_env(core)
    env.reset(seed=0)
    return env
