"""Tasks by name: built in, registered, installed, or by reference to a function."""

import subprocess
import sys
from functools import partial

import jax
import pytest

import ratiosym
from ratiosym import InputError
from ratiosym.envs import registry
from ratiosym.envs.registry import (
    check_before_training,
    make,
    register_task,
    resolve_task,
    task_directory,
    task_name,
    tasks,
)
from ratiosym.envs.suites import SUITES, suite_of
from tests.probes import Broken, Counter, Matching
from tests.typechecking import unchecked

# A user's environment, which imports ratiosym as usual.
FILE = """
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from ratiosym import Discrete, EnvSpec, Observation, Step


class OutsideState(NamedTuple):
    time: jax.Array


@dataclass(frozen=True)
class Outside:
    length: int = 3
    spec = EnvSpec("outside", 2, 1, 1, Discrete(2), time_limit=3)

    def reset(self, key):
        state = OutsideState(jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, key, state, action):
        state = OutsideState(state.time + 1)
        reward = jnp.full(2, (action[0] == action[1]).astype(jnp.float32))
        end = state.time >= self.length
        return state, Step(self._observe(state), reward, jnp.array(False), end, {})

    def _observe(self, state):
        time = jnp.full((2, 1), state.time, jnp.float32)
        return Observation(time, jnp.ones((2, 2), bool), jnp.ones(2, bool), time[0])


def make_env():
    return Outside()


def make_none():
    return None


def with_argument(number):
    return Outside(number)


CONSTANT = 7
"""


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(registry, "REGISTERED", {})
    monkeypatch.setattr(registry, "_BUILT", {})
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()
    sys.modules.pop("outside_env", None)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "outside_env.py"
    path.write_text(FILE)
    return path


def message(function, *args):
    with unchecked(), pytest.raises(InputError) as error:
        function(*args)
    return str(error.value)


# ------------------------------------------------------------------------------------------ finding


def test_a_function_in_a_file(file, monkeypatch):
    name = f"{file}:make_env"
    env = make(name)
    assert env.spec.name == "outside"
    assert env.spec.observation_size == 2 + 1  # with agent ids
    assert make(name) == env
    monkeypatch.chdir(file.parent)
    assert resolve_task("outside_env.py:make_env").name == name  # valid from anywhere
    assert make("outside_env.py:make_env") == env


def test_a_function_in_a_module(file, monkeypatch):
    monkeypatch.syspath_prepend(file.parent)
    env = make("outside_env:make_env", agent_ids=False)
    assert (env.spec.name, env.spec.observation_size) == ("outside", 1)


def test_an_entry_point_of_an_installed_package(file, monkeypatch):
    """A third-party package: a module and its dist-info."""
    info = file.parent / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    points = "outside-task = outside_env:make_env\nlost = outside_env:lost\n"
    (info / "entry_points.txt").write_text(f"[ratiosym.tasks]\n{points}")
    monkeypatch.syspath_prepend(file.parent)
    registry._installed.cache_clear()
    assert make("outside-task").spec.name == "outside"
    assert tasks()[-2:] == ["outside-task", "lost"]
    lost = "The task 'lost' of outside cannot be loaded from 'outside_env:lost': "
    assert message(make, "lost").startswith(lost)
    assert "Closest: 'outside-task'" in message(make, "outside-tusk")


def test_a_registered_task():
    register_task("mine", Counter)
    assert make("mine", agent_ids=False) == Counter()
    assert tasks()[-1] == "mine"
    assert "Closest: 'mine'" in message(make, "mime")
    register_task("mine", Counter)  # registering it again is allowed
    assert message(register_task, "mine", Matching) == (
        "A different task named 'mine' already exists. Choose another name."
    )
    assert "different task named 'mpe-spread-3ag'" in message(
        register_task, "mpe-spread-3ag", Counter
    )


def test_a_cell_that_is_run_again_registers_its_function_again():
    for length in (2, 3):
        cell = {"__name__": "__main__", "Counter": Counter}
        exec(f"def make_env():\n    return Counter(lengths=({length},))", cell)
        register_task("mine", cell["make_env"])
        assert make("mine", agent_ids=False) == Counter(lengths=(length,))


def test_built_in_names_come_first(file, monkeypatch):
    monkeypatch.setitem(registry.REGISTERED, "paxmen-4a", Counter)
    assert make("paxmen-4a").spec.name == "paxmen-4a"


def test_public_names():
    for name in ("make", "tasks", "register_task", "check_env", "Env", "EnvSpec", "Step"):
        assert getattr(ratiosym, name) is not None


def test_environments_that_are_equal_to_themselves_alone_are_built_once():
    class Plain(Counter):
        __eq__ = object.__eq__
        __hash__ = object.__hash__

    assert Plain() != Plain()
    register_task("plain", Plain)
    assert make("plain") == make("plain")


# ------------------------------------------------------------------------------------------- errors


def test_unknown_tasks_name_the_closest_and_the_way_to_ones_own():
    assert message(make, "mpe-spread-3a") == (
        "Unknown task 'mpe-spread-3a'. Closest: 'mpe-spread-3ag'. List all with 'ratiosym tasks'. "
        "A task of your own can be given as path/to/file.py:function or package.module:function, "
        "or registered in this process with ratiosym.register_task."
    )
    assert message(make, "zzz").startswith("Unknown task 'zzz'. List all with")


@pytest.mark.parametrize("name", [None, 7, ["mpe-spread-3ag"], Counter()], ids=repr)
def test_what_is_no_name(name):
    assert message(make, name).startswith("`task` is ")
    assert message(make, name).endswith("must be a task's name, such as 'mpe-spread-3ag'.")


@pytest.mark.parametrize(
    "name",
    ["", "a:b", "a/b", ".hidden", "a b", "x" * 101, None],
)
def test_names_that_cannot_be_registered(name):
    assert message(register_task, name, Counter).startswith("`name` is ")


def test_what_is_no_function():
    assert "`factory` is 7; it must be a function" in message(register_task, "mine", 7)


def test_factories_that_are_none(file):
    assert "missing a required argument: 'number'" in message(make, f"{file}:with_argument")
    assert "CONSTANT' is 7; it must be a function" in message(make, f"{file}:CONSTANT")
    assert message(make, f"{file}:make_none") == (
        f"Task '{file}:make_none': The environment is of type NoneType and has no `spec`. It needs "
        f"a property `spec` (an EnvSpec) and the methods `reset(key) -> (state, Observation)` and "
        f"`step(key, state, action) -> (state, Step)`; see ratiosym.Env."
    )


def test_what_does_not_exist(tmp_path):
    assert "there is no file" in message(make, f"{tmp_path}/none.py:f")
    assert "there is no module 'nowhere'" in message(make, "nowhere.at.all:f")


def test_broken_contracts_are_reported_before_training():
    register_task("broken", partial(Broken, num_good=2))
    make("broken")  # its structure is valid
    found = message(check_before_training, resolve_task("broken"))
    assert found.startswith("Task 'broken': step 2 ")
    register_task("right", Counter)
    check_before_training(resolve_task("right"))


def test_built_in_tasks_are_not_played_again(monkeypatch):
    monkeypatch.setattr("ratiosym.envs.protocol.check_env", None)
    check_before_training(resolve_task("rware-tiny-2ag"))


# ------------------------------------------------------------------------------ environment objects


def test_an_environment_object_is_known_by_its_own_name():
    env = Counter()
    assert task_name(env) == env.spec.name
    assert make(env.spec.name, agent_ids=False) == env
    other = Counter(lengths=(9,))
    assert task_name(other) == env.spec.name  # the last one given
    assert make(env.spec.name, agent_ids=False) == other


def test_a_built_in_environment_is_its_task():
    for agent_ids in (True, False):
        assert task_name(make("paxmen-4a", agent_ids)) == "paxmen-4a"
    assert registry.REGISTERED == {}
    assert task_name("paxmen-4a") == "paxmen-4a"


def test_an_environment_object_takes_no_other_tasks_name():
    class Pretender(Counter):
        @property
        def spec(self):
            return super().spec.__class__(**{**vars(super().spec), "name": "paxmen-4a"})

    found = message(task_name, Pretender())
    assert found.startswith("The environment's spec.name cannot be used: A different task")
    assert "has no `spec`" in message(task_name, 7)


# ----------------------------------------------------------------------------- names of directories


def test_names_of_directories_are_safe_and_different():
    names = [
        "mpe-spread-3ag",
        "jaxmarl:overcooked",
        "jumanji:Cleaner-v0",
        "a.b:make_env",
        "/one/file.py:make_env",
        "/two/file.py:make_env",
        "../../etc:x",
        "a/../..:y",
        "ü/ö.py:make",
        "x" * 300,
    ]
    found = [task_directory(name) for name in names]
    assert found[0] == names[0]
    assert len(set(found)) == len(names)
    for name in found:
        assert registry._PLAIN_NAME.fullmatch(name)
        assert len(name) <= 100
    assert task_directory("/one/file.py:make_env").startswith("file-make_env-")


def test_suites_of_all_kinds_of_names():
    assert suite_of("mpe-spread-3ag") is SUITES["mpe"]
    found = {
        "mine-easy": "mine",
        "mine": "mine",
        "jaxmarl:overcooked": "jaxmarl",
        "jumanji:Cleaner-v0": "jumanji",
        "a.b.c:make_env": "c",
        "/some-where/my_file.py:make_env": "my_file",
    }
    assert {name: suite_of(name).name for name in found} == found
    assert suite_of("jaxmarl:overcooked").title == "JaxMARL"


# ------------------------------------------------------------------------------------ from outside


def test_the_registry_needs_no_jax():
    code = "import sys; from ratiosym.envs import registry; print('jax' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


def test_an_environment_from_outside_steps_as_any_other(file, key):
    env = make(f"{file}:make_env")
    ratiosym.check_env(env)
    state, _ = jax.jit(env.reset)(key)
    _, step = jax.jit(env.step)(key, state, jax.numpy.zeros(2, int))
    assert step.reward.tolist() == [1, 1]
