"""In every Python process that the torture starts, before anything else: checkpoints at every
evaluation, and a clock that jumps where RATIOSYM_TORTURE_CLOCK gives a seed for it.
"""

import os
import random
import time


def jump(seed: str) -> None:
    """Let the time of day jump, back and forth, with each tenth call. Durations are left alone."""
    draw, real = random.Random(seed), time.time_ns
    state = {"calls": 0, "shift": 0}

    def time_ns() -> int:
        state["calls"] += 1
        if state["calls"] % 10 == 1:
            largest = 10 ** draw.uniform(0, 8.5)  # one second to ten years
            state["shift"] = int(draw.uniform(-largest, largest) * 1e9)
        return real() + state["shift"]

    time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9


if clock := os.environ.get("RATIOSYM_TORTURE_CLOCK"):
    jump(f"{clock} {os.getppid()}")

from ratiosym.runs import loop  # noqa: E402  (after the clock)

loop.CHECKPOINT_SECONDS = 0.0
