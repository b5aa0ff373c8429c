"""Devices, hosts and the compilation cache, each in its own process, as JAX starts only once."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.presets import configure
from ratiosym.learning.devices import (
    agree,
    cache_directory,
    start_jax,
)
from ratiosym.runs import checkpoint, loop
from ratiosym.runs.files import read_json
from ratiosym.runs.tables import read_table
from tests.example_runs import COMMAND, ROOT, STEPS, TASK, contents, environment, training_table
from tests.torture.__main__ import SITE
from tests.torture.scenarios import TRAIN, differences, facts
from tests.waiting import wait_until

# ------------------------------------------------------------------------------------------ devices


def run_code(code, **variables):
    """Run Python code in a fresh process and return its output."""
    names = ("JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR", "RATIOSYM_CACHE")
    env = {name: value for name, value in environment().items() if name not in names}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import os, jax\nfrom ratiosym.learning.devices import start_jax\n{code}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**env, **variables},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_one_device_per_core():
    assert run_code("start_jax(); print(len(jax.devices()))") == str(len(os.sched_getaffinity(0)))


def test_only_cores_that_this_process_may_use():
    bind = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    assert run_code(f"{bind}; start_jax(); print(len(jax.devices()))") == "1"


def test_with_jax_running_already_the_devices_there_are():
    assert run_code("jax.devices(); start_jax(); start_jax(); print(len(jax.devices()))") == "1"


def test_a_number_of_devices_that_the_user_has_set():
    assert run_code("start_jax(); print(len(jax.devices()))", JAX_NUM_CPU_DEVICES="3") == "3"
    assert (
        run_code(
            "jax.config.update('jax_num_cpu_devices', 4); start_jax(); print(len(jax.devices()))"
        )
        == "4"
    )


# -------------------------------------------------------------------------------------------- cache

# Seconds on any machine, as programs that compile in less than 0.3 s are not stored.
SLOW_TO_COMPILE = """
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
start_jax()
def program(x):
    for i in range(600):
        x = jax.numpy.sin(x @ x) + jax.numpy.sort(x, axis=i % 2)
    return x
jax.jit(program)(jax.numpy.ones((8, 8)))
print(hits.count("/jax/compilation_cache/cache_hits"))
"""


def test_a_second_start_finds_its_programs_compiled(tmp_path):
    def programs():
        return {p.name: p.stat().st_mtime_ns for p in tmp_path.rglob("*-cache")}

    assert run_code(SLOW_TO_COMPILE, RATIOSYM_CACHE=str(tmp_path)) == "0"
    compiled = programs()
    assert len(compiled) == 1
    assert int(run_code(SLOW_TO_COMPILE, RATIOSYM_CACHE=str(tmp_path))) >= 1
    assert programs() == compiled


def test_a_cache_that_the_user_has_set_is_left_alone(tmp_path):
    code = "start_jax(); print(jax.config.jax_compilation_cache_dir)"
    assert run_code(code, JAX_COMPILATION_CACHE_DIR=str(tmp_path)) == str(tmp_path)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("RATIOSYM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory().parent == tmp_path / "xdg" / "ratiosym"
    monkeypatch.setenv("RATIOSYM_CACHE", str(tmp_path / "own"))
    assert cache_directory().parent == tmp_path / "own"
    assert cache_directory().name.startswith("compiled-")
    monkeypatch.delenv("RATIOSYM_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory().parent == tmp_path / ".cache" / "ratiosym"


# -------------------------------------------------------------------------------------------- hosts


@pytest.mark.parametrize(
    "given",
    [
        {"coordinator": "127.0.0.1:1"},
        {"num_processes": 2},
        {"process_id": 0},
        {"coordinator": "127.0.0.1:1", "num_processes": 2},
        {"num_processes": 2, "process_id": 1},
    ],
)
def test_several_hosts_need_all_three_options(given):
    with pytest.raises(InputError, match=r"need all three of `coordinator`.*`process_id`"):
        start_jax(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("127.0.0.1", 2, 0), r"`coordinator` is '127\.0\.0\.1'; it must be HOST:PORT"),
        ((":9911", 2, 0), "`coordinator` is ':9911'; it must be HOST:PORT"),
        (("host:port", 2, 0), "`coordinator` is 'host:port'; it must be HOST:PORT"),
        (("127.0.0.1:1", 0, 0), "`num_processes` is 0; it must be at least 1"),
        (("127.0.0.1:1", 2, 2), "`process_id` is 2; with `num_processes` 2 it must be from 0 to 1"),
        (
            ("127.0.0.1:1", 2, -1),
            "`process_id` is -1; with `num_processes` 2 it must be from 0 to 1",
        ),
    ],
)
def test_hosts_that_cannot_be(given, message):
    with pytest.raises(InputError, match=message):
        start_jax(*given)


def test_alone_everybody_agrees_with_oneself():
    assert agree(True) is True
    assert agree(False) is False


# Process 1 starts late, when process 0 has already created the directory, and its clock differs.
LATE = """
import sys, time
from ratiosym.cli import main
from ratiosym.runs import loop
make, loop.CHECKPOINT_SECONDS = loop.make, 0.0
loop.make = lambda *names: (time.sleep(3), make(*names))[1]
main(sys.argv[1:])
"""


HOST_WORDS = (*TRAIN[:-1], "--update-batch-size=2", "--num-minibatches=2")


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def two_processes(*words, second=(COMMAND,)):
    """Run a command on two processes with one device each: [(exit code, output, errors)]."""
    hosts = ("--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", "2", "--process-id")
    processes = [
        subprocess.Popen(
            [*map(str, (*command, *words, *hosts, index))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(JAX_NUM_CPU_DEVICES="1"),
        )
        for index, command in enumerate(((COMMAND,), second))
    ]
    try:
        outputs = [process.communicate(timeout=900) for process in processes]
    finally:
        for process in processes:
            process.kill()  # if it is still running
    return [
        (process.returncode, *output) for process, output in zip(processes, outputs, strict=True)
    ]


def expect_close(directory, alone):
    """Assert that the first update agrees closely; later ones differ by accumulated rounding."""
    one, other = (read_table(d / "training.csv") for d in (directory, alone))
    assert list(one) == list(other)
    for name in set(one) - {
        "steps_per_second",
        "first_ratio_error",
        "approximate_kl",
        "active_approximate_kl",
    }:
        np.testing.assert_allclose(one[name][0], other[name][0], rtol=1e-4, err_msg=name)
    one, other = (checkpoint.load(d / "checkpoint") for d in (directory, alone))
    assert one.meta.update == other.meta.update
    assert one.arrays.keys() == other.arrays.keys()
    for name in one.arrays:
        if name.startswith("params/"):
            np.testing.assert_allclose(
                one.arrays[name], other.arrays[name], rtol=0.1, atol=2e-3, err_msg=name
            )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run of four updates in this process with two devices."""
    directory = tmp_path_factory.mktemp("alone") / "run"
    loop.start(configure(TASK, "smoke"), directory, track=("tensorboard",))
    return directory


@pytest.mark.slow
def test_two_processes_train_as_one(alone, tmp_path):
    directory = tmp_path / "run"
    words = ("train", TASK, "--preset", "smoke", "--out", directory, "--track", "tensorboard")
    results = two_processes(*words, second=(sys.executable, "-c", LATE))
    assert [(code, errors) for code, _, errors in results] == [(0, ""), (0, "")]
    expect_close(directory, alone)
    # Only the first process writes records.
    assert sorted(p.name for p in directory.iterdir()) == sorted(p.name for p in alone.iterdir())
    assert len(list((directory / "tensorboard").iterdir())) == 1
    assert (
        read_json(directory / "config.json")["config"] == read_json(alone / "config.json")["config"]
    )
    assert read_json(directory / "config.json")["devices"] == ["cpu", "cpu"]
    assert checkpoint.updates(directory / "checkpoint")[-1] == 4
    assert not any(p.name.startswith(".") for p in directory.rglob("*"))


def test_two_processes_stop_together_where_there_is_a_run_already(whole):
    before = contents(whole)
    results = two_processes("train", TASK, "--preset", "smoke", "--out", whole)
    assert [code for code, _, _ in results] == [2, 2]
    assert f"ratiosym: '{whole}' already holds a run. Resume it" in results[0][2]
    assert "ratiosym: Process 0 could not start; see its message." in results[1][2]
    assert contents(whole) == before


def test_two_processes_say_when_they_have_too_many_devices(tmp_path):
    results = two_processes(
        "train", TASK, "--preset", "smoke", "--update-batch-size", 1, "--out", tmp_path / "run"
    )
    for code, _, errors in results:
        assert code == 2
        assert (
            "2 processes have 2 devices, but 1 seeds with 1 groups each can use only 1 of them"
            in errors
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_processes_resume_bit_for_bit(tmp_path):
    """Also from a checkpoint of one process: the state does not depend on their number."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for directory, steps in ((whole, 8 * STEPS), (parts, 4 * STEPS)):
        words = ("train", TASK, "--preset", "smoke", "--steps", steps, "--out", directory)
        results = two_processes(*words, "--num-evaluations", steps // (2 * STEPS))
        assert [(code, errors) for code, _, errors in results] == [(0, ""), (0, "")]
    mixed = shutil.copytree(parts, tmp_path / "mixed")
    results = two_processes("train", "--resume", parts, "--steps", 8 * STEPS)
    assert [(code, errors) for code, _, errors in results] == [(0, ""), (0, "")]
    assert (parts / "evaluations.csv").read_bytes() == (whole / "evaluations.csv").read_bytes()
    assert training_table(parts) == training_table(whole)
    one, other = (checkpoint.load(d / "checkpoint").arrays for d in (parts, whole))
    assert one.keys() == other.keys()
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)
    loop.resume(mixed, steps=8 * STEPS)
    one, other = (read_table(d / "evaluations.csv") for d in (mixed, whole))
    np.testing.assert_allclose(one["mean_return"], other["mean_return"], rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_one_of_two_hosts_is_killed(tmp_path, hosts, killed):
    """The other stops with a message, and resuming on both is exact."""
    hosts.finish(*HOST_WORDS, "--out", tmp_path / "whole")
    processes = hosts.start(*HOST_WORDS, "--out", tmp_path / "parts")
    table = tmp_path / "parts" / "evaluations.csv"
    wait_until(lambda: table.exists() and table.read_bytes().count(b"\n") > 4, 900)
    processes[killed].kill()
    processes[killed].communicate()
    errors = processes[1 - killed].communicate(timeout=900)[1]
    assert processes[1 - killed].returncode == 2, errors
    last = errors.strip().splitlines()[-1]
    assert last.startswith("ratiosym: Another process of this run has stopped or cannot be reached")
    assert "Traceback" not in errors
    hosts.finish("train", "--resume", tmp_path / "parts")
    assert differences(facts(tmp_path / "whole"), facts(tmp_path / "parts")) == []


@pytest.fixture
def hosts():
    """Two hosts: network namespaces with an address each where that is possible, or else two
    processes on this one.
    """
    found = Hosts()
    yield found
    found.close()


class Hosts:
    def __init__(self):
        names = [f"ratiosym-{os.getpid()}-{i}" for i in (0, 1)]
        cable = [f"rs{os.getpid()}{end}" for end in "ab"]
        commands = [["netns", "add", name] for name in names]
        commands.append(["link", "add", cable[0], "type", "veth", "peer", "name", cable[1]])
        for i, (name, end) in enumerate(zip(names, cable, strict=True)):
            inside = ["netns", "exec", name, "ip"]
            commands += [
                ["link", "set", end, "netns", name],
                [*inside, "link", "set", "lo", "up"],
                [*inside, "addr", "add", f"10.99.0.{i + 1}/24", "dev", end],
                [*inside, "link", "set", end, "up"],
            ]
        self.names, self.address = names, "10.99.0.1"
        if not shutil.which("ip") or not all(map(self.ip, commands)):
            self.close()
            self.names, self.address = [], "127.0.0.1"
        for i, name in enumerate(self.names):  # each host finds itself by its own name
            place = Path("/etc/netns", name)
            place.mkdir(parents=True, exist_ok=True)
            (place / "hosts").write_text(f"10.99.0.{i + 1} {socket.gethostname()}\n")

    def ip(self, words):
        return subprocess.run(["ip", *words], capture_output=True).returncode == 0

    def start(self, *words):
        """One process per host."""
        where = ("--coordinator", f"{self.address}:{free_port()}", "--num-processes", "2")
        prefixes = [("ip", "netns", "exec", name) for name in self.names] or [(), ()]
        variables = environment(JAX_NUM_CPU_DEVICES="1")
        variables["PYTHONPATH"] = f"{SITE}:{variables.get('PYTHONPATH', '')}".rstrip(":")
        return [
            subprocess.Popen(
                [*map(str, (*prefix, COMMAND, *words, *where, "--process-id", index))],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=variables,
            )
            for index, prefix in enumerate(prefixes)
        ]

    def finish(self, *words):
        """Run a command to its end on both hosts."""
        processes = self.start(*words)
        errors = [process.communicate(timeout=900)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], errors

    def close(self):
        for name in self.names:
            self.ip(["netns", "del", name])
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)


@pytest.mark.slow
def test_two_processes_with_seeds_side_by_side(tmp_path):
    results = two_processes(
        "train", TASK, "--preset", "smoke", "--num-seeds", 2, "--out", tmp_path / "run"
    )
    assert [(code, errors) for code, _, errors in results] == [(0, ""), (0, "")]
    loop.start(configure(TASK, "smoke"), tmp_path / "alone", num_seeds=2)
    for seed in ("seed-0", "seed-1"):
        expect_close(tmp_path / "run" / seed, tmp_path / "alone" / seed)
