"""The adapters match the library, and distinguish termination from truncation."""

import subprocess
import sys
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.adapters.jumanji import boards, connector, rware, search_and_rescue
from ratiosym.envs.protocol import random_action

slow = pytest.mark.slow


@cache
def library_connector(size, num_agents):
    """Build the library's own class."""
    from jumanji.environments.routing.connector.env import Connector
    from jumanji.environments.routing.connector.generator import LegacyRandomWalkGenerator

    return Connector(generator=LegacyRandomWalkGenerator(size, num_agents), time_limit=size * size)


@cache
def library_rware(shelf_rows, shelf_columns, num_agents, queue):
    from jumanji.environments.routing.robot_warehouse.env import RobotWarehouse
    from jumanji.environments.routing.robot_warehouse.generator import RandomGenerator

    with jax.numpy_rank_promotion("allow"):
        return RobotWarehouse(
            RandomGenerator(shelf_rows, shelf_columns, 8, num_agents, 1, queue), time_limit=500
        )


@cache
def library_sar(num_targets, num_agents):
    from jumanji.environments.swarms.search_and_rescue.env import SearchAndRescue
    from jumanji.environments.swarms.search_and_rescue.generator import RandomGenerator

    return SearchAndRescue(
        generator=RandomGenerator(num_targets=num_targets, num_searchers=num_agents)
    )


@partial(jax.jit, static_argnums=0)
def library_rollout(library, key, actions):
    """Play the library's episode with one key per step; return its first time step and the rest."""

    def body(state, inputs):
        state, timestep = library.step(state.replace(key=inputs[0]), inputs[1])
        return jax.tree.map(jnp.asarray, state), (state, timestep)

    with jax.numpy_rank_promotion("allow"):
        state, first = library.reset(key)
        state = jax.tree.map(jnp.asarray, state)
        _, (states, timesteps) = jax.lax.scan(
            body, state, (jax.random.split(key, len(actions)), actions)
        )
    return (state, first), (states, timesteps)


@partial(jax.jit, static_argnums=0)
def rollout(env, key, actions):
    """Play our episode with the same keys; return the first observation and the steps, [T, ...]."""
    state, observation = env.reset(key)
    _, steps = jax.lax.scan(
        lambda state, inputs: env.step(inputs[0], state, inputs[1]),
        state,
        (jax.random.split(key, len(actions)), actions),
    )
    return observation, steps


@cache
def compiled(function):
    return jax.jit(function)


def take(env, key, state, action):
    """Take one step."""
    return compiled(env.step)(key, state, jnp.array(action))


def any_actions(key, env, num_steps):
    """Sample legal and illegal actions."""
    spec = env.spec
    if spec.num_actions:
        return jax.random.randint(key, (num_steps, spec.num_agents), 0, spec.num_actions)
    return jax.random.uniform(
        key, (num_steps, spec.num_agents, spec.action.size), minval=-1.2, maxval=1.2
    )


def both(library, env, key):
    """Play a whole episode and steps past its end, in the library and in the adapter."""
    actions = any_actions(jax.random.fold_in(key, 1), env, env.spec.time_limit)
    return library_rollout(library, key, actions), rollout(env, key, actions)


def shared(values, num_agents):
    """Broadcast to one column per agent."""
    return np.repeat(np.asarray(values)[:, None], num_agents, axis=1)


def is_last(timesteps):
    return np.asarray(timesteps.step_type) == 2


# Connector


def slow_view(grid, agent):
    """Compute the view of ``agent`` from the board's numbers, cell by cell."""
    size = len(grid)
    path, position, target = 3 * agent + 1, 3 * agent + 2, 3 * agent + 3
    (own,) = np.argwhere(grid == position)
    goals = np.argwhere(grid == target)
    goal = goals[0] if len(goals) else np.zeros(2)
    blockers, targets = [], []
    for row in range(own[0] - 2, own[0] + 3):
        for column in range(own[1] - 2, own[1] + 3):
            if not (0 <= row < size and 0 <= column < size):
                blockers.append(1)
                targets.append(1)
                continue
            value = grid[row, column]
            is_path, is_head, is_goal = (
                value > 0 and value % 3 == rest for rest in (path % 3, position % 3, 0)
            )
            blockers.append(1 if is_head else -1 if is_path else 0)
            targets.append(1 if value == target else -1 if is_goal else 0)
    return np.concatenate([own / size**2, goal / size**2, blockers, targets]).astype(np.float32)


def slow_views(grid, num_agents):
    return np.stack([slow_view(np.asarray(grid), agent) for agent in range(num_agents)])


@pytest.mark.parametrize(
    ("size", "num_agents"),
    [(5, 3), pytest.param(10, 10, marks=slow), pytest.param(18, 33, marks=slow)],
)
def test_connector_episodes_are_the_librarys(size, num_agents, key):
    env, library = connector(size, num_agents), library_connector(size, num_agents)
    num_ends = 0
    for reset_key in jax.random.split(key, 4 if size < 10 else 1):
        ((state, first), (_, timesteps)), (observation, steps) = both(library, env, reset_key)
        np.testing.assert_array_equal(observation.legal, first.observation.action_mask)
        np.testing.assert_allclose(observation.local, slow_views(state.grid, num_agents), rtol=1e-6)
        np.testing.assert_array_equal(steps.observation.legal, timesteps.observation.action_mask)
        for index, grid in enumerate(timesteps.observation.grid):
            seen = slow_views(grid, num_agents)
            np.testing.assert_allclose(steps.observation.local[index], seen, rtol=1e-6)
            np.testing.assert_allclose(steps.observation.state[index], seen.reshape(-1), rtol=1e-6)
        np.testing.assert_allclose(
            steps.reward, shared(timesteps.reward.sum(1), num_agents), rtol=1e-5, atol=1e-6
        )
        # The library keeps a discount per agent: 0 if it is connected or blocked, and 0 for all at
        # a termination.
        all_done = (timesteps.discount == 0).all(1)
        np.testing.assert_array_equal(steps.terminated, is_last(timesteps) & all_done)
        np.testing.assert_array_equal(steps.truncated, is_last(timesteps) & ~all_done)
        np.testing.assert_array_equal(
            steps.observation.active[~all_done], timesteps.discount[~all_done] > 0
        )
        np.testing.assert_allclose(
            steps.metrics["connected"], timesteps.extras["ratio_connections"], rtol=1e-6
        )
        num_ends += int((steps.terminated | steps.truncated).any())
    assert num_ends > 0


# Of some ten thousand boards: an agent has no room for a first move, and shares the last cell.
CROWDED = {  # keys
    (5, 3): [[1120269857, 3853668661], [2972266250, 684823664]],
    (10, 10): [[3895469545, 724178513]],
}


@pytest.mark.parametrize(
    ("size", "num_agents", "num_boards"), [(5, 3, 1000), pytest.param(10, 10, 200, marks=slow)]
)
def test_boards_and_moves_are_the_librarys(size, num_agents, num_boards, key):
    library = library_connector(size, num_agents)
    crowded = jax.random.wrap_key_data(jnp.array(CROWDED[size, num_agents], jnp.uint32))
    keys = jnp.concatenate([crowded, jax.random.split(key, num_boards)])
    with jax.numpy_rank_promotion("allow"):
        theirs, _ = jax.jit(jax.vmap(library.reset))(keys)
        their_step = jax.jit(jax.vmap(library.step))
        ours = jax.jit(jax.vmap(lambda key: boards.generate(key, size, num_agents)))(keys)
        our_step = jax.jit(jax.vmap(boards.move))
        assert (ours.agents.target < 0).any((1, 2))[: len(crowded)].all()
        assert_equal_boards(ours, theirs)
        for number in range(30):
            mask = ours.action_mask if number % 2 else jnp.ones_like(ours.action_mask)
            logits = jnp.where(mask, 0.0, -jnp.inf)  # legal actions, or any
            action = jax.random.categorical(jax.random.fold_in(key, number), logits)
            theirs, timestep = their_step(theirs, action)
            ours, reward = our_step(ours, action)
            assert_equal_boards(ours, theirs)
            np.testing.assert_array_equal(reward, timestep.reward)
    assert 0.1 < ours.agents.connected.mean() < 0.9


def assert_equal_boards(ours, theirs):
    for name in ("grid", "step_count", "action_mask"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for name in boards.Agents._fields:
        np.testing.assert_array_equal(getattr(ours.agents, name), getattr(theirs.agents, name))
    np.testing.assert_array_equal(*(jax.random.key_data(state.key) for state in (ours, theirs)))


def board(rows, agents, time=0):
    """Build a state from its grid and each agent's position and target."""
    position, target = (jnp.array(x, jnp.int32) for x in zip(*agents, strict=True))
    agents = boards.Agents(jnp.arange(len(agents)), position, target, position)
    grid = jnp.array(rows, jnp.int32)
    return boards.Board(
        grid, jnp.int32(time), agents, jax.random.key(0), boards.legal_actions(agents, grid)
    )


STAY, UP, RIGHT, DOWN, LEFT = range(5)
APART = [  # three heads (2, 5, 8), their targets (3, 6, 9)
    [2, 3, 0, 0, 0],
    [0, 0, 0, 0, 0],
    [5, 0, 6, 0, 0],
    [0, 0, 0, 0, 0],
    [8, 0, 0, 0, 9],
]
PLACES = [((0, 0), (0, 1)), ((2, 0), (2, 2)), ((4, 0), (4, 4))]


def test_connector_pays_the_sum_to_all(key):
    env = connector(5, 3)
    _, step = take(env, key, board(APART, PLACES), [RIGHT, RIGHT, STAY])
    np.testing.assert_allclose(step.reward, [1 - 3 * 0.03] * 3, rtol=1e-5)
    np.testing.assert_allclose(step.metrics["connected"], 1 / 3, rtol=1e-6)
    np.testing.assert_array_equal(step.observation.active, [False, True, True])
    np.testing.assert_array_equal(
        step.observation.legal[0], [True] + [False] * 4
    )  # connected: it can only stay
    np.testing.assert_array_equal(step.observation.local[0, 2:4], [0, 0])  # its target is gone
    np.testing.assert_allclose(
        step.observation.local[1, :4], [2 / 25, 1 / 25, 2 / 25, 2 / 25], rtol=1e-6
    )


def test_connector_shows_agents_paths_targets_and_the_border(key):
    _, step = take(connector(5, 3), key, board(APART, PLACES), [STAY, RIGHT, STAY])
    blockers, targets = step.observation.local[1, 4:].reshape(2, 5, 5)  # around (2, 1)
    off = [1] * 5
    np.testing.assert_array_equal(blockers[:, 0], off)  # the column left of the board
    np.testing.assert_array_equal(targets[:, 0], off)
    np.testing.assert_array_equal(
        blockers[2], [1, -1, 1, 0, 0]
    )  # border, own path, the agent itself
    np.testing.assert_array_equal(targets[2], [1, 0, 0, 1, 0])  # border, own target
    np.testing.assert_array_equal(targets[0], [1, 0, -1, 0, 0])  # border, another's target


@pytest.mark.parametrize("time", [0, 24])
def test_connector_terminates_when_all_are_connected_or_blocked(time, key):
    blocked = [[2, 3, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 6], [4, 4, 0, 0, 0], [5, 4, 0, 0, 0]]
    state = board(blocked, [((0, 0), (0, 1)), ((4, 0), (2, 4))], time)
    _, step = take(connector(5, 2), key, state, [RIGHT, STAY])
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)
    assert step.metrics["connected"] == 0.5


def test_connector_is_truncated_at_the_limit(key):
    env = connector(5, 3)
    for time, expected in [(23, False), (24, True)]:
        _, step = take(env, key, board(APART, PLACES, time), [STAY] * 3)
        assert (bool(step.terminated), bool(step.truncated)) == (False, expected)


# RWARE


@pytest.mark.parametrize(
    ("task", "layout"),
    [
        (("tiny", 2), (1, 3, 2, 2)),
        pytest.param(("large", 8, True), (3, 5, 8, 4), marks=slow),
        pytest.param(("xlarge", 4, True), (4, 5, 4, 2), marks=slow),
        pytest.param(("medium", 6), (2, 5, 6, 6), marks=slow),
    ],
)
def test_rware_episodes_are_the_librarys(task, layout, key):
    env, library = rware(*task), library_rware(*layout)
    num_agents = env.spec.num_agents
    num_early = 0
    for reset_key in jax.random.split(key, 2):
        ((_, first), (_, timesteps)), (observation, steps) = both(library, env, reset_key)
        np.testing.assert_array_equal(observation.local, first.observation.agents_view)
        np.testing.assert_array_equal(observation.legal, first.observation.action_mask)
        np.testing.assert_array_equal(steps.observation.local, timesteps.observation.agents_view)
        np.testing.assert_array_equal(steps.observation.legal, timesteps.observation.action_mask)
        np.testing.assert_array_equal(
            steps.observation.state, steps.observation.local.reshape(500, -1)
        )
        np.testing.assert_array_equal(steps.reward, shared(timesteps.reward, num_agents))
        np.testing.assert_array_equal(steps.metrics["deliveries"], np.cumsum(timesteps.reward))
        # Every end before the limit is a collision; the library does not distinguish ends.
        np.testing.assert_array_equal(steps.terminated[:-1], is_last(timesteps)[:-1])
        np.testing.assert_array_equal(steps.metrics["collided"], steps.terminated)
        np.testing.assert_array_equal(steps.truncated, [False] * 499 + [not steps.terminated[-1]])
        num_early += int(steps.terminated[:-1].any())
    assert num_early > 0


def warehouse(key, robots, time=0):
    """Start rware-tiny-2ag with robots at the given row, column and direction."""
    state, _ = compiled(rware("tiny", 2).reset)(key)
    x, y, direction = (jnp.array(values, jnp.int32) for values in zip(*robots, strict=True))
    world = state.world
    grid = world.grid.at[1].set(0).at[1, x, y].set(jnp.arange(1, 3))
    agents = world.agents._replace(
        position=world.agents.position._replace(x=x, y=y), direction=direction
    )
    return state._replace(world=world.replace(grid=grid, agents=agents, step_count=jnp.int32(time)))


def with_load_above_the_goal(state):
    """Robot 0, in row 9 of 11 above the left goal, carries the first requested shelf."""
    world = state.world
    shelf = world.request_queue[0]
    home = world.shelves.position
    shelves = world.shelves._replace(
        position=home._replace(x=home.x.at[shelf].set(9), y=home.y.at[shelf].set(4))
    )
    grid = world.grid.at[0, home.x[shelf], home.y[shelf]].set(0).at[0, 9, 4].set(shelf + 1)
    agents = world.agents._replace(is_carrying=jnp.array([1, 0]))
    return state._replace(world=world.replace(grid=grid, agents=agents, shelves=shelves))


NORTH, EAST, SOUTH, WEST = range(4)
FORWARD = 1


def test_rware_pays_every_delivery_to_all_and_asks_for_another_shelf(key):
    env, library = rware("tiny", 2), library_rware(1, 3, 2, 2)
    before = with_load_above_the_goal(warehouse(key, [(9, 4, SOUTH), (0, 0, EAST)]))
    asked = []
    for step_key in jax.random.split(key, 8):
        after, step = take(env, step_key, before, [FORWARD, 0])
        np.testing.assert_array_equal(step.reward, [1, 1])
        assert step.metrics["deliveries"] == 1
        assert not step.terminated
        with jax.numpy_rank_promotion("allow"):
            theirs, timestep = compiled(library.step)(
                before.world.replace(key=step_key), jnp.array([FORWARD, 0])
            )
        np.testing.assert_array_equal(after.world.request_queue, theirs.request_queue)
        np.testing.assert_array_equal(step.observation.local, timestep.observation.agents_view)
        asked.append(int(after.world.request_queue[0]))
        assert asked[-1] not in before.world.request_queue
    assert len(set(asked)) > 1  # drawn with the step's key
    _, step = take(env, key, after, [0, 0])  # staying at the goal gives no further reward
    np.testing.assert_array_equal(step.reward, [0, 0])
    assert step.metrics["deliveries"] == 1


@pytest.mark.parametrize("time", [0, 499])
def test_rware_collisions_terminate_and_win_over_the_clock(time, key):
    env = rware("tiny", 2)
    _, step = take(env, key, warehouse(key, [(0, 3, EAST), (0, 4, NORTH)], time), [FORWARD, 0])
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)
    assert step.metrics["collided"] == 1
    np.testing.assert_array_equal(step.reward, [0, 0])


@pytest.mark.parametrize(
    ("robots", "collided"), [([(0, 4), (0, 3)], False), ([(0, 3), (0, 4)], True)]
)
def test_rware_follows_a_moving_robot_in_the_order_of_numbers_only(robots, collided, key):
    state = warehouse(key, [(*cell, EAST) for cell in robots])
    _, step = take(rware("tiny", 2), key, state, [FORWARD, FORWARD])
    assert bool(step.terminated) == collided


def test_rware_is_truncated_at_the_limit(key):
    env = rware("tiny", 2)
    for time, expected in [(498, False), (499, True)]:
        _, step = take(
            env, key, warehouse(key, [(0, 3, EAST), (0, 6, EAST)], time), [FORWARD, FORWARD]
        )
        assert (bool(step.terminated), bool(step.truncated)) == (False, expected)


# Search and Rescue


@pytest.mark.parametrize(
    ("num_targets", "num_agents"), [(100, 2), pytest.param(400, 8, marks=slow)]
)
def test_sar_episodes_are_the_librarys(num_targets, num_agents, key):
    env, library = search_and_rescue(num_targets, num_agents), library_sar(num_targets, num_agents)
    ((_, first), (states, timesteps)), (observation, steps) = both(library, env, key)
    np.testing.assert_allclose(
        observation.local[:, :384], first.observation.searcher_views.reshape(num_agents, 384)
    )
    np.testing.assert_array_equal(observation.local[:, 384:], [[1, 0]] * num_agents)
    seen = timesteps.observation
    np.testing.assert_allclose(
        steps.observation.local[..., :384], seen.searcher_views.reshape(400, num_agents, 384)
    )
    np.testing.assert_allclose(
        steps.observation.local[..., 384], shared(seen.targets_remaining, num_agents)
    )
    np.testing.assert_allclose(
        steps.observation.local[..., 385], shared(np.arange(1, 401) / 400, num_agents), rtol=1e-6
    )
    np.testing.assert_array_equal(steps.observation.state, steps.observation.local.reshape(400, -1))
    np.testing.assert_allclose(steps.reward, shared(timesteps.reward.sum(1), num_agents), rtol=1e-5)
    np.testing.assert_array_equal(steps.terminated | steps.truncated, is_last(timesteps))
    np.testing.assert_array_equal(steps.terminated, states.targets.found.all(1))
    np.testing.assert_allclose(steps.metrics["found"], states.targets.found.mean(1), rtol=1e-6)
    assert steps.metrics["found"][-1] > 0
    assert (steps.reward > 0).any()


def ahead(env, key, num_left, time=0):
    """Two searchers fly east side by side, towards the last targets, all at the same place."""
    state, _ = compiled(env.reset)(key)
    searchers = state.searchers.replace(
        pos=jnp.array([[0.5, 0.5], [0.5, 0.505]]), heading=jnp.zeros(2), speed=jnp.full(2, 0.01)
    )
    found = jnp.arange(100) >= num_left
    pos = jnp.where(found[:, None], 0.1, 0.52) + jnp.zeros((100, 2))
    targets = state.targets.replace(pos=pos.at[:num_left, 1].set(0.5), found=found)
    return state.replace(searchers=searchers, targets=targets, step=jnp.int32(time))


def test_sar_pays_the_sum_of_all_finds_to_all(key):
    env = search_and_rescue(100, 2)
    _, step = take(env, key, ahead(env, key, num_left=3, time=100), jnp.zeros((2, 2)))
    np.testing.assert_allclose(
        step.reward, [3 * 0.75] * 2, rtol=1e-5
    )  # found by both at once: split, then summed
    assert step.metrics["found"] == 1
    np.testing.assert_allclose(step.observation.local[:, 384:], [[0, 101 / 400]] * 2, atol=1e-6)


@pytest.mark.parametrize("time", [0, 399])
def test_sar_terminates_when_all_are_found(time, key):
    env = search_and_rescue(100, 2)
    _, step = take(env, key, ahead(env, key, num_left=1, time=time), jnp.zeros((2, 2)))
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)


def test_sar_targets_drift_by_the_steps_key(key):
    env = search_and_rescue(100, 2)
    state, _ = compiled(env.reset)(key)
    one, same, other = (
        take(env, jax.random.key(k), state, jnp.zeros((2, 2)))[0].targets.pos for k in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


# All of them


@cache
def environments():
    return {
        "connector": connector(5, 3),
        "rware": rware("tiny", 2),
        "sar": search_and_rescue(100, 2),
    }


SUITES = ["connector", "rware", "sar"]


@pytest.mark.parametrize(
    "suite", ["connector", pytest.param("rware", marks=slow), pytest.param("sar", marks=slow)]
)
def test_batches_are_their_rows(suite, key):
    env = environments()[suite]
    keys = jax.random.split(key, 3)
    actions = any_actions(key, env, 3 * 8).reshape(3, 8, *any_actions(key, env, 1).shape[1:])
    batch = jax.jit(jax.vmap(partial(rollout, env)))(keys, actions)
    for row, (row_key, row_actions) in enumerate(zip(keys, actions, strict=True)):
        alone = rollout(env, row_key, row_actions)
        for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(batch), strict=True):
            np.testing.assert_allclose(one, other[row], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suite", SUITES)
def test_steps_compile_once(suite, key):
    env = environments()[suite]
    num_traces = 0

    def step(key, state, action):
        nonlocal num_traces
        num_traces += 1
        return env.step(key, state, action)

    step = jax.jit(step)
    state, _ = compiled(env.reset)(key)
    for action in any_actions(key, env, 3):
        state, _ = step(key, state, action)
    assert num_traces == 1


@pytest.mark.parametrize("suite", SUITES)
def test_pictures_show_the_state_and_leave_nothing_open(suite, key):
    env = environments()[suite]
    state, observation = compiled(env.reset)(key)
    later, _ = take(env, key, state, random_action(env.spec, key, observation))
    before, after = env.draw(state), env.draw(later)
    assert before.shape == after.shape == (400, 400, 3)
    assert before.dtype == np.uint8
    np.testing.assert_array_equal(before, env.draw(state))
    assert (before != after).any()
    import matplotlib.pyplot as plt

    assert plt.get_fignums() == []


def test_one_environment_for_each_task():
    assert connector(5, 3) is connector(5, 3)
    assert connector(5, 3) != connector(7, 5)
    assert rware("tiny", 2) != rware("tiny", 2, hard=True)


def test_environments_can_be_made_while_tracing(key):
    for factory, args in [(connector, (5, 3)), (rware, ("tiny", 2)), (search_and_rescue, (100, 2))]:
        factory.cache_clear()
        jax.eval_shape(lambda key, factory=factory, args=args: factory(*args).reset(key), key)
        jax.eval_shape(
            factory(*args).reset, key
        )  # fails if the environment kept anything from the first trace
    environments.cache_clear()


def test_a_missing_library_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "jumanji", None)  # as if not installed
    for factory, args, name in [
        (connector, (6, 2), "connector-6x6x2a"),
        (rware, ("small", 2), "rware-small-2ag"),
        (search_and_rescue, (10, 2), "sar-10tg-2ag"),
    ]:
        with pytest.raises(ImportError) as error:
            factory(*args)
        assert str(error.value) == (
            f"Task {name!r} needs the library jumanji. Install it with: pip install "
            f"'ratiosym[jumanji]'"
        )


QUIET = """
import sys
from ratiosym.envs import registry
early = {name.split(".")[0] for name in sys.modules}
assert not early & {"jumanji", "esquilax", "matplotlib"}, "not lazy"
import jax
env = registry.make("connector-5x5x3a")
jax.eval_shape(env.reset, jax.random.key(0))
"""


def test_nothing_is_imported_early_and_nothing_printed():
    result = subprocess.run(
        [sys.executable, "-W", "always", "-c", QUIET], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
