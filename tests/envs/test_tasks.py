"""The table of tasks, the way into it, and the contract that every row keeps."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.protocol import check_env, random_action
from ratiosym.envs.tasks import TASKS, VARIANTS, make
from ratiosym.types import Continuous, Discrete

# By hand, from the documents of the suites: agents, observation, state, action, longest episode.
SIZES = {
    **{
        f"rware-{name}": (agents, 66, 66 * agents, Discrete(5), 500)
        for name, agents in {
            "tiny-2ag": 2,
            "tiny-2ag-hard": 2,
            "tiny-4ag": 4,
            "tiny-4ag-hard": 4,
            "small-4ag": 4,
            "small-4ag-hard": 4,
            "medium-4ag": 4,
            "medium-4ag-hard": 4,
            "medium-6ag": 6,
            "large-4ag": 4,
            "large-4ag-hard": 4,
            "large-8ag": 8,
            "large-8ag-hard": 8,
            "xlarge-4ag": 4,
            "xlarge-4ag-hard": 4,
        }.items()
    },
    "connector-5x5x3a": (3, 54, 162, Discrete(5), 25),
    "connector-7x7x5a": (5, 54, 270, Discrete(5), 49),
    "connector-10x10x10a": (10, 54, 540, Discrete(5), 100),
    "connector-15x15x23a": (23, 54, 1242, Discrete(5), 225),
    "connector-18x18x33a": (33, 54, 1782, Discrete(5), 324),
    **{
        f"smax-{name}": (
            allies,
            13 * (allies - 1 + enemies) + 10,
            12 * (allies + enemies),
            Discrete(5 + enemies),
            101,
        )
        for name, (allies, enemies) in {
            "2s3z": (5, 5),
            "3s5z": (8, 8),
            "3s5z_vs_3s6z": (8, 9),
            "3s_vs_5z": (3, 5),
            "5m_vs_6m": (5, 6),
            "10m_vs_11m": (10, 11),
            "27m_vs_30m": (27, 30),
            "6h_vs_8z": (6, 8),
            "smacv2_5_units": (5, 5),
            "smacv2_10_units": (10, 10),
            "smacv2_20_units": (20, 20),
        }.items()
    },
    **{f"mpe-spread-{n}ag": (n, 6 * n, 6 * n * n, Continuous(5), 26) for n in (3, 5, 10)},
    **{
        # The critic sees the inner cells, seven numbers of each robot, and the time.
        f"jaxnav-{side}x{side}x{n}a": (n, 205, (side - 2) ** 2 + 7 * n + 1, Continuous(2), 500)
        for side, n in ((11, 4), (9, 3), (8, 2))
    },
    **{f"sar-{n}00tg-{2 * n}ag": (2 * n, 386, 772 * n, Continuous(2), 400) for n in (1, 2, 3, 4)},
    "paxmen-4a": (4, 25, 101, Discrete(5), 100),
    "paxmen-5a": (5, 25, 140, Discrete(5), 115),
    "paxmen-6a": (6, 25, 187, Discrete(5), 130),
    "aerojax-2v2": (2, 48, 79, Continuous(3), 500),
    "aerojax-4v4": (4, 92, 155, Continuous(3), 500),
    "aerojax-8v8": (8, 180, 307, Continuous(3), 500),
}

# Where each suite's state counts its steps.
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
    counts = Counter(task.suite for task in TASKS.values())
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
    assert len(TASKS) == len(SIZES) == 47
    assert not TASKS.keys() & VARIANTS.keys()


def test_rows_are_keyed_and_prefixed_by_their_own_names():
    for name, task in (TASKS | VARIANTS).items():
        assert task.name == name
        assert name.startswith(f"{task.suite}-")


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_the_sizes_of_its_suite(name):
    spec = make(name, agent_ids=False).spec
    assert spec.name == name
    found = (spec.num_agents, spec.observation_size, spec.state_size, spec.action, spec.time_limit)
    assert found == SIZES[name]


# ------------------------------------------------------------------------------------- the contract


def first_of_each_suite_and_the_rest_as_slow():
    suites = set()
    for task in (TASKS | VARIANTS).values():
        if task.suite == "aerojax" and task.name not in TASKS and not task.name.endswith("-l4"):
            continue  # the other levels differ from it in a number
        is_first = task.suite not in suites
        suites.add(task.suite)
        yield pytest.param(task.name, marks=() if is_first else pytest.mark.slow)


EVERY_TASK = pytest.mark.parametrize("name", list(first_of_each_suite_and_the_rest_as_slow()))


@EVERY_TASK
def test_tasks_keep_the_contract(name, key):
    env = make(name)
    check_env(env, key, num_steps=env.spec.time_limit + 1)


@EVERY_TASK
def test_one_program_steps_through_ends_that_only_the_caller_follows_with_a_start(name, key):
    """No recompilation, and ``step`` never resets: the clock goes on after an end."""
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
    assert ends[2]  # the third of the last three steps is the longest episode's last
    assert not ends[0] or outcome.terminated  # and the clock ends none before it
    reset(key)
    assert num_traces == {"reset": 1, "step": 1}


@EVERY_TASK
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


def test_unknown_tasks_name_the_closest():
    with pytest.raises(ValueError, match="task") as error:
        make("mpe-spread-3a")
    assert str(error.value) == (
        "Unknown task 'mpe-spread-3a'. Closest: 'mpe-spread-3ag'. List all with 'ratiosym tasks'."
    )


def test_unknown_tasks_like_no_other_name_none():
    with pytest.raises(ValueError, match="task") as error:
        make("zzz")
    assert str(error.value) == "Unknown task 'zzz'. List all with 'ratiosym tasks'."
