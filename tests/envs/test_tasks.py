"""The table of tasks and the way into it."""

import jax
import pytest

from ratiosym.envs.protocol import check_env
from ratiosym.envs.tasks import TASKS, make
from ratiosym.types import Continuous


def test_rows_are_keyed_and_prefixed_by_their_own_names():
    assert TASKS
    for name, task in TASKS.items():
        assert task.name == name
        assert name.startswith(f"{task.suite}-")


@pytest.mark.parametrize("name", TASKS)
def test_every_task_makes_an_environment_of_its_name(name):
    assert make(name).spec.name == name


def first_of_each_suite_and_the_rest_as_slow():
    suites = set()
    for task in TASKS.values():
        is_first = task.suite not in suites
        suites.add(task.suite)
        yield pytest.param(task.name, marks=() if is_first else pytest.mark.slow)


@pytest.mark.parametrize("name", list(first_of_each_suite_and_the_rest_as_slow()))
def test_tasks_keep_the_contract(name, key):
    env = make(name)
    check_env(env, key, num_steps=env.spec.time_limit + 1)


@pytest.mark.parametrize(("num_agents", "observation_size"), [(3, 18), (5, 30), (10, 60)])
def test_mpe_sizes(num_agents, observation_size):
    spec = make(f"mpe-spread-{num_agents}ag", agent_ids=False).spec
    assert spec.num_agents == num_agents
    assert spec.observation_size == observation_size
    assert spec.state_size == num_agents * observation_size
    assert spec.action == Continuous(5)
    assert spec.time_limit == 26


def test_agent_ids_are_on_unless_refused():
    assert make("mpe-spread-3ag").spec.observation_size == 3 + 18
    assert make("mpe-spread-3ag", agent_ids=False).spec.observation_size == 18


def test_making_a_task_twice_shares_compiled_programs(key):
    one, other = make("mpe-spread-3ag"), make("mpe-spread-3ag")
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
