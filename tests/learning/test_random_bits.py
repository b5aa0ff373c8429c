"""Random bits without loops."""

import jax
import numpy as np
import pytest

import ratiosym.learning.learner  # noqa: F401 (for its effect)
from ratiosym.learning.random_bits import threefry


# Known answers of Threefry-2x32 with 20 rounds: key, counter, result (Random123, kat_vectors).
@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(key, counter, expected):
    words = [np.array([word], np.uint32) for word in (*key, *counter)]
    assert [int(x[0]) for x in jax.jit(threefry)(*words)] == list(expected)


def test_the_learner_draws_without_loops():
    draw = jax.jit(lambda key: jax.random.uniform(key, (3, 5)))
    assert "while" not in draw.lower(jax.random.key(0)).as_text()
