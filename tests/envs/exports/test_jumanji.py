"""The export to Jumanji: the core's numbers in its shapes, and its own checks and wrappers."""

import importlib

import jax
import jax.numpy as jnp
import jumanji
import pytest
from jumanji.testing.env_not_smoke import check_env_does_not_smoke, check_env_specs_does_not_smoke
from jumanji.types import StepType
from jumanji.wrappers import AutoResetWrapper, VmapWrapper
from PIL import Image

from ratiosym.envs.exports import jumanji as export
from ratiosym.envs.exports.jumanji import IDS, JumanjiEnv
from tests.envs.exports.core import PAXMEN, Leaving, environments, same, start_of, step_of
from tests.probes import Counter, Target


@pytest.mark.parametrize("core", list(environments("paxmen-4a")))
def test_the_export_gives_the_environments_numbers(core, key):
    env = JumanjiEnv(core)
    reset, take = jax.jit(env.reset), jax.jit(env.step)
    state, timestep = reset(key)
    core_state, seen = start_of(core, jax.random.split(key)[1])
    same(state.env_state, core_state)
    check_timestep(env, timestep, seen, 0)
    assert timestep.first()
    assert timestep.reward.tolist() == [0.0] * env.num_agents
    assert timestep.discount.tolist() == [1.0] * env.num_agents
    types, num_steps = types_of((state, timestep)), 0
    while not timestep.last():
        action, core_state, step = step_of(
            core, jax.random.split(state.key)[1], state.env_state, seen
        )
        seen, num_steps = step.observation, num_steps + 1
        state, timestep = take(state, action)
        same(state.env_state, core_state)
        assert types_of((state, timestep)) == types
        check_timestep(env, timestep, seen, num_steps)
        same(timestep.reward, step.reward)
        assert bool(timestep.last()) == bool(step.terminated | step.truncated)
        assert timestep.discount.tolist() == [0.0 if step.terminated else 1.0] * env.num_agents
        same(timestep.extras, step.metrics)


def types_of(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


def check_timestep(env, timestep, expected, step_count):
    seen = timestep.observation
    env.observation_spec.validate(seen)
    env.reward_spec.validate(timestep.reward)
    env.discount_spec.validate(timestep.discount)
    same(seen.agents_view, expected.local)
    same(seen.action_mask, expected.legal)
    same(seen.global_state, expected.state)
    assert seen.step_count == step_count


@pytest.mark.parametrize("core", list(environments("paxmen-4a")))
def test_the_librarys_check(core):
    env = JumanjiEnv(core)
    with jax.numpy_rank_promotion("allow"):
        check_env_does_not_smoke(env)
        check_env_specs_does_not_smoke(env)


def test_tasks_are_registered():
    assert {"PaxMen-4a-v0", "PaxMen-5a-v0", "PaxMen-6a-v0", "PaxMen-4a-heldout-v0"} <= set(IDS)
    assert set(PAXMEN) <= set(IDS.values())
    assert set(IDS) <= jumanji.registered_environments()
    for name, task in IDS.items():
        env = jumanji.make(name)
        assert isinstance(env, export.JumanjiEnv)
        assert env.env.spec.name == task


def test_importing_the_face_again_registers_nothing_twice():
    before = jumanji.registered_environments()
    importlib.reload(export)
    assert jumanji.registered_environments() == before


def test_a_registered_task_has_no_agent_ids():
    env = jumanji.make("PaxMen-4a-v0")
    assert env.num_agents == 4
    assert env.time_limit == 100
    assert env.observation_spec.agents_view.shape == (4, 25)
    assert env.observation_spec.global_state.shape == (101,)
    assert env.action_spec.num_values.tolist() == [5] * 4
    assert "paxmen-4a" in repr(env)


def test_continuous_actions_are_a_box():
    spec = JumanjiEnv(Target(num_agents=3)).action_spec
    assert (spec.shape, spec.dtype, float(spec.minimum), float(spec.maximum)) == (
        (3, 1),
        jnp.float32,
        -1.0,
        1.0,
    )


@pytest.mark.parametrize("truncates", [False, True])
def test_the_librarys_auto_reset_starts_the_next_episode(truncates, key):
    env = VmapWrapper(
        AutoResetWrapper(
            JumanjiEnv(Counter(lengths=(3,), truncates=truncates)), next_obs_in_extras=True
        )
    )
    state, first = env.reset(jax.random.split(key, 2))

    def body(carry, _):
        state, _ = (
            carry  # the time step is part of the carry, so its structure and types must not change
        )
        state, timestep = env.step(state, jnp.zeros((2, 2), jnp.int32))
        return (state, timestep), timestep

    _, timesteps = jax.lax.scan(body, (state, first), None, length=6)
    assert timesteps.observation.step_count[:, 0].tolist() == [1, 2, 0, 1, 2, 0]
    assert timesteps.extras["next_obs"].step_count[:, 0].tolist() == [1, 2, 3, 1, 2, 3]
    assert timesteps.step_type[:, 0].tolist() == [StepType.MID, StepType.MID, StepType.LAST] * 2
    assert timesteps.discount[:, 0, 0].tolist() == [1.0, 1.0, float(truncates)] * 2
    assert timesteps.reward[:, 0, 1].tolist() == [1.0, 2.0, 3.0] * 2
    episodes = timesteps.observation.agents_view[:, 0, 0, 1]
    assert episodes[1] != episodes[2]  # the next episode has a different key


def test_pictures(key, tmp_path):
    env = JumanjiEnv(Leaving())
    state, _ = env.reset(key)
    states = [state]
    for _ in range(3):
        state, _ = env.step(state, jnp.ones(3, jnp.int32))
        states.append(state)
    assert env.render(states[2]).tolist() == [[[2, 0, 0]]]
    path = tmp_path / "episode.gif"
    pictures = env.animate(states, interval=50, save_path=str(path))
    assert [picture.tolist() for picture in pictures] == [[[[time, 0, 0]]] for time in range(4)]
    with Image.open(path) as film:
        assert film.n_frames == 4
        assert film.info["duration"] == 50


def test_pictures_of_paxmen(key):
    env = jumanji.make("PaxMen-4a-v0")
    state, _ = jax.jit(env.reset)(key)
    same(env.render(state), env.env.draw(state.env_state))


def test_an_environment_without_pictures_says_so(key):
    env = JumanjiEnv(Counter())
    state, _ = env.reset(key)
    with pytest.raises(NotImplementedError, match="'counter' cannot be rendered"):
        env.render(state)
