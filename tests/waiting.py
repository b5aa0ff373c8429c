"""Waiting for other processes."""

import time


def wait_until(condition, seconds=240):
    """Return when a condition holds; fail if it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
