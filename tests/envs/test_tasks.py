"""The table of tasks, its lookup, and the contract for every row."""

import subprocess
import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.aerojax.opponents import LEVELS
from ratiosym.envs.protocol import check_env, random_action
from ratiosym.envs.registry import make
from ratiosym.envs.tasks import OPPONENT_LEVELS, TASKS, VARIANTS, Sizes
from ratiosym.types import Discrete

# Step counter in each suite's state.
CLOCKS = {
    "rware": "world.step_count",
    "connector": "step_count",
    "smax": "world.step",
    "mpe": "world.step",
    "jaxnav": "step",
    "sar": "step",
    "paxmen": "time",
    "aerojax": "time",
}


def test_there_are_47_tasks_in_eight_suites():
    counts = Counter(task.suite.name for task in TASKS.values())
    assert counts == {
        "rware": 15,
        "connector": 5,
        "smax": 11,
        "mpe": 3,
        "jaxnav": 3,
        "sar": 4,
        "paxmen": 3,
        "aerojax": 3,
    }
    assert len(TASKS) == 47
    assert not TASKS.keys() & VARIANTS.keys()


def test_rows_are_keyed_and_prefixed_by_their_own_names():
    for name, task in (TASKS | VARIANTS).items():
        assert task.name == name
        assert name.startswith(f"{task.suite.name}-")


def first_of_each_suite_and_the_rest_as_slow(tasks):
    suites = set()
    for task in tasks:
        is_first = task.suite not in suites
        suites.add(task.suite)
        yield pytest.param(task.name, marks=() if is_first else pytest.mark.slow)


@pytest.mark.parametrize(
    "name", list(first_of_each_suite_and_the_rest_as_slow((TASKS | VARIANTS).values()))
)
def test_the_sizes_in_the_table_are_those_of_the_environment(name):
    spec = make(name, agent_ids=False).spec
    assert spec.name == name
    is_discrete = isinstance(spec.action, Discrete)
    assert (TASKS | VARIANTS)[name].sizes == Sizes(
        num_agents=spec.num_agents,
        action_kind="discrete" if is_discrete else "continuous",
        action_size=spec.action.num_actions if is_discrete else spec.action.size,
        observation_size=spec.observation_size,
        state_size=spec.state_size,
        time_limit=spec.time_limit,
    )


def test_the_levels_of_opponents_are_those_of_aerojax():
    assert tuple(LEVELS) == OPPONENT_LEVELS


def test_listing_tasks_needs_no_jax():
    code = "import sys, ratiosym; print(len(ratiosym.tasks()), 'jax' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "47 False\n", result.stderr


# ------------------------------------------------------------------------------------- the contract


def representative():
    """Keep one of AeroJAX's levels, as the others only differ in a number."""
    for task in (TASKS | VARIANTS).values():
        if task.suite.name != "aerojax" or task.name in TASKS or task.name.endswith("-l4"):
            yield task


EVERY_TASK = pytest.mark.parametrize(
    "name", list(first_of_each_suite_and_the_rest_as_slow(representative()))
)


@EVERY_TASK
def test_tasks_keep_the_contract(name, key):
    env = make(name)
    check_env(env, key, num_steps=env.spec.time_limit + 1)


@EVERY_TASK
def test_one_program_steps_through_ends_that_only_the_caller_follows_with_a_start(name, key):
    """No recompilation, and ``step`` never resets: time continues after an end."""
    env, path = make(name), CLOCKS[name.split("-")[0]]
    num_traces = Counter()

    def count(function, label):
        def counted(*args):
            num_traces[label] += 1
            return function(*args)

        return jax.jit(counted)

    reset, step = count(env.reset, "reset"), count(env.step, "step")
    act = jax.jit(lambda key, observation: random_action(env.spec, key, observation))
    key, start_key = jax.random.split(key)
    state, observation = reset(start_key)
    state = set_clock(state, path, env.spec.time_limit - 3)
    ends = []
    for _ in range(5):
        key, action_key, step_key = jax.random.split(key, 3)
        state, outcome = step(step_key, state, act(action_key, observation))
        observation = outcome.observation
        ends.append(bool(outcome.terminated | outcome.truncated))
        assert not (outcome.terminated and outcome.truncated)
    assert clock(state, path) == env.spec.time_limit + 2
    assert ends[2]  # the last of these three steps is the last of the longest episode
    assert not ends[0] or outcome.terminated  # no earlier step is truncated
    reset(key)
    assert num_traces == {"reset": 1, "step": 1}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            task.name,
            marks=() if task.name in ("mpe-spread-3ag", "paxmen-4a") else pytest.mark.slow,
        )
        for task in representative()
    ],
)
def test_side_by_side_is_as_alone(name, key):
    env = make(name)
    start_keys, action_keys, step_keys = jax.random.split(key, (3, 3))
    starts = jax.jit(jax.vmap(env.reset))(start_keys)
    actions = jax.jit(jax.vmap(lambda k, o: random_action(env.spec, k, o)))(action_keys, starts[1])
    steps = jax.jit(jax.vmap(env.step))(step_keys, starts[0], actions)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    for i in range(3):
        alone = reset(start_keys[i])
        assert_near(alone, jax.tree.map(lambda x, i=i: x[i], starts))
        assert_near(
            step(step_keys[i], alone[0], actions[i]), jax.tree.map(lambda x, i=i: x[i], steps)
        )


def assert_near(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-4, atol=1e-4)


def clock(state, path):
    for name in path.split("."):
        state = getattr(state, name)
    return int(state)


def set_clock(state, path, time):
    first, _, rest = path.partition(".")
    old = getattr(state, first)
    new = set_clock(old, rest, time) if rest else jnp.asarray(time, old.dtype)
    replace = state._replace if hasattr(state, "_replace") else state.replace
    return replace(**{first: new})


# --------------------------------------------------------------------------------------- the way in


def test_agent_ids_are_on_unless_refused():
    assert make("mpe-spread-3ag").spec.observation_size == 3 + 18
    assert make("mpe-spread-3ag", agent_ids=False).spec.observation_size == 18


@pytest.mark.parametrize("name", ["mpe-spread-3ag", "connector-5x5x3a", "paxmen-4a"])
def test_making_a_task_twice_shares_compiled_programs(name, key):
    one, other = make(name), make(name)
    assert one == other
    assert hash(one) == hash(other)
    assert one != make("mpe-spread-5ag")
    num_traces = 0

    def start(env, key):
        nonlocal num_traces
        num_traces += 1
        return env.reset(key)

    compiled = jax.jit(start, static_argnums=0)
    compiled(one, key)
    compiled(other, key)
    assert num_traces == 1
