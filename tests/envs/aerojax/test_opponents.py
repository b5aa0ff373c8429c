"""The heuristic pilots: symmetric among equals, ordered by strength, and safe to themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.envs.aerojax.ladder import ENTRANTS, interval, matches, play, self_inflicted, table
from ratiosym.envs.aerojax.opponents import LEVELS
from ratiosym.envs.teams import get_team
from tests.envs.aerojax.scenes import ENV, scene, step_2v2
from tests.example_runs import run_python

NUM = 128


@pytest.fixture(scope="module")
def results():
    """Play everyone against L4 in 2v2, and random actions against the task's opponents."""
    return dict(zip(ENTRANTS, matches(ENV, [(name, "L4") for name in ENTRANTS], NUM), strict=True))


def test_stronger_levels_win_more(results):
    wins = [results[name]["won"].mean() for name in ENTRANTS]
    assert wins[0] < 0.05  # random
    assert results["random"]["lost"].mean() > 0.95
    steps = np.diff([results[name]["won"].mean() for name in ("L1", "L2", "L3", "L4")])
    assert (steps > -0.05).all()  # 128 episodes; the slow test plays more
    assert results["L4"]["won"].mean() > results["L1"]["won"].mean() + 0.2


def test_equals_are_even(results):
    edge = results["L4"]["won"] - results["L4"]["lost"]
    assert abs(edge.mean()) < 3 * edge.std() / np.sqrt(NUM)
    assert (results["L4"]["won"] + results["L4"]["lost"]).mean() > 0.8  # few draws


def test_pilots_seldom_kill_themselves(results):
    for name in LEVELS:
        assert self_inflicted(results[name], 2) < 0.02, (
            name
        )  # the slow test requires 0.5% with many more


@pytest.mark.slow
def test_random_play_scores_with_the_tasks_starts():
    """At least 1% of the opponents are shot down: rewards are sparse, but not absent."""
    num = 1536
    skill = np.random.default_rng(0).uniform(*ENV.config.skill, num)
    keys = jax.random.split(jax.random.key(5), num)
    result = play(ENV, keys, jnp.full(num, ENTRANTS["random"]), jnp.asarray(skill, jnp.float32))
    assert np.asarray(result["kills"]).mean() / 2 > 0.01


def test_a_straight_pilot_flies_straight_until_the_wall(key):
    """It holds course and height, turns before the wall, and continues."""
    state = scene(
        [[0, 0, 5000], [0, 2000, 5000], [0, -2000, 5500], [0, -4000, 5500]], [180, 180, 0, 0]
    )
    act = jax.jit(lambda k, s: act_of(get_team(ENV, "straight").act, k, s))
    for step in range(300):
        state, _ = step_2v2()(key, state, act(key, state))
        if step == 50:
            np.testing.assert_allclose(
                state.flight.position[:, 2], [5000, 5000, 5500, 5500], atol=10
            )
            np.testing.assert_allclose(state.flight.position[2, 1], -2000, atol=10)
    assert not np.asarray(state.fate).any()
    assert (np.linalg.norm(state.flight.position[:, :2], axis=1) < 8000).all()


def act_of(act, key, state):
    return act(key, state, None, ())[0]


def test_a_script_aims_at_the_foe(key):
    """L4 behind and beside a pilot that flies straight turns in and shoots it down."""
    state = scene(
        [[0, 0, 5000], [0, 600, 5000], [1500, 900, 5200], [1500, -900, 4800]], [0, 0, 0, 0]
    )
    act = jax.jit(lambda k, s: act_of(get_team(ENV, "L4").act, k, s))
    for _ in range(500):
        state, outcome = step_2v2()(key, state, act(key, state))
        if bool(outcome.terminated):
            break
    assert float(outcome.metrics["won"]) == 1
    assert float(outcome.metrics["kills"]) == 2


def test_wilsons_interval():
    low, high = interval(0.5, 100)
    np.testing.assert_allclose([low, high], [0.4038, 0.5962], atol=1e-3)
    assert interval(0.0, 50)[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.slow
def test_the_table_has_the_numbers_of_the_matches(results):
    text = table(ENV, NUM)
    for name in ENTRANTS:
        assert f"{results[name]['lost'].mean():.1%}" in text


LADDER = """
import sys
import numpy as np
from ratiosym.envs.aerojax.env import dogfight
from ratiosym.envs.aerojax.ladder import ENTRANTS, matches

size, num, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
found = matches(dogfight(size), [(name, "L4") for name in ENTRANTS], num)
np.savez(path, **{f"{n} {key}": x for n, r in zip(ENTRANTS, found) for key, x in r.items()})
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_ladder_of_every_task(size, tmp_path):
    """Mirror matches are even, the ladder is monotone, and self-inflicted losses below 0.5%."""
    num, path = 2000, tmp_path / "ladder.npz"
    # With the compiler's optimisations, which these long matches need.
    done = run_python("-c", LADDER, size, num, path, env={"XLA_FLAGS": ""})
    assert done.returncode == 0, done.stderr
    results = {name: {} for name in ENTRANTS}
    for key, values in np.load(path).items():
        name, metric = key.split()
        results[name][metric] = values
    edge = results["L4"]["won"] - results["L4"]["lost"]
    assert abs(edge.mean()) < 3 * edge.std() / np.sqrt(num)
    wins = [results[name]["won"].mean() for name in ("L1", "L2", "L3", "L4")]
    assert (np.diff(wins) > 0).all(), wins
    for name in LEVELS:
        assert self_inflicted(results[name], size) < 0.005, name
    assert results["random"]["lost"].mean() > 0.95
