"""SMAX's adapter matches the library, and distinguishes termination from truncation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jaxmarl import smax
from ratiosym.envs.adapters.jaxmarl.battle import split
from ratiosym.types import Discrete
from tests.envs.adapters.jaxmarl.episodes import (
    episode_length,
    joined,
    library_rollout,
    play,
    same_types,
)

STOP = 4


@pytest.mark.parametrize(
    "scenario",
    [
        "2s3z",
        "smacv2_5_units",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("5m_vs_6m", "3s5z_vs_3s6z")),
    ],
)
def test_episodes_are_the_librarys(scenario):
    env = smax(scenario)
    for seed in range(3):
        key = jax.random.key(seed)
        first, actions, steps = play(env, key, env.spec.time_limit)
        states, local, rewards, ends = library_rollout(env.library, key, actions)
        length = episode_length(steps)
        assert length > 10
        ours = joined(first, steps.observation, length)
        till_end = slice(0, length + 1)
        close(ours.local, local[till_end])
        close(steps.reward[:length], rewards[:length])
        np.testing.assert_array_equal((steps.terminated | steps.truncated)[:length], ends[:length])
        world, legal = library_views(env.library, states)
        close(ours.state, world[till_end])
        np.testing.assert_array_equal(ours.legal, legal[till_end])
        np.testing.assert_array_equal(
            ours.active, states.state.unit_alive[till_end, : env.spec.num_agents]
        )


def library_views(library, states):
    """Return the library's world state and legal actions, [T + 1, ...]."""
    with jax.numpy_rank_promotion("allow"):
        legal = jax.vmap(library.get_avail_actions)(states)
        world = jax.vmap(library.get_world_state)(states)
    return world, np.stack([legal[agent] for agent in library.agents], axis=1)


def close(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("scenario", "num_allies", "num_enemies"),
    [
        ("2s3z", 5, 5),
        ("3s5z", 8, 8),
        ("3s5z_vs_3s6z", 8, 9),
        ("3s_vs_5z", 3, 5),
        ("5m_vs_6m", 5, 6),
        ("10m_vs_11m", 10, 11),
        ("27m_vs_30m", 27, 30),
        ("6h_vs_8z", 6, 8),
        ("smacv2_5_units", 5, 5),
        ("smacv2_10_units", 10, 10),
        ("smacv2_20_units", 20, 20),
    ],
)
def test_sizes(scenario, num_allies, num_enemies):
    spec = smax(scenario).spec
    assert spec.num_agents == num_allies
    assert spec.observation_size == 13 * (num_allies + num_enemies - 1) + 10
    assert spec.state_size == 12 * (num_allies + num_enemies)
    assert spec.action == Discrete(5 + num_enemies)
    assert spec.time_limit == 101


def test_settings_are_the_librarys_defaults():
    library = smax("2s3z").library
    assert (library.attack_mode, library.enemy_shoots) == ("closest", True)
    assert (library.see_enemy_actions, library.walls_cause_death) == (True, True)
    assert library.observation_type == "unit_list"


def test_the_clock_truncates_at_step_101_and_not_before(key):
    state, step = stop_after(key, counter=99)
    assert not step.terminated
    assert not step.truncated
    _, step = jitted_step(key, state)
    assert not step.terminated
    assert step.truncated


@pytest.mark.parametrize("counter", [3, 100])
@pytest.mark.parametrize(
    ("allies_die", "enemies_die"), [(True, False), (False, True), (True, True)]
)
def test_dead_teams_terminate_and_only_survivors_win(counter, allies_die, enemies_die, key):
    alive = np.repeat([not allies_die, not enemies_die], 5)
    _, step = stop_after(key, counter, alive=jnp.asarray(alive))
    assert step.terminated
    assert not step.truncated  # even if the time limit is reached, too
    is_won = enemies_die and not allies_die
    assert step.metrics["won"] == is_won
    assert step.metrics["enemies_killed"] == enemies_die
    assert step.metrics["allies_alive"] == (not allies_die)
    np.testing.assert_array_equal(step.reward, [float(is_won)] * 5)


def test_the_dead_can_only_stop_and_are_not_active(key):
    alive = jnp.ones(10, bool).at[jnp.array([1, 3])].set(False)
    _, step = stop_after(key, 3, alive=alive)
    np.testing.assert_array_equal(step.observation.active, [True, False, True, False, True])
    np.testing.assert_array_equal(step.observation.legal[1], np.arange(10) == STOP)
    assert step.observation.legal[0, :5].all()


def stop_after(key, counter, alive=None):
    """Take one step with passive allies, from a given step counter and set of living units."""
    state, _ = smax("2s3z").reset(key)
    world = state.world.replace(step=jnp.asarray(counter, jnp.int32))
    if alive is not None:
        world = world.replace(
            unit_alive=alive, unit_health=jnp.where(alive, world.unit_health, 0.0)
        )
    return jitted_step(key, state._replace(world=world))


@jax.jit
def jitted_step(key, state):
    return smax("2s3z").step(key, state, jnp.full(5, STOP, jnp.int32))


def test_keys_are_split_as_jax_does(key):
    keys = jax.random.split(key, (3, 4))
    theirs = jax.vmap(jax.vmap(lambda key: jax.random.split(key, 5)))(keys)  # [3, 4, 5]
    np.testing.assert_array_equal(
        jax.random.key_data(split(keys, 5)), jax.random.key_data(jnp.moveaxis(theirs, 2, 0))
    )


def test_keys_of_either_kind_give_the_same(key):
    env = smax("2s3z")
    state, _ = env.reset(key)
    action = jnp.full(5, STOP, jnp.int32)
    one, other = (env.step(k, state, action)[1] for k in (key, jax.random.PRNGKey(0)))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_steps_compile_once(key):
    same_types(smax("smacv2_5_units"), key)
