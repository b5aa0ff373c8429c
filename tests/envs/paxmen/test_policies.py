"""Scripted teams have their documented returns and behaviour."""

import jax
import numpy as np
import pytest

from ratiosym.envs.paxmen import paxmen
from ratiosym.envs.paxmen.policies import REFERENCE_RETURNS
from ratiosym.envs.teams import references_of, teams_of
from ratiosym.runs.episodes import play_episodes

SIZES = sorted(REFERENCE_RETURNS)
FOUR_AND_SLOWLY_THE_OTHERS = [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 6))]


def play(num_agents, name, num_episodes=128, **options):
    env = paxmen(num_agents, **options)
    return play_episodes(
        env, teams_of(env)[name], jax.random.split(jax.random.key(0), num_episodes)
    )


def test_teams_and_references_bear_the_same_names():
    env = paxmen(4)
    assert set(references_of(env)) == set(teams_of(env))
    assert list(teams_of(env))[-1] == "oracle"
    assert references_of(paxmen(4, held_out=True)) == {}
    assert references_of(paxmen(4, additive_penalty=True)) == {}


@pytest.mark.parametrize("num_agents", SIZES)
def test_idle(num_agents):
    episodes = play(num_agents, "idle", 8)
    np.testing.assert_allclose(episodes.returns, REFERENCE_RETURNS[num_agents]["idle"], rtol=1e-5)
    for name in (
        "rooms_visited",
        "dots_eaten",
        "alone_in_corridor",
        "corridor_sharing",
        "rounds_cleared",
    ):
        np.testing.assert_array_equal(episodes.metrics[name], np.zeros(8))
    limit = paxmen(num_agents).time_limit
    np.testing.assert_array_equal(episodes.metrics["time_to_first_clear"], np.full(8, limit))


def assert_as_measured(episodes, num_agents, name):
    """Assert a mean within five standard errors; the reference's own error is far smaller."""
    error = episodes.returns.std() / np.sqrt(episodes.returns.size)
    assert abs(episodes.returns.mean() - REFERENCE_RETURNS[num_agents][name]) < 5 * error


@pytest.mark.parametrize("num_agents", SIZES)
def test_random(num_agents):
    episodes = play(num_agents, "random", 1024)
    assert_as_measured(episodes, num_agents, "random")
    assert 0.9 < episodes.returns.std() < 1.3
    assert abs(episodes.metrics["normalised_score"].mean()) < 0.002


@pytest.mark.parametrize("num_agents", FOUR_AND_SLOWLY_THE_OTHERS)
def test_a_room_missed_is_a_round_never_finished(num_agents):
    episodes = play(num_agents, "room_missed", 32)
    limit = paxmen(num_agents).time_limit
    num_dots = 3 * (num_agents - 1)
    expected = num_dots - 0.025 * (num_agents * limit - num_dots)
    np.testing.assert_allclose(episodes.returns, np.full(32, expected), atol=1e-4)
    np.testing.assert_allclose(expected, REFERENCE_RETURNS[num_agents]["room_missed"])
    np.testing.assert_array_equal(episodes.metrics["rooms_cleared"], np.full(32, num_agents - 1))
    np.testing.assert_array_equal(episodes.metrics["rounds_cleared"], np.zeros(32))


@pytest.mark.parametrize("num_agents", SIZES)
def test_one_agent_per_room(num_agents):
    check_one_agent_per_room(num_agents, "oracle")


@pytest.mark.parametrize("num_agents", FOUR_AND_SLOWLY_THE_OTHERS)
def test_one_agent_per_room_with_an_agents_view(num_agents):
    check_one_agent_per_room(num_agents, "local")


def check_one_agent_per_room(num_agents, name):
    episodes = play(num_agents, name)
    assert_as_measured(episodes, num_agents, name)
    metrics = episodes.metrics
    np.testing.assert_array_equal(metrics["rooms_visited"], np.full(128, num_agents))
    np.testing.assert_array_equal(metrics["corridor_sharing"], np.zeros(128))
    assert metrics["alone_in_corridor"].min() > 0.9
    assert metrics["rounds_cleared"].min() >= 5
    assert metrics["time_to_first_clear"].max() < 40
    low, high = (REFERENCE_RETURNS[num_agents][team] for team in ("random", "oracle"))
    np.testing.assert_allclose(
        metrics["normalised_score"], (episodes.returns - low) / (high - low), atol=1e-4
    )


@pytest.mark.parametrize("num_agents", FOUR_AND_SLOWLY_THE_OTHERS)
def test_one_agent_idle(num_agents):
    episodes = play(num_agents, "one_idle")
    assert_as_measured(episodes, num_agents, "one_idle")
    np.testing.assert_array_equal(episodes.metrics["rooms_cleared"], np.full(128, num_agents))


@pytest.mark.slow
@pytest.mark.parametrize("num_agents", SIZES)
def test_held_out_maps_are_as_hard(num_agents):
    """The same two returns can normalise the score there, within 0.01."""
    low, high = (REFERENCE_RETURNS[num_agents][team] for team in ("random", "oracle"))
    for name in ("random", "oracle"):
        returns = play(num_agents, name, 512, held_out=True).returns
        assert abs(returns.mean() - REFERENCE_RETURNS[num_agents][name]) < 0.01 * (high - low)
