"""Environments of jaxmarl and jumanji outside the paper's tasks, by the libraries' own names."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ratiosym
from ratiosym import Continuous, Discrete, InputError, check_env, make
from ratiosym.envs.adapters.generic import at_least_one, rows, split_options, stretch
from ratiosym.envs.adapters.jaxmarl import generic
from ratiosym.envs.adapters.jaxmarl.generic import jaxmarl_env
from ratiosym.envs.adapters.jaxmarl.library import load
from ratiosym.envs.adapters.jumanji.generic import jumanji_env
from tests.example_runs import run_command

# agents, observation, state, action, longest episode
WORKING = {
    "jaxmarl:switch_riddle": (3, 2, 6, Discrete(3), 7),
    "jumanji:Cleaner-v0": (3, 109, 107, Discrete(4), 100),
    "jumanji:LevelBasedForaging-v0": (2, 13, 25, Discrete(6), 100),
    "jaxmarl:overcooked": (2, 520, 1040, Discrete(6), 401),
    "jaxmarl:overcooked_v2": (2, 600, 1200, Discrete(6), 401),
    "jaxmarl:MPE_simple_reference_v3": (2, 21, 42, Discrete(50), 26),
    "jaxmarl:MPE_simple_facmac_3a_v1": (3, 16, 48, Continuous(5), 26),
    "jaxmarl:coin_game?shared_rewards=True": (2, 36, 72, Discrete(5), 101),
    "jaxmarl:hanabi?time_limit=100": (2, 658, 1316, Discrete(21), 100),
    "jumanji:MMST-v0": (3, 1337, 1336, Discrete(36), 70),
    "jumanji:MultiCVRP-v0": (2, 159, 155, Discrete(21), 500),
}
QUICK = ("jaxmarl:switch_riddle", "jumanji:Cleaner-v0")
EVERY = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in WORKING]


@pytest.mark.parametrize("name", EVERY)
def test_environments_keep_the_contract(name, key):
    env = make(name, agent_ids=False)
    spec = env.spec
    found = (spec.num_agents, spec.observation_size, spec.state_size, spec.action, spec.time_limit)
    assert found == WORKING[name]
    check_env(env, key, num_steps=40)
    assert make(name, agent_ids=False) == env


@pytest.mark.parametrize("name", ["jaxmarl:switch_riddle"])
def test_ends_come_in_time(name, key):
    check_env(make(name), key)


@pytest.mark.slow
def test_they_train_as_any_other(tmp_path):
    (run,) = ratiosym.train("jaxmarl:switch_riddle", preset="smoke", out=tmp_path / "run")
    assert run.config.task == "jaxmarl:switch_riddle"
    assert run.evaluations["update"].tolist() == [0, 2, 4]
    assert ratiosym.evaluate(tmp_path / "run", num_episodes=8).returns.shape == (8,)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "jumanji:LevelBasedForaging-v0",
        "jumanji:Cleaner-v0",
        "jaxmarl:overcooked",
        "jaxmarl:MPE_simple_reference_v3",
        "jaxmarl:hanabi?time_limit=100",
    ],
)
def test_five_from_outside_train_from_the_command_line(name, tmp_path):
    result = run_command("train", name, "--preset", "smoke", "--out", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "summary.json").exists()


# ----------------------------------------------------------------------------------------- fidelity


def test_jaxmarl_steps_are_the_librarys(key):
    env = jaxmarl_env("switch_riddle")
    library, agents = env.library, env.library.agents
    state, observation = env.reset(key)
    views, world = library.reset(key)
    for index in range(4):
        np.testing.assert_array_equal(observation.local, [views[agent] for agent in agents])
        np.testing.assert_array_equal(observation.state, observation.local.reshape(-1))
        action = jnp.array([index % 2] * 3)
        state, step = env.step(key, state, action)
        views, world, rewards, dones, _ = library.step_env(
            key, world, dict(zip(agents, action, strict=True))
        )
        observation = step.observation
        np.testing.assert_array_equal(step.reward, [rewards[agent] for agent in agents])
        assert bool(step.terminated) == bool(dones["__all__"])
    _, step = env.step(key, state, jnp.full(3, 2))  # somebody speaks
    assert step.terminated
    assert not step.truncated


def test_jaxmarl_ends_at_the_limit_are_truncations(key):
    env = jaxmarl_env("switch_riddle")
    state, _ = env.reset(key)
    for _ in range(6):
        state, step = env.step(key, state, jnp.zeros(3, jnp.int32))
    assert (bool(step.terminated), bool(step.truncated)) == (False, True)


def test_jumanji_steps_are_the_librarys(key):
    env = jumanji_env("Cleaner-v0")
    state, observation = jax.jit(env.reset)(key)
    world, timestep = jax.jit(env.library.reset)(key)
    seen = timestep.observation
    np.testing.assert_array_equal(observation.legal, seen.action_mask)
    np.testing.assert_array_equal(observation.local[:, :2], seen.agents_locations)  # its own row
    scene = np.concatenate([seen.grid.ravel(), seen.agents_locations.ravel(), [0]])
    np.testing.assert_array_equal(observation.local[:, 2:], [scene] * 3)  # and the whole scene
    np.testing.assert_array_equal(observation.state, scene)
    action = jnp.argmax(observation.legal, axis=1).astype(jnp.int32)
    state, step = jax.jit(env.step)(key, state, action)
    _, timestep = jax.jit(env.library.step)(world, action)
    np.testing.assert_array_equal(step.reward, [timestep.reward] * 3)
    np.testing.assert_array_equal(state.world.grid, timestep.observation.grid)
    np.testing.assert_allclose(step.observation.state[-1], 1 / 100)
    assert step.metrics.keys() == {"num_dirty_tiles", "ratio_dirty_tiles"}
    assert env.draw(state).shape == (400, 400, 3)


def test_an_illegal_action_ends_cleaner(key):
    env = jumanji_env("Cleaner-v0")
    state, observation = jax.jit(env.reset)(key)
    action = jnp.argmin(observation.legal, axis=1).astype(jnp.int32)
    _, step = jax.jit(env.step)(key, state, action)
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)


# ------------------------------------------------------------------------------------------- errors

REFUSED = {
    "jaxmarl:MPE_simple_tag_v3": r"cannot be trained: its agents compete",
    "jaxmarl:MPE_simple_speaker_listener_v4": r"equal spaces, but the observations of 'speaker_0' "
    r"are \[\(3,\)\] and those of 'listener_0' are \[\(11,\)\]. Write a function",
    "jaxmarl:SMAX": r"The built-in tasks smax-",
    "jaxmarl:coin_game": r"'jaxmarl:coin_game\?shared_rewards=True'",
    "jaxmarl:overcoked": r"Unknown environment of jaxmarl 'overcoked'. Closest: 'overcooked'",
    "jaxmarl:switch_riddle?num_agents=2": r"jaxmarl cannot build it: The minimum number of agents",
    "jaxmarl:switch_riddle?nonsense=1": r"unexpected keyword argument 'nonsense'",
    "jaxmarl:switch_riddle?time_limit=0": r"time_limit is 0; it must be at least 1",
    "jaxmarl:ant_4x2": r"jaxmarl cannot build it: No module named 'brax'",
    "jumanji:Maze-v0": r"it has a single agent \(its action is a DiscreteArray of shape \(\)\)",
    "jumanji:Sudoku-v0": r"it has a single agent",
    "jumanji:Cleaner": r"Unknown environment of jumanji 'Cleaner'. Closest: 'Cleaner-v0'",
    "jumanji:Cleaner-v0?time=1": r"jumanji cannot build it: .* unexpected keyword argument 'time'",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_says_why(name):
    with pytest.raises(InputError, match=REFUSED[name]):
        make(name)


@pytest.mark.parametrize("library", ["jaxmarl", "jumanji"])
def test_a_missing_library_is_named_with_its_remedy(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)  # as if not installed
    jaxmarl_env.cache_clear()
    jumanji_env.cache_clear()
    name = {"jaxmarl": "jaxmarl:hanabi", "jumanji": "jumanji:Snake-v1"}[library]
    with pytest.raises(ImportError, match=rf"'{name}' needs the library {library}. Install it"):
        make(name)


@pytest.mark.slow
def test_every_name_of_the_library_is_known():
    code = "from jaxmarl.registration import registered_envs as e; print(*e, sep='\\n')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    names = {line for line in result.stdout.split("\n") if line and " " not in line}
    ours = set(generic.ENVIRONMENTS) | set(generic.COMPETITIVE)
    assert {n for n in names if not n.startswith("JaxRobotarium")} == ours
    for name, (module, kind) in generic.ENVIRONMENTS.items():
        if not module.startswith("mabrax"):  # which needs brax
            assert callable(load(f"jaxmarl:{name}", module, kind))


# -------------------------------------------------------------------------------------------- parts


def test_options():
    assert split_options("hanabi") == ("hanabi", {})
    assert split_options("a?n=4&share=True&text=on&none=None&rate=0.5") == (
        "a",
        {"n": 4, "share": True, "text": "on", "none": None, "rate": 0.5},
    )


def test_rows_put_every_array_of_an_agent_side_by_side():
    tree = {"a": jnp.arange(8).reshape(2, 2, 2), "b": jnp.array([True, False])}
    np.testing.assert_array_equal(rows(tree, 2), [[0, 1, 2, 3, 1], [4, 5, 6, 7, 0]])
    assert rows(tree, 2).dtype == jnp.float32


def test_actions_are_stretched_to_the_box():
    np.testing.assert_allclose(stretch(jnp.array([[-1.0, 0.0, 1.0]]), 0.0, 4.0), [[0, 2, 4]])


def test_agents_without_a_choice_have_all():
    legal = jnp.array([[False, False], [False, True]])
    np.testing.assert_array_equal(at_least_one(legal), [[True, True], [False, True]])
