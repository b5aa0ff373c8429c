"""The rules, compared to a slow model and case by case."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from ratiosym.envs.paxmen.env import EAT, METRICS, paxmen
from ratiosym.envs.paxmen.layouts import DOT_SETS, LAYOUTS, tables
from ratiosym.envs.protocol import check_env
from ratiosym.errors import InputError
from ratiosym.types import Discrete
from tests.envs.paxmen.reference import Reference

SIZES = sorted(LAYOUTS)  # numbers of agents
UP, DOWN, RIGHT, LEFT = range(4)


@cache
def compiled(env):
    return jax.jit(jax.vmap(env.reset)), jax.jit(jax.vmap(env.step))


def reset(env, num, seed=0):
    return compiled(env)[0](jax.random.split(jax.random.key(seed), num))


def step(env, states, actions, seed=1):
    num = states.layout.shape[0]
    return compiled(env)[1](
        jax.random.split(jax.random.key(seed), num), states, jnp.asarray(actions, jnp.int32)
    )


def scattered(env, num, seed=0):
    """Return states with agents in any cells and some dots eaten."""
    states, _ = reset(env, num, seed)
    rng = np.random.default_rng(seed)
    agents = rng.integers(env.num_cells, size=states.agents.shape)
    near = rng.random(agents.shape) < 0.5  # half of them where there are dots
    dots = np.asarray(states.dots).reshape(num, -1)
    agents = np.where(
        near, np.take_along_axis(dots, rng.integers(dots.shape[1], size=agents.shape), 1), agents
    )
    is_left = rng.random(states.is_left.shape) < 0.7
    is_left[:, 0, 0] = True
    return states._replace(agents=jnp.asarray(agents, jnp.int32), is_left=jnp.asarray(is_left))


# Step by step against the slow model


@cache
def episodes(num_agents, num_envs=8):
    """Play whole episodes, mostly with the oracle's actions and some random ones.

    Half of them start with agents anywhere.
    """
    env = paxmen(num_agents)
    team = env.teams["oracle"]

    def play(key, state):
        def one(carry, key):
            state, memory = carry
            noise_key, pick_key, step_key = jax.random.split(key, 3)
            action, memory = team.act(key, state, None, memory)
            noise = jax.random.randint(noise_key, action.shape, 0, 5)
            action = jnp.where(jax.random.uniform(pick_key, action.shape) < 0.1, noise, action)
            after, outcome = env.step(step_key, state, action)
            return (after, memory), (action, after, outcome)

        return jax.lax.scan(
            one, (state, team.start(key, state)), jax.random.split(key, env.time_limit)
        )[1]

    states, _ = reset(env, num_envs)
    layouts = jnp.arange(num_envs, dtype=jnp.int32) % 4
    room_starts = jnp.asarray(tables(env.layouts).room_starts, jnp.int32)
    dots = states.dots - room_starts[states.layout][:, :, None] + room_starts[layouts][:, :, None]
    anywhere = jax.random.randint(
        jax.random.key(7), states.agents.shape, 0, env.num_cells, jnp.int32
    )
    anywhere = anywhere.at[:, 1].set(anywhere[:, 0])  # two together
    agents = jnp.where((jnp.arange(num_envs) < num_envs // 2)[:, None], states.agents, anywhere)
    states = states._replace(layout=layouts, dots=dots, agents=agents)
    results = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(3), num_envs), states)
    return env, jax.device_get(states), jax.device_get(results)


def moment(tree, index, time):
    return jax.tree.map(lambda x: x[index, time], tree)


@pytest.mark.parametrize("num_agents", SIZES)
def test_every_step_equals_the_slow_model(num_agents):
    env, starts, (actions, states, outcomes) = episodes(num_agents)
    positions = tables(env.layouts).positions
    respawns = dict.fromkeys(range(4), 0)
    for index, number in enumerate(starts.layout):
        at = [tuple(cell) for cell in positions[number]]
        slow = Reference(num_agents, number)
        slow.start(
            [at[cell] for cell in starts.agents[index]],
            [at[cell] for cell in starts.dots[index].reshape(-1)],
        )
        for time in range(env.time_limit):
            after, outcome = moment((states, outcomes), index, time)
            new_dots = [at[cell] for cell in after.dots.reshape(-1)]
            before = slow.num_rounds
            reward = slow.step(actions[index, time], new_dots)
            respawns[number] += slow.num_rounds - before
            assert [at[cell] for cell in after.agents] == slow.agents
            left = {at[cell] for cell in after.dots[after.is_left]}
            assert left == {tuple(cell) for cell in np.argwhere(slow.dots)}
            np.testing.assert_allclose(outcome.reward, np.full(num_agents, reward), rtol=1e-6)
            views = np.stack([slow.view(agent) for agent in range(num_agents)])
            np.testing.assert_array_equal(outcome.observation.local, views.astype(np.float32))
            np.testing.assert_array_equal(
                outcome.observation.state, slow.whole().astype(np.float32)
            )
            for name, value in slow.metrics(*env.score_range).items():
                np.testing.assert_allclose(
                    outcome.metrics[name], value, rtol=1e-5, atol=1e-6, err_msg=name
                )
            assert bool(outcome.truncated) == (slow.time == slow.time_limit)
            assert not outcome.terminated
    assert min(respawns.values()) >= 3, respawns  # on every map


@pytest.mark.parametrize("num_agents", SIZES)
def test_dots_are_conserved(num_agents):
    _, _, (_, states, _) = episodes(num_agents)
    num_laid = 3 * num_agents * (1 + states.tally.num_rounds)
    num_left = states.is_left.sum((-2, -1))
    np.testing.assert_array_equal(states.tally.num_dots + num_left, num_laid)
    assert states.is_left.any((-2, -1)).all()
    starts = tables(LAYOUTS[num_agents]).room_starts[states.layout]
    places = states.dots - starts[..., None]
    assert (np.diff(places) > 0).all()  # three of each room, all different
    assert places.min() == 0
    assert places.max() == 14


@pytest.mark.parametrize("num_agents", SIZES)
def test_the_episodes_of_the_comparison_are_not_trivial(num_agents):
    _, _, (actions, states, outcomes) = episodes(num_agents)
    assert set(np.unique(actions)) == {0, 1, 2, 3, 4}
    assert (outcomes.metrics["corridor_sharing"][:, -1] > 0).any()
    together = [len(set(agents)) < num_agents for agents in states.agents.reshape(-1, num_agents)]
    assert any(together)


# Draws


def assert_uniform(values, num_values):
    counts = np.bincount(np.asarray(values).reshape(-1), minlength=num_values)
    assert counts.size == num_values
    assert chisquare(counts).pvalue > 1e-3


def dot_sets(env, states):
    """Return which of the 455 sets of dots each room has."""
    places = (
        np.asarray(states.dots)
        - tables(env.layouts).room_starts[np.asarray(states.layout)][:, :, None]
    )
    number = {tuple(dots): i for i, dots in enumerate(DOT_SETS.tolist())}
    return np.array([[number[tuple(dots)] for dots in rooms] for rooms in places.tolist()])


@pytest.mark.parametrize("num_agents", SIZES)
def test_starts_are_uniform(num_agents):
    env = paxmen(num_agents)
    states, _ = reset(env, 16384, seed=num_agents)
    num_hub = env.layouts[0].hub ** 2
    assert_uniform(states.layout, 4)
    for agents in np.asarray(states.agents).T:
        assert_uniform(agents, num_hub)
    assert (np.diff(np.sort(states.agents)) > 0).all()  # distinct cells
    if num_agents == 4:  # all 126 sets of cells
        sets = {
            cells: i
            for i, cells in enumerate(
                sorted({tuple(row) for row in np.sort(states.agents).tolist()})
            )
        }
        assert_uniform([sets[tuple(row)] for row in np.sort(states.agents).tolist()], 126)
    assert_dots_are_uniform(dot_sets(env, states))


def assert_dots_are_uniform(sets):
    for room in sets.T:
        assert_uniform(room, 455)
    table = np.zeros((5, 5))
    np.add.at(table, (sets[:, 0] % 5, sets[:, 1] % 5), 1)
    assert chi2_contingency(table).pvalue > 1e-3  # rooms are drawn independently


def test_dots_that_come_back_are_uniform_too():
    env = paxmen(4)
    states, _ = reset(env, 16384)
    last = jnp.zeros_like(states.is_left).at[:, 1, 2].set(True)
    states = states._replace(is_left=last, agents=states.agents.at[:, 3].set(states.dots[:, 1, 2]))
    after, outcome = step(env, states, np.full(states.agents.shape, EAT))
    assert after.is_left.all()
    np.testing.assert_array_equal(outcome.reward, np.full((16384, 4), np.float32((40 - 3) / 40)))
    sets = dot_sets(env, after)
    assert_dots_are_uniform(sets)
    assert np.mean(sets == dot_sets(env, states)) < 0.01
    np.testing.assert_array_equal(after.layout, states.layout)
    np.testing.assert_array_equal(after.agents, states.agents)


# Case by case


@pytest.mark.parametrize("num_agents", SIZES)
def test_all_actions_from_every_free_cell(num_agents):
    env = paxmen(num_agents)
    cases = [(n, c, a) for n in range(4) for c in range(env.num_cells) for a in range(5)]
    layouts, cells, actions = np.array(cases, np.int32).T
    states, _ = reset(env, len(cases))
    states = states._replace(
        layout=jnp.asarray(layouts),
        agents=jnp.asarray(np.tile(cells[:, None], num_agents)),
        is_left=jnp.ones_like(states.is_left),
    )
    after, _ = step(env, states, np.tile(actions[:, None], num_agents))
    positions = tables(env.layouts).positions
    models = [Reference(num_agents, n) for n in range(4)]
    dots = [slow.draw(np.random.default_rng(0)) for slow in models]
    for (number, cell, action), arrived in zip(cases, np.asarray(after.agents), strict=True):
        slow = models[number]
        slow.start([tuple(positions[number, cell])] * num_agents, dots[number])
        slow.step([action] * num_agents, [])
        assert [tuple(positions[number, c]) for c in arrived] == slow.agents


@pytest.mark.parametrize("num_agents", SIZES)
def test_eaters_of_one_dot_share_it(num_agents):
    env = paxmen(num_agents)
    states, _ = reset(env, num_agents)
    is_eater = np.tri(num_agents, dtype=bool)  # k = 1 .. N agents on the first dot
    agents = jnp.where(is_eater, states.dots[:, 0, :1], states.agents)
    after, outcome = step(env, states._replace(agents=agents), np.where(is_eater, EAT, UP))
    expected = [np.float32(1 - 0.025 * (num_agents - k)) for k in range(1, num_agents + 1)]
    np.testing.assert_allclose(
        outcome.reward, np.tile(np.array(expected)[:, None], num_agents), rtol=1e-7
    )
    np.testing.assert_array_equal(after.tally.num_dots, np.ones(num_agents))
    np.testing.assert_array_equal(after.tally.num_eaters, np.arange(1, num_agents + 1))
    np.testing.assert_array_equal((~after.is_left).sum((1, 2)), np.ones(num_agents))


def test_several_dots_in_one_step_and_none_twice():
    env = paxmen(4)
    states, _ = reset(env, 1)
    agents = jnp.asarray(
        states.dots[:, [0, 0, 1, 2], [0, 0, 1, 2]]
    )  # two on one dot, one on each of two others
    after, outcome = step(env, states._replace(agents=agents), [[EAT] * 4])
    np.testing.assert_array_equal(outcome.reward, np.full((1, 4), 3, np.float32))
    _, outcome = step(env, after, [[EAT] * 4])
    np.testing.assert_array_equal(outcome.reward, np.full((1, 4), np.float32(-0.1)))


def test_walking_over_a_dot_leaves_it():
    env = paxmen(4)
    states, _ = reset(env, 64)
    agents = jnp.tile(states.dots[:, 0, :1], (1, 4))
    after, _ = step(env, states._replace(agents=agents), np.tile([UP, DOWN, LEFT, RIGHT], (64, 1)))
    assert after.is_left.all()


# What agents see


@pytest.mark.parametrize("num_agents", SIZES)
def test_nothing_outside_the_window_changes_a_view(num_agents):
    env = paxmen(num_agents)
    one = scattered(env, 256, seed=1)
    observe = jax.jit(jax.vmap(env._observe))
    positions = jnp.asarray(tables(env.layouts).positions)[one.layout]  # [E, C, 2]

    def where(cells):
        return jnp.take_along_axis(positions, cells.reshape(256, -1, 1), axis=1)

    def is_far(cells):
        return jnp.abs(where(cells) - where(one.agents[:, :1])).max(-1) > 2

    # Change dots that agent 0 does not see, and swap agents that it does not see.
    far_dots = is_far(one.dots).reshape(one.dots.shape)
    hub = jnp.zeros_like(one.agents)
    far_agents = is_far(one.agents) & is_far(hub)
    other = one._replace(
        is_left=one.is_left ^ far_dots, agents=jnp.where(far_agents, hub, one.agents)
    )
    before, after = observe(one), observe(other)
    np.testing.assert_array_equal(before.local[:, 0], after.local[:, 0])
    assert (before.state != after.state).any(1).all()

    is_covered = (one.dots[..., None] == one.agents[:, None, None]).any(-1)  # hidden by an agent
    near_dots = ~far_dots & ~is_covered
    inside = observe(one._replace(is_left=one.is_left ^ near_dots))
    np.testing.assert_array_equal(
        (inside.local[:, 0] != before.local[:, 0]).any(1), near_dots.any((1, 2))
    )
    assert near_dots.any((1, 2)).sum() > 50


def test_what_is_drawn_over_what():
    env = paxmen(4)
    state, _ = env.reset(jax.random.key(0))
    dot = state.dots[0, 0]
    state = state._replace(agents=jnp.stack([dot, dot, jnp.int32(0), jnp.int32(1)]))
    observation = env._observe(state)
    assert observation.local[0, 12] == np.float32(0.1)  # another agent hides a dot
    assert observation.state[dot] == np.float32(0.1)
    alone = env._observe(state._replace(agents=state.agents.at[1].set(2)))
    assert alone.local[0, 12] == 1  # the agent itself is not shown, but the dot is
    assert alone.local[2, 12] == 0
    assert alone.local[3, 11] == np.float32(0.1)  # agent 2, to the west of agent 3


@pytest.mark.parametrize("num_agents", SIZES)
def test_permuting_agents_permutes_everything(num_agents):
    env = paxmen(num_agents)
    order = np.random.default_rng(2).permutation(num_agents)
    states = scattered(env, 256, seed=2)
    actions = np.where(np.random.default_rng(3).random((256, num_agents)) < 0.5, EAT, UP)
    one, result = step(env, states, actions)
    other, permuted = step(env, states._replace(agents=states.agents[:, order]), actions[:, order])
    assert (one.tally.num_dots > 0).any()
    np.testing.assert_array_equal(one.agents[:, order], other.agents)
    np.testing.assert_array_equal(result.observation.local[:, order], permuted.observation.local)
    np.testing.assert_array_equal(result.observation.state, permuted.observation.state)
    np.testing.assert_array_equal(result.reward[:, order], permuted.reward)
    jax.tree.map(np.testing.assert_array_equal, result.metrics, permuted.metrics)
    jax.tree.map(np.testing.assert_array_equal, one.tally, other.tally)


# Options, sizes, types


def test_masked_walls():
    env = paxmen(4, mask_walls=True)
    states = scattered(env, 256)
    legal = np.asarray(jax.jit(jax.vmap(env._observe))(states).legal)
    assert paxmen(4)._observe(jax.tree.map(lambda x: x[0], states)).legal.all()
    states = jax.device_get(states)
    assert legal[..., EAT].all()
    positions = tables(env.layouts).positions
    models = [Reference(4, n) for n in range(4)]
    for number, agents, open_to in zip(states.layout, states.agents, legal, strict=True):
        for cell, choices in zip(agents, open_to, strict=True):
            row, column = positions[number, cell]
            around = [(row - 1, column), (row + 1, column), (row, column + 1), (row, column - 1)]
            assert [not models[number].walls[near] for near in around] == choices[:EAT].tolist()


def test_additive_penalty_is_paid_by_eaters_too():
    states = scattered(paxmen(5), 256)
    actions = np.full((256, 5), EAT)
    after, plain = step(paxmen(5), states, actions)
    _, additive = step(paxmen(5, additive_penalty=True), states, actions)
    eaters = np.asarray(after.tally.num_eaters)
    assert eaters.max() >= 3
    np.testing.assert_allclose(
        additive.reward[:, 0], plain.reward[:, 0] - 0.025 * eaters, atol=1e-6
    )
    jax.tree.map(
        np.testing.assert_array_equal, plain.metrics, additive.metrics
    )  # the score uses the paper's reward


@pytest.mark.parametrize(
    ("num_agents", "num_cells", "limit"), [(4, 101, 100), (5, 140, 115), (6, 187, 130)]
)
def test_spec(num_agents, num_cells, limit):
    spec = paxmen(num_agents).spec
    assert (spec.name, spec.num_agents, spec.time_limit) == (
        f"paxmen-{num_agents}a",
        num_agents,
        limit,
    )
    assert (spec.observation_size, spec.state_size, spec.action) == (25, num_cells, Discrete(5))
    assert spec.metrics == METRICS
    assert paxmen(num_agents, held_out=True).spec.name == f"paxmen-{num_agents}a-heldout"


def test_other_numbers_of_agents_are_refused():
    with pytest.raises(InputError, match="no task with 3 agents; choose from 4, 5, 6"):
        paxmen(3)


def test_options_keep_the_contract(key):
    env = paxmen(4, held_out=True, mask_walls=True, additive_penalty=True)
    check_env(env, key, num_steps=env.time_limit + 1)


def test_no_type_is_weak(key):
    env = paxmen(4)
    state, observation = jax.eval_shape(env.reset, key)
    action = jax.ShapeDtypeStruct((4,), jnp.int32)
    results = (state, observation, jax.eval_shape(env.step, key, state, action))
    assert not [
        path for path, leaf in jax.tree_util.tree_leaves_with_path(results) if leaf.weak_type
    ]
