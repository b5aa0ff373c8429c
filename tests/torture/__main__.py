"""``python -m tests.torture``: stories until the time is over."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

from tests.torture.faults import FAULTS, strike, wait
from tests.torture.scenarios import (
    SCENARIOS,
    Scenario,
    differences,
    facts,
    num_evaluations,
    prepare,
)

SITE = Path(__file__).with_name("site")  # Python looks there for sitecustomize
DISK_SIZE = "48m"
POLL = 0.05  # seconds; the moment of a fault has a random delay of its own
INSIDE = "RATIOSYM_TORTURE_DISK"  # set where the disk of the stories is mounted
EXPECTED = {  # exit codes; 0 if the command was quicker than the fault
    "kill": (-9, 0),
    "worker": (-9, 0),
    "terminate": (-15, 0),
    "disk": (2, 1, 0),  # 1: a study has ended, with failed runs
    "clock": (0,),
}


class NotSurvived(AssertionError):  # noqa: N818  (what happened)
    """A fault was not survived."""


@dataclass
class Torture:
    """A disk, the references, and what has been survived."""

    disk: Path
    seed: int
    faults: tuple[str, ...]
    references: dict[str, dict[str, Any]] = field(default_factory=dict)
    survived: Counter[str] = field(default_factory=Counter)

    def reference(self, scenario: Scenario) -> dict[str, Any]:
        """What comes out of a scenario without faults."""
        if scenario.name not in self.references:
            place = self.prepare(scenario, f"reference-{scenario.name}")
            self.finish(scenario.command(place), place)
            self.references[scenario.name] = facts(place / "out")
            shutil.rmtree(place)
        return self.references[scenario.name]

    def prepare(self, scenario: Scenario, name: str) -> Path:
        """A directory to run a scenario in."""
        place = self.disk / name
        prepare(place)
        if scenario.before:
            self.finish(scenario.before, place)
        return place

    def story(self, number: int) -> str:
        """One scenario with faults: what happened, in a line."""
        draw = Random(f"{self.seed} {number}")
        scenario = draw.choice(SCENARIOS)
        expected, place = self.reference(scenario), self.prepare(scenario, f"story-{number}")
        happened = []
        for _ in range(draw.randint(1, 6)):
            fault = draw.choice(self.faults)
            self.interrupt(scenario, place, fault, draw)
            happened.append(fault)
        self.finish(scenario.command(place), place)
        if different := differences(expected, facts(place / "out")):
            raise NotSurvived(f"different after {', '.join(happened)}: {', '.join(different)}")
        shutil.rmtree(place)
        self.survived.update(happened)
        return f"{scenario.name}: survived {', '.join(happened)}"

    def interrupt(self, scenario: Scenario, place: Path, fault: str, draw: Random) -> None:
        """Start or resume a scenario and let a fault happen to it."""
        clock = str(draw.random()) if fault == "clock" else ""
        is_early = draw.random() < 0.2  # while it starts
        further = 0 if is_early else draw.randint(1, 12)
        delay = draw.uniform(0, 8) if is_early else draw.uniform(0, 0.3)
        with open(place / "errors", "w+b") as errors:
            process = self.start(scenario.command(place), place, errors, clock)
            begin = num_evaluations(place / "out")
            while process.poll() is None and num_evaluations(place / "out") < begin + further:
                sleep(POLL)
            sleep(delay)
            strike(fault, process, self.disk, draw)
            self.check(process, errors, fault)

    def finish(self, words: tuple[str, ...], place: Path) -> None:
        """Let a command come to its end."""
        with open(place / "errors", "w+b") as errors:
            process = self.start(words, place, errors)
            wait(process)
            self.check(process, errors, "clock")

    def start(
        self, words: tuple[str, ...], place: Path, errors: Any, clock: str = ""
    ) -> subprocess.Popen[bytes]:
        """A command in its directory."""
        paths = [str(SITE), os.environ.get("PYTHONPATH", "")]
        variables = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        return subprocess.Popen(
            [Path(sys.executable).with_name("ratiosym"), *words],
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **variables, "RATIOSYM_TORTURE_CLOCK": clock},
        )

    def check(self, process: subprocess.Popen[bytes], errors: Any, fault: str) -> None:
        """A command ends as expected, and says no more than a sentence."""
        errors.seek(0)
        said = errors.read().decode(errors="replace")
        if process.returncode not in EXPECTED[fault] or "Traceback" in said:
            raise NotSurvived(f"exit code {process.returncode} after '{fault}':\n{said}")


def main() -> None:
    """Tell stories until the time is over; exit code 1 with the first that goes wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--story", type=int, help="only this one")
    given = parser.parse_args()
    if INSIDE not in os.environ:
        sys.exit(mounted(sys.argv[1:]))
    disk = Path(os.environ[INSIDE])
    faults = tuple(f for f in FAULTS if f != "disk" or os.path.ismount(disk))
    torture, began, number = Torture(disk, given.seed, faults), monotonic(), given.story or 0
    while given.story is not None or monotonic() - began < given.seconds:
        try:
            print(f"story {number}, {torture.story(number)}", flush=True)
        except (NotSurvived, TimeoutError) as error:
            kept = shutil.copytree(disk, tempfile.mkdtemp(prefix="torture-"), dirs_exist_ok=True)
            print(f"story {number} of seed {given.seed} went wrong: {error}\nIts files: {kept}")
            sys.exit(1)
        number += 1
        if given.story is not None:
            break
    counts = ", ".join(f"{name} {torture.survived[name]}" for name in faults)
    print(
        f"{torture.survived.total()} faults survived ({counts}) in {monotonic() - began:.0f} s; "
        f"seed {given.seed}."
    )


def mounted(words: list[str]) -> int:
    """This program again, with a small disk of its own, which goes when the program ends."""
    disk = tempfile.mkdtemp(prefix="ratiosym-torture-")
    again = [sys.executable, "-m", "tests.torture", *words]
    mount = f'mount -t tmpfs -o size={DISK_SIZE} torture "$0" && exec "$@"'
    separate = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    variables = {**os.environ, INSIDE: disk}
    try:
        is_possible = not subprocess.call([*separate, "sh", "-c", mount, disk, "true"])
        if is_possible:
            return subprocess.call([*separate, "sh", "-c", mount, disk, *again], env=variables)
        print("No disk can be mounted here (unshare, mount): disks will not be full.", flush=True)
        return subprocess.call(again, env=variables)
    finally:
        shutil.rmtree(disk, ignore_errors=True)


if __name__ == "__main__":
    main()
