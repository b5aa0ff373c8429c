"""The training loop: order and contents of events, and resuming."""

import dataclasses
import functools
import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.errors import InputError, NonFiniteLoss
from ratiosym.learning import train as module
from ratiosym.learning.learner import collect, evaluate, optimise, place_state
from ratiosym.learning.train import (
    _ABSOLUTE,
    _EVALUATION,
    ABSOLUTE_EPISODES,
    MUST_BE_FINITE,
    Evaluated,
    Finished,
    Updated,
    absolute_metric,
    episode_keys,
    hyperparameters_at,
    make_learner,
    train,
)
from ratiosym.objectives import OBJECTIVES, barrier, clipped
from tests.learning.helpers import (
    Drift,
    advance,
    assert_close,
    assert_equal,
    config_of,
    differ,
    make,
    plain,
    start,
)
from tests.probes import Broken

SEEDS = (3, 8)
COLUMNS = [
    "update",
    "steps",
    "episodes",
    "episode_return",
    "policy_loss",
    "value_loss",
    "entropy",
    "actor_grad_norm",
    "critic_grad_norm",
    "first_ratio_error",
    *[
        prefix + name
        for prefix in ("", "active_")
        for name in (
            "ratio_min",
            "ratio_max",
            "ratio_q01",
            "ratio_q25",
            "ratio_q50",
            "ratio_q75",
            "ratio_q99",
            "beyond_target",
            "approximate_kl",
        )
    ],
    "steps_per_second",
]


@functools.cache
def whole_run():
    """Two seeds, five updates, evaluations after 0, 2 and 5, with the state at each evaluation."""
    learner = make(num_seeds=2)
    config = config_of(learner, num_updates=5, num_evaluations=2)
    config = dataclasses.replace(
        config, hyperparameters=dataclasses.replace(config.hyperparameters, actor_learning_rate=0.1)
    )
    events = []
    for event in train(learner, config, SEEDS):
        if isinstance(event, Evaluated):  # the state is only valid until the next event
            event = dataclasses.replace(event, state=jax.tree.map(jnp.copy, event.state))
        events.append(event)
    return learner, config, events


def of_kind(kind):
    return [event for event in whole_run()[2] if isinstance(event, kind)]


def cache_sizes():
    return [program._cache_size() for program in (collect, optimise)]


def names(events):
    return [(type(event).__name__, getattr(event, "update", None)) for event in events]


def without_clock(rows):
    return [{k: v for k, v in row.items() if k != "steps_per_second"} for row in rows]


def assert_same_events(ours, theirs):
    assert names(ours) == names(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, Updated):
            np.testing.assert_equal(without_clock(a.rows), without_clock(b.rows))  # NaN equals NaN
        else:
            assert_equal(a.episodes, b.episodes)


# ------------------------------------------------------------------------------------------- events


def test_events_come_in_order_and_on_schedule():
    """The evaluation before training is the only one that comes late."""
    assert names(whole_run()[2]) == [
        ("Updated", 1),
        ("Evaluated", 0),
        ("Updated", 2),
        ("Evaluated", 2),
        ("Updated", 3),
        ("Updated", 4),
        ("Updated", 5),
        ("Evaluated", 5),
        ("Finished", None),
    ]


def test_a_run_that_is_stopped_waits_for_the_update_under_way(monkeypatch):
    """A process that exits in the middle of one may crash."""
    learner, config, _ = whole_run()
    events = train(learner, config, SEEDS)
    assert names(itertools.islice(events, 5))[-1] == ("Updated", 3)
    wait, waited = jax.block_until_ready, []
    monkeypatch.setattr(jax, "block_until_ready", lambda state: waited.append(wait(state)))
    events.close()
    steps = config.shape.num_epochs * config.shape.num_minibatches
    assert [int(state.optimiser.actor.count[0]) for state in waited] == [4 * steps]


def test_rows_of_training():
    learner, _, _ = whole_run()
    rows = [row for event in of_kind(Updated) for row in event.rows]
    assert len(rows) == 5 * 2
    for i, row in enumerate(rows):
        assert list(row) == COLUMNS
        assert row["update"] == i // 2 + 1
        assert row["steps"] == row["update"] * learner.shape.num_envs * learner.shape.rollout_length
        assert isinstance(row["update"], int)
        assert isinstance(row["steps"], int)
        assert row["episodes"] == int(row["episodes"]) > 0
        assert all(isinstance(value, int | float) for value in row.values())
        assert row["first_ratio_error"] < 1e-5
        assert (
            row["ratio_min"]
            <= row["ratio_q01"]
            <= row["ratio_q50"]
            <= row["ratio_q99"]
            <= row["ratio_max"]
        )
        assert (
            row["ratio_min"]
            <= row["active_ratio_min"]
            <= row["active_ratio_max"]
            <= row["ratio_max"]
        )
        assert row["steps_per_second"] > 0
    assert rows[0] != {**rows[1], "steps_per_second": rows[0]["steps_per_second"]}  # seeds differ


def test_rows_are_what_the_updates_measured():
    learner, config, _ = whole_run()
    state, bounds = start(learner, *SEEDS), config.bounds
    numbers = dataclasses.asdict(config.hyperparameters)
    _, measured = advance(learner, state, 5, bounds, **numbers)
    for event, (metrics, episodes) in zip(of_kind(Updated), measured, strict=True):
        for k, row in enumerate(event.rows):
            np.testing.assert_array_equal(row["policy_loss"], metrics.policy_loss[k].mean())
            np.testing.assert_array_equal(row["value_loss"], metrics.value_loss[k].mean())
            ratios = metrics.ratios.maximum[k]  # [steps, groups, 2]
            np.testing.assert_array_equal(row["active_ratio_max"], ratios[..., 1].max())
            last = metrics.ratios.quantiles[k, -config.shape.num_minibatches :, :, 0, 1]
            np.testing.assert_array_equal(row["ratio_q25"], last.mean())
            np.testing.assert_array_equal(row["episodes"], episodes.num_ended[k])
            mean = episodes.total_return[k] / episodes.num_ended[k]  # over episodes, not over steps
            np.testing.assert_allclose(row["episode_return"], mean, rtol=1e-6)


# -------------------------------------------------------------------------------------- evaluations


def test_evaluations_are_of_the_current_parameters_the_first_before_training():
    """Unlike in Mava, which evaluates the parameters from before the last block."""
    learner, _, _ = whole_run()
    events = of_kind(Evaluated)
    assert_equal(events[0].state.params, start(learner, *SEEDS).params)
    for event in events:
        keys = episode_keys(SEEDS, _EVALUATION, event.update, learner.shape.num_eval_episodes)
        episodes = plain(evaluate(learner, event.state.params, keys))
        for k in range(2):
            assert_equal(event.episodes[k], jax.tree.map(lambda x, k=k: x[k], episodes))
            assert event.episodes[k].returns.shape == (6,)
    for before, after in itertools.pairwise(events):
        keys = episode_keys(SEEDS, _EVALUATION, after.update, learner.shape.num_eval_episodes)
        stale = plain(evaluate(learner, before.state.params, keys))
        assert differ(stale.returns, np.stack([e.returns for e in after.episodes]))


def test_the_absolute_metric_is_of_the_best_parameters_in_320_fresh_episodes():
    learner, _, _ = whole_run()
    events, [finished] = of_kind(Evaluated), of_kind(Finished)
    means = np.array(
        [[e.returns.mean() for e in event.episodes] for event in events]
    )  # [evaluations, K]
    best = means.argmax(axis=0)
    assert (best < len(events) - 1).any()  # otherwise the last would do as well
    np.testing.assert_allclose(events[-1].state.best_return, means.max(axis=0), rtol=1e-6)
    for k in range(2):
        params = jax.tree.map(lambda x, k=k: x[k], plain(events[best[k]].state.params))
        assert_equal(jax.tree.map(lambda x, k=k: x[k], plain(events[-1].state.best_params)), params)
        assert finished.episodes[k].returns.shape == (ABSOLUTE_EPISODES,) == (320,)
        assert finished.episodes[k].metrics["time"].shape == (320,)
    expected = absolute_metric(learner, events[-1].state.best_params, SEEDS, update=5)
    assert_equal(finished.episodes, expected)
    last = absolute_metric(learner, events[-1].state.params, SEEDS, update=5)
    assert differ([e.returns for e in last], [e.returns for e in expected])


def test_the_absolute_metric_is_made_of_whole_portions():
    """Results do not depend on the size of portions, and nothing is recompiled."""
    learner, _, _ = whole_run()
    params = of_kind(Evaluated)[0].state.params
    size = evaluate._cache_size()
    ten = absolute_metric(learner, params, SEEDS, update=5, num_episodes=10)
    assert evaluate._cache_size() == size
    keys = episode_keys(SEEDS, _ABSOLUTE, 5, 12)[:, :10]
    assert_close(
        ten,
        [jax.tree.map(lambda x, k=k: x[k], plain(evaluate(learner, params, keys))) for k in (0, 1)],
        1e-5,
    )


def test_keys_of_episodes_are_all_different():
    keys = [
        plain(episode_keys((0, 1), stream, update, 4)).reshape(-1, 2)
        for stream in (_EVALUATION, _ABSOLUTE)
        for update in (0, 1, 2)
    ]
    keys = np.concatenate(keys)
    assert len(np.unique(keys, axis=0)) == len(keys) == 2 * 3 * 2 * 4
    np.testing.assert_array_equal(
        plain(episode_keys((0, 1), 1, 2, 4))[1], plain(episode_keys((1,), 1, 2, 4))[0]
    )


def test_evaluations_do_not_begin_as_training_does():
    """A key that is split and folded into gives the same numbers twice: fold_in(key, 1) is
    split(key)[1].
    """
    learner = make(num_seeds=2)
    training = plain(start(learner, *SEEDS).groups.env_state.position)
    for stream in (_EVALUATION, _ABSOLUTE):
        for update in range(3):
            keys = episode_keys(SEEDS, stream, update, 64)
            first, _ = jax.vmap(jax.vmap(lambda k: learner.env.reset(jax.random.fold_in(k, 0))))(
                keys
            )
            assert not np.isin(training, np.asarray(first.position)).any()


# ---------------------------------------------------------------------------------- taking up again


def test_a_run_taken_up_at_an_evaluation_goes_on_to_the_last_bit():
    learner, config, events = whole_run()
    middle = events[3]
    assert (type(middle), middle.update) == (Evaluated, 2)
    state = place_state(learner, jax.tree.map(jnp.copy, middle.state))  # as if read from a file
    rest = list(train(learner, config, SEEDS, state, update=2))
    assert_same_events(rest, events[4:])
    assert_equal(rest[-2].state.optimiser, events[-2].state.optimiser)


def test_a_finished_run_has_only_its_absolute_metric_left():
    learner, config, events = whole_run()
    state = jax.tree.map(jnp.copy, events[-2].state)
    assert_same_events(list(train(learner, config, SEEDS, state, update=5)), events[-1:])


# ------------------------------------------------------------------------ annealed learning rates


def annealed(config, **changes):
    return dataclasses.replace(config, anneal_learning_rates=True, **changes)


def test_annealed_rates_fall_linearly_and_would_be_zero_after_the_last_update():
    _, config, _ = whole_run()
    for update in range(config.num_updates + 1):
        numbers, left = hyperparameters_at(annealed(config), update), 1 - update / 5
        assert numbers.actor_learning_rate == pytest.approx(left * 0.1)
        assert numbers.critic_learning_rate == pytest.approx(left * 2.5e-4)
        whole = dataclasses.asdict(config.hyperparameters)
        del whole["actor_learning_rate"], whole["critic_learning_rate"]
        assert whole.items() <= dataclasses.asdict(numbers).items()  # nothing else changes
        assert hyperparameters_at(config, update) is config.hyperparameters  # off by default


def test_annealing_compiles_nothing_and_resumes_to_the_last_bit():
    learner, config, events = whole_run()
    sizes = cache_sizes()
    ours, states = [], {}
    for event in train(learner, annealed(config), SEEDS):
        if isinstance(event, Evaluated):
            states[event.update] = jax.tree.map(jnp.copy, event.state)
        ours.append(event)
    assert cache_sizes() == sizes
    # The first update has the full rate, later ones less.
    assert without_clock(ours[0].rows) == without_clock(events[0].rows)
    assert without_clock(ours[2].rows) != without_clock(events[2].rows)
    rest = list(train(learner, annealed(config), SEEDS, states[2], update=2))
    assert_same_events(rest, ours[4:])


# ----------------------------------------------------------------------------------- ill-fated runs


@dataclass(frozen=True)
class ShortBroken(Broken):
    """Broken, with episodes short enough for evaluations."""

    @property
    def spec(self):
        return dataclasses.replace(super().spec, time_limit=40)


def test_a_loss_that_is_no_number_stops_the_run_at_its_update():
    """Step 19 is the first bad one: with six steps per update, the first step of the fourth."""
    learner = make(ShortBroken(num_good=18), network="feedforward", num_epochs=1)
    config = config_of(learner, num_updates=6, num_evaluations=1)
    events = []
    with pytest.raises(
        NonFiniteLoss, match=r"seed 7 is not a finite number after update 4"
    ) as caught:
        events.extend(train(learner, config, [7]))
    assert caught.value.update == 4
    updates = [("Updated", update) for update in range(1, 5)]
    assert names(events) == [updates[0], ("Evaluated", 0), *updates[1:]]
    [failed] = events.pop().rows  # recorded as well, so that a user can look at it
    assert not np.isfinite(failed["policy_loss"])
    del events[1]
    for event in events:
        [row] = event.rows
        assert row["episodes"] == 0
        assert np.isnan(row["episode_return"])  # none ended, so there is no mean
        assert np.isfinite(row["policy_loss"])


@pytest.mark.parametrize("name", MUST_BE_FINITE)
def test_each_number_that_must_be_finite_is_looked_at(name, monkeypatch):
    learner, config, _ = whole_run()
    make_rows = module.training_rows

    def ruined(config, update, *rest):
        first, second = make_rows(config, update, *rest)
        return [first, {**second, name: np.inf if update == 2 else second[name]}]

    monkeypatch.setattr(module, "training_rows", ruined)
    with pytest.raises(NonFiniteLoss, match=f"seed {SEEDS[1]} is not .* after update 2"):
        list(train(learner, config, SEEDS))


# ----------------------------------------------------------------------------------------- learners


def test_learners_are_made_from_configurations():
    config = config_of(make(), num_updates=5, num_evaluations=2)
    learner = make_learner(Drift(), config, num_seeds=1)
    assert learner == make()
    assert learner.surrogate is barrier
    assert make_learner(Drift(), config, 1, jax.devices()[:1]) == make(num_devices=1)
    assert make_learner(Drift(), config, 2) == make(num_seeds=2)
    mappo = dataclasses.replace(config, objective="mappo", objective_parameters={"epsilon": 0.1})
    assert make_learner(Drift(), mappo, 1).surrogate is clipped
    asymmetric = dataclasses.replace(config, objective="mappo-asymmetric", objective_parameters={})
    assert make_learner(Drift(), mappo, 1) == make_learner(
        Drift(), asymmetric, 1
    )  # one program serves both


def impossible(log_ratio, advantage, bounds):
    raise ZeroDivisionError("by design")


@pytest.mark.parametrize(
    ("surrogate", "message"),
    [
        (lambda u, a, bounds: (jnp.exp(u) * a).mean(), r"returned .*shape=\(\).* per sample"),
        (lambda u, a, bounds: (jnp.exp(u) * a)[0], r"returned .*shape=\(3, 4\)"),
        (lambda u, a, bounds: u > a, r"returned .*bool"),
        (lambda u, a, bounds: None, "returned None for arguments"),
        (impossible, "cannot be traced by JAX: ZeroDivisionError: by design"),
    ],
)
def test_a_surrogate_gives_a_value_per_sample(surrogate, message, monkeypatch):
    ours = dataclasses.replace(OBJECTIVES["mars"], name="ours", surrogate=surrogate)
    monkeypatch.setitem(OBJECTIVES, "ours", ours)
    config = config_of(make(), num_updates=1, num_evaluations=1, objective="ours")
    with pytest.raises(InputError, match=rf"^The surrogate of 'ours' {message}"):
        make_learner(Drift(), config, 1)


def test_training_compiles_one_update_program_for_all_trust_regions():
    learner, config, _ = whole_run()
    losses, sizes = [], []
    for bounds in ({}, {"b_lower": 0.3, "b_upper": 4.0}):
        changed = dataclasses.replace(config, objective_parameters=bounds, steps=2 * 48)
        events = [event for event in train(learner, changed, SEEDS) if isinstance(event, Updated)]
        losses.append(events[0].rows[0]["policy_loss"])
        sizes.append(cache_sizes())
    assert sizes[0] == sizes[1]
    assert losses[0] != losses[1]
