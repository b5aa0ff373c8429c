"""The seven objectives compared to the paper's formulas (tests/paper.py), in JAX and NumPy."""

import dataclasses
import math
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiosym import objectives
from ratiosym.errors import InputError
from ratiosym.objectives import (
    NEAREST,
    OBJECTIVES,
    QUANTILES,
    Bounds,
    Objective,
    Parameter,
    additive,
    additive_asymmetric,
    barrier,
    clipped,
    get_objective,
    independent,
    mirrored,
    psi_mars,
    psi_maspo,
    quadratic,
    ratio_diagnostics,
    reciprocal,
    register_objective,
    target_ratio,
)
from tests.paper import (
    CASES,
    PAPER,
    PAPER_GRADIENT,
    SETTINGS,
    case_id,
    every_case,
    grid,
    paper_gradients,
    paper_maspo,
    paper_values,
)

SOFT_CASES = [
    (name, parameters) for name, parameters in CASES if OBJECTIVES[name].surrogate is not clipped
]


@partial(jax.jit, static_argnums=0)
def value_of(surrogate, log_ratio, advantage, bounds):
    return surrogate(log_ratio, advantage, bounds)


@partial(jax.jit, static_argnums=0)
def gradient_in_log_ratio(surrogate, log_ratio, advantage, bounds):
    """∂L/∂u for each sample. ∂L/∂r = ∂L/∂u / r."""
    return jax.grad(lambda u: surrogate(u, advantage, bounds).sum())(log_ratio)


diagnostics = jax.jit(ratio_diagnostics)


def test_there_are_seven_objectives():
    assert len(OBJECTIVES) == 7
    assert set(OBJECTIVES) == set(PAPER) == set(PAPER_GRADIENT) == set(SETTINGS)
    assert all(name == objective.name for name, objective in OBJECTIVES.items())
    assert len({objective.title for objective in OBJECTIVES.values()}) == 7
    assert len({(o.surrogate, o.targets) for o in OBJECTIVES.values()}) == 7


# ------------------------------------------------------------------------------- value and gradient


@every_case(CASES)
def test_value_is_the_papers_formula(name, parameters):
    objective = OBJECTIVES[name]
    u, A = grid(np.linspace(-5, 5, 41))
    expected = paper_values(name, u, A, parameters)
    bounds = objective.bounds(**parameters)
    with jax.enable_x64(True):
        exact = value_of(objective.surrogate, jnp.asarray(u), jnp.asarray(A), bounds)
    np.testing.assert_allclose(exact, expected, rtol=1e-11, atol=1e-11)
    single = value_of(
        objective.surrogate, jnp.asarray(u, jnp.float32), jnp.asarray(A, jnp.float32), bounds
    )
    assert single.dtype == jnp.float32
    assert single.shape == u.shape
    np.testing.assert_allclose(single, expected, rtol=3e-5, atol=3e-5)


@every_case(CASES)
def test_gradient_is_finite_and_the_papers_from_minus_40_to_40(name, parameters):
    objective = OBJECTIVES[name]
    u, A = grid(np.linspace(-40, 40, 161) + 1e-3)  # off the kinks of MAPPO
    u = u.astype(np.float32)
    expected, size = paper_gradients(name, u.astype(np.float64), A, parameters)
    bounds = objective.bounds(**parameters)
    gradient = gradient_in_log_ratio(
        objective.surrogate, jnp.asarray(u), jnp.asarray(A, jnp.float32), bounds
    )
    assert np.isfinite(gradient).all()
    error = np.abs(np.asarray(gradient, np.float64) - expected)
    assert (error <= 2e-5 * size).all()


@every_case(SOFT_CASES)
def test_stationary_point_is_the_target_for_both_signs(name, parameters):
    objective = OBJECTIVES[name]
    bounds = objective.bounds(**parameters)
    for A, target in ((1.7, bounds.upper), (-1.7, bounds.lower)):
        u = jnp.log(target) + jnp.array([-1e-2, 0.0, 1e-2])
        before, at, after = gradient_in_log_ratio(objective.surrogate, u, jnp.full(3, A), bounds)
        assert before > 0 > after
        assert abs(at) < 1e-2 * min(before, -after)


def test_mappo_has_no_gradient_exactly_beyond_the_target_in_the_improving_direction():
    for name in ("mappo", "mappo-asymmetric"):
        for parameters in SETTINGS[name]:
            bounds = OBJECTIVES[name].bounds(**parameters)
            r = np.concatenate(
                [np.linspace(0.003, 12.0, 999), [bounds.lower - 1e-4, bounds.lower + 1e-4]]
            )
            r = np.append(r, [bounds.upper - 1e-4, bounds.upper + 1e-4])
            for A in (0.7, -0.7):
                expected = [PAPER_GRADIENT[name](x, A, **parameters)[0] for x in r]
                u = jnp.log(jnp.asarray(r, jnp.float32))
                gradient = gradient_in_log_ratio(clipped, u, jnp.full(len(r), A), bounds)
                np.testing.assert_array_equal(gradient == 0, np.asarray(expected) == 0)
                np.testing.assert_allclose(gradient / jnp.exp(u), expected, rtol=1e-5)
                assert 0 < np.count_nonzero(expected) < len(r)


@every_case(SOFT_CASES)
def test_the_others_have_no_such_region(name, parameters):
    bounds = OBJECTIVES[name].bounds(**parameters)
    u, A = (jnp.asarray(x, jnp.float32) for x in grid(np.linspace(-40, 40, 401) + 1e-3))
    gradient = gradient_in_log_ratio(OBJECTIVES[name].surrogate, u, A, bounds)
    assert (gradient != 0).all()
    is_below_target = np.exp(u) < np.where(A >= 0, bounds.upper, bounds.lower)
    np.testing.assert_array_equal(gradient > 0, is_below_target)


@every_case(CASES)
def test_without_advantage_there_is_no_value_and_no_gradient(name, parameters):
    objective = OBJECTIVES[name]
    bounds = objective.bounds(**parameters)
    u = jnp.array(
        [0.0, 1.0, -40.0, 40.0, 88.0, -88.0, 120.0, -120.0, 1e9, -1e9, jnp.inf, -jnp.inf, jnp.nan]
    )
    for zero in (0.0, -0.0):
        A = jnp.full(u.shape, zero)
        np.testing.assert_array_equal(
            value_of(objective.surrogate, u, A, bounds), np.zeros(u.shape)
        )
        np.testing.assert_array_equal(
            gradient_in_log_ratio(objective.surrogate, u, A, bounds), np.zeros(u.shape)
        )


def test_barrier_keeps_its_gradient_where_the_reciprocal_of_the_ratio_would_be_lost():
    u = jnp.array([-87.8])  # exp(u) is flushed to 0 in float32, exp(-u) is not yet infinite
    A = jnp.array([-0.01])
    assert jnp.exp(u)[0] < jnp.finfo(jnp.float32).tiny
    gradient = gradient_in_log_ratio(barrier, u, A, Bounds(0.5, 2.0))
    expected = 0.01 / 3 * math.exp(87.8)
    np.testing.assert_allclose(gradient, [expected], rtol=1e-4)


def test_near_one_the_penalty_loses_no_digits():
    u = np.array([1e-6, -1e-4, 1e-3], np.float32)
    exact = 4 * np.sinh(0.5 * u.astype(np.float64)) ** 2
    np.testing.assert_allclose(psi_mars(jnp.asarray(u)), exact, rtol=1e-5)


# ------------------------------------------------------------------------- the paper's propositions

advantages = st.one_of(st.floats(0.01, 50.0), st.floats(-50.0, -0.01))
lower_targets = st.floats(0.05, 0.97)
upper_targets = st.floats(1.03, 12.0)
quick = settings(deadline=None, max_examples=60)


@quick
@given(st.floats(-40.0, 40.0, width=32))
def test_penalty_of_a_ratio_is_that_of_its_inverse(u):
    value = float(psi_mars(jnp.float32(u)))
    assert value == pytest.approx(float(psi_mars(jnp.float32(-u))), rel=1e-6)
    r = math.exp(u)
    assert value == pytest.approx(r + 1 / r - 2, rel=1e-5, abs=1e-12)
    geometric_mean = math.sqrt((r - 1) ** 2 * (1 / r - 1) ** 2)  # Equation 17
    assert value == pytest.approx(geometric_mean, rel=1e-5, abs=1e-12)


def test_additive_penalty_is_finite_at_extinction_and_the_symmetric_one_is_not():
    u = jnp.array([-1.0, -10.0, -80.0])
    np.testing.assert_allclose(psi_maspo(u), (np.exp(u) - 1) ** 2, rtol=1e-6)
    assert (psi_maspo(u) <= 1).all()
    np.testing.assert_allclose(psi_mars(u), np.exp(u) + np.exp(-u) - 2, rtol=1e-5)
    assert psi_mars(u)[-1] > 1e34


@quick
@given(advantages, lower_targets, upper_targets, st.floats(1.0, 1e4), st.floats(0.01, 0.9))
def test_proposition_3_1_barrier_against_extinction(A, lower, upper, height, nearness):
    """Below some ratio, the value is under −height and the ratio-gradient over +height."""
    target = upper if A >= 0 else lower
    alpha = A / (1 - target**-2)
    assert alpha > 0
    r = nearness * min(
        alpha / (height + 3 * alpha + abs(A)), math.sqrt(alpha / (height + abs(A) + alpha))
    )
    u = jnp.array([math.log(r)], jnp.float32)
    bounds = Bounds(jnp.float32(lower), jnp.float32(upper))
    assert value_of(barrier, u, jnp.array([A], jnp.float32), bounds)[0] < -height
    slope = gradient_in_log_ratio(barrier, u, jnp.array([A], jnp.float32), bounds)[0] / r
    assert slope > height


@quick
@given(advantages, lower_targets, upper_targets, st.floats(0.01, 30.0), st.floats(0.01, 30.0))
def test_proposition_3_2_no_gradient_truncation(A, lower, upper, below, above):
    """From both sides, however far, the gradient points to the target and is never zero."""
    target = math.log(upper if A >= 0 else lower)
    u = jnp.array([target - below, target + above], jnp.float32)
    bounds = Bounds(jnp.float32(lower), jnp.float32(upper))
    up, down = gradient_in_log_ratio(barrier, u, jnp.full(2, A, jnp.float32), bounds)
    assert up > 0 > down


# ------------------------------------------------------------------------------------ target ratios


def test_choices_of_targets():
    assert additive(0.25) == Bounds(0.75, 1.25)
    assert additive_asymmetric(0.5, 3.0) == Bounds(0.5, 4.0)
    assert independent(0.5, 4.0) == Bounds(0.5, 4.0)
    assert reciprocal(4.0) == Bounds(0.25, 4.0)
    assert mirrored(1.25) == Bounds(0.75, 1.25)


def test_sign_picks_the_target():
    target = target_ratio(jnp.array([2.0, 0.0, -0.0, -1e-30, -2.0]), Bounds(0.5, 4.0))
    np.testing.assert_array_equal(target, [4.0, 4.0, 4.0, 0.5, 0.5])


def test_maspo_in_epsilon_is_maspo_in_targets():
    u, A = grid(np.linspace(-4, 4, 33))
    for epsilon in (0.05, 0.1, 0.2):
        expected = np.vectorize(paper_maspo)(np.exp(u), A, epsilon)
        with jax.enable_x64(True):
            value = quadratic(jnp.asarray(u), jnp.asarray(A), Bounds(1 - epsilon, 1 + epsilon))
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


def test_ablation_is_fair():
    """The asymmetric baselines and MARS search the same targets; only the surrogate differs."""
    B_lower = (0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)
    B_upper = (1.05, 1.1, 1.2, 2.0, 4.0, 6.0, 8.0, 10.0)
    epsilon_lower = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
    epsilon_upper = (0.05, 0.1, 0.2, 1.0, 3.0, 5.0, 7.0, 9.0)
    mars, mappo, maspo = (
        OBJECTIVES[name] for name in ("mars", "mappo-asymmetric", "maspo-asymmetric")
    )
    for e_lower, b_lower in zip(epsilon_lower, B_lower, strict=True):
        for e_upper, b_upper in zip(epsilon_upper, B_upper, strict=True):
            bounds = mars.bounds(b_lower=1 - e_lower, b_upper=1 + e_upper)
            assert bounds == mappo.bounds(epsilon_lower=e_lower, epsilon_upper=e_upper)
            assert bounds == maspo.bounds(epsilon_lower=e_lower, epsilon_upper=e_upper)
            assert bounds == pytest.approx((b_lower, b_upper), rel=1e-12)
    assert len({mars.surrogate, mappo.surrogate, maspo.surrogate}) == 3


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_new_bounds_compile_nothing(name):
    objective = OBJECTIVES[name]
    num_traces = 0

    def value(parameters, u, A):
        nonlocal num_traces
        num_traces += 1
        return objective.surrogate(u, A, objective.targets(**parameters)).sum()

    step = jax.jit(jax.value_and_grad(value, argnums=1))
    u, A = jnp.array([-0.7, 0.9]), jnp.array([-1.0, 1.0])
    results = {float(step(parameters, u, A)[0]) for parameters in SETTINGS[name]}
    assert num_traces == 1
    assert len(results) == len(SETTINGS[name])  # the bounds reached the program


def test_bounds_may_be_mapped_over():
    lower, upper = jnp.array([0.9, 0.5]), jnp.array([1.1, 3.0])
    u, A = jnp.array([0.4, -0.4, 0.1]), jnp.array([1.0, -1.0, -2.0])
    for surrogate in (clipped, quadratic, barrier):
        mapped = jax.jit(jax.vmap(surrogate, (None, None, 0)))(u, A, Bounds(lower, upper))
        for i in range(2):
            np.testing.assert_allclose(
                mapped[i], value_of(surrogate, u, A, Bounds(lower[i], upper[i])), rtol=1e-6
            )


# -------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mappo", {"epsilon": 0.0}),
        ("mappo", {"epsilon": -0.2}),
        ("maspo", {"epsilon": 1.0}),
        ("maspo", {"epsilon": math.nan}),
        ("maspo", {"epsilon": 1e-9}),
        ("mappo", {"epsilon": "0.2"}),
        ("mappo-asymmetric", {"epsilon_lower": 1.0, "epsilon_upper": 0.2}),
        ("maspo-asymmetric", {"epsilon_upper": 0.0, "epsilon_lower": 0.2}),
        ("maspo-asymmetric", {"epsilon_upper": math.inf, "epsilon_lower": 0.2}),
        ("mars", {"b_lower": 0.0, "b_upper": 1.2}),
        ("mars", {"b_lower": -0.5, "b_upper": 1.2}),
        ("mars", {"b_lower": 1.0, "b_upper": 1.2}),
        ("mars", {"b_upper": 1.0, "b_lower": 0.8}),
        ("mars", {"b_upper": math.inf, "b_lower": 0.8}),
        ("mars-multiplicative", {"b": 1.0}),
        ("mars-multiplicative", {"b": 0.5}),
        ("mars-additive", {"b": 1.0}),
        ("mars-additive", {"b": 2.0}),
    ],
    ids=case_id,
)
@pytest.mark.unchecked
def test_value_out_of_range_is_refused(name, parameters):
    wrong, value = next(iter(parameters.items()))
    message = rf"'{name}': `{wrong}` is .*; it must be a finite number above \d.* for example \d"
    with pytest.raises(InputError, match=message) as e:
        OBJECTIVES[name].bounds(**parameters)
    assert f"`{wrong}` is {value!r};" in str(e.value)
    assert "\n" not in str(e.value)


def test_a_value_may_be_as_near_to_its_limits_as_the_message_says():
    epsilon = OBJECTIVES["maspo"].parameters[0]
    epsilon.check(epsilon.low + NEAREST)
    epsilon.check(epsilon.high - NEAREST)


def test_limits_differ_where_the_targets_do():
    assert OBJECTIVES["mars-multiplicative"].bounds(b=2.5) == Bounds(0.4, 2.5)
    assert OBJECTIVES["mappo-asymmetric"].bounds(epsilon_lower=0.5, epsilon_upper=9.0) == Bounds(
        0.5, 10.0
    )
    with pytest.raises(ValueError, match="above 1 and below 2"):
        OBJECTIVES["mars-additive"].bounds(b=2.5)


def test_only_the_wrong_parameter_is_named():
    message = r"'mappo' has no parameter `b_upper`\. It takes: `epsilon` \(0\.2\)\."
    with pytest.raises(InputError, match=message):
        OBJECTIVES["mappo"].bounds(b_upper=2.0)


@pytest.mark.unchecked
def test_parameters_left_out_take_their_defaults():
    assert OBJECTIVES["mars"].resolve({"b_upper": np.float32(3)}) == {"b_lower": 0.5, "b_upper": 3}
    assert OBJECTIVES["mars"].bounds(b_upper=3.0) == Bounds(0.5, 3.0)


@pytest.mark.parametrize(
    ("targets", "values"),
    [
        (independent, (1.2, 0.8)),
        (independent, (0.0, 2.0)),
        (independent, (0.5, math.inf)),
        (additive, (2,)),
        (additive, (math.nan,)),
        (additive_asymmetric, (1.0, 0.2)),
        (reciprocal, (0.5,)),
        (mirrored, (2.5,)),
    ],
)
def test_known_bounds_must_enclose_one(targets, values):
    with pytest.raises(InputError, match="0 < lower < 1 < upper"):
        targets(*values)


def test_traced_bounds_are_not_checked():
    wrong = jax.jit(lambda lower, upper: independent(lower, upper))(1.2, 0.8)
    np.testing.assert_allclose(wrong, (1.2, 0.8), rtol=1e-6)


def test_default_regions_of_the_variants_are_close_to_that_of_mars():
    """As close as the values that are searched allow."""
    found = {name: tuple(map(float, objective.bounds())) for name, objective in OBJECTIVES.items()}
    assert found["mars"] == (0.5, 2)
    assert found["mappo"] == found["maspo"] == pytest.approx((0.8, 1.2))
    assert found["mappo-asymmetric"] == found["maspo-asymmetric"] == found["mars"]
    for name, end in (("mars-multiplicative", 1), ("mars-additive", 0)):
        (parameter,) = OBJECTIVES[name].parameters
        distances = [
            abs(OBJECTIVES[name].bounds(b=b)[end] - found["mars"][end]) for b in parameter.search
        ]
        assert parameter.search[int(np.argmin(distances))] == parameter.default


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_defaults_are_allowed(name):
    bounds = OBJECTIVES[name].bounds()
    assert 0 < bounds.lower < 1 < bounds.upper
    assert get_objective(name) is OBJECTIVES[name]
    hash(OBJECTIVES[name])  # may be a static argument
    with pytest.raises(dataclasses.FrozenInstanceError):
        OBJECTIVES[name].name = "other"


@pytest.mark.parametrize(
    ("typed", "meant"), [("mrs", "mars"), ("MASPO", "maspo"), ("mars-aditive", "mars-additive")]
)
def test_unknown_objective_names_the_closest(typed, meant):
    message = rf"^Unknown objective '{typed}'\. Closest: '{meant}'\. Choose one of: "
    with pytest.raises(ValueError, match=message) as e:
        get_objective(typed)
    assert all(name in str(e.value) for name in OBJECTIVES)


def test_unknown_objective_far_from_all_names_none():
    with pytest.raises(
        ValueError, match=r"^Unknown objective 'zzz'\. Choose one of: mars, mappo, "
    ):
        get_objective("zzz")


# ------------------------------------------------------------------------------------ from outside


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(objectives, "OBJECTIVES", dict(OBJECTIVES))
    return objectives.OBJECTIVES


def linear(log_ratio, advantage, bounds):
    return jnp.exp(log_ratio) * advantage


OURS = Objective("linear", "Linear", linear, additive, (Parameter("epsilon", 0.3, 0, 1, (0.3,)),))


def test_an_objective_from_outside_is_found_by_name(registry):
    assert register_objective(OURS) is OURS
    assert get_objective("linear") is OURS
    assert register_objective(OURS) is OURS  # importing a module twice is allowed


def test_an_objective_is_found_by_reference():
    assert get_objective(f"{__name__}:OURS") is OURS
    with pytest.raises(InputError, match="is a function; it must be a ratiosym"):
        get_objective(f"{__name__}:linear")


@pytest.mark.unchecked
def test_names_are_taken_once_and_defaults_are_checked(registry):
    with pytest.raises(InputError, match="different objective named 'mars' already exists"):
        register_objective(dataclasses.replace(OURS, name="mars"))
    with pytest.raises(InputError, match="got a function; it needs"):
        register_objective(linear)
    wrong = Parameter("epsilon", 1.3, 0, 1, (0.3,))
    with pytest.raises(InputError, match=r"'far': `epsilon` is 1\.3"):
        register_objective(dataclasses.replace(OURS, name="far", parameters=(wrong,)))
    assert set(registry) == set(OBJECTIVES)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_arrays_give_numpy_arrays_and_the_same_numbers(name, dtype):
    u = np.linspace(-40, 40, 81, dtype=dtype)[:, None]
    A = np.array([-2.0, 0.0, 1.0], dtype)[None]
    surrogate, bounds = OBJECTIVES[name].surrogate, OBJECTIVES[name].bounds()
    u, A = np.broadcast_arrays(u, A)
    found = surrogate(u, A, bounds)
    assert isinstance(found, np.ndarray)
    assert found.dtype == dtype
    expected = surrogate(jnp.asarray(u, jnp.float32), jnp.asarray(A, jnp.float32), bounds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    ours, theirs = (
        f(ratio_diagnostics(x, y, bounds))
        for f, x, y in (
            (tuple, u, A),
            (tuple, jnp.asarray(u, jnp.float32), jnp.asarray(A, jnp.float32)),
        )
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert one.dtype == dtype


@every_case(CASES)
def test_numpys_differences_are_the_papers_gradient(name, parameters):
    """NumPy has no gradients, so central differences in float64 replace them."""
    u, A = grid(np.linspace(-40, 40, 161) + 1e-3)
    surrogate, bounds = OBJECTIVES[name].surrogate, OBJECTIVES[name].bounds(**parameters)
    h = 1e-5
    found = (surrogate(u + h, A, bounds) - surrogate(u - h, A, bounds)) / (2 * h)
    expected, size = paper_gradients(name, u, A, parameters)
    # Beyond what the differences themselves lose: digits of the value, and h^2 of the slope.
    lost = 1e-10 * np.abs(surrogate(u, A, bounds)) + 1e-10 * np.abs(A)
    assert (np.abs(found - expected) <= 1e-6 * size + lost / h * 1e-3).all()


U, ONES = np.zeros((4, 1)), np.ones((4, 1))
WRONG_ARRAYS = {
    "two libraries": (jnp.zeros(3), np.ones(3), "must be arrays of the same library"),
    "a list": ([0.1], np.ones(1), "`log_ratio` is of type list, `advantage` is of type numpy"),
    "a number": (np.zeros(3), 1.0, "`advantage` is of type float; they must be arrays of the same"),
    "integers": (U, ONES.astype(int), "`advantage` has the dtype int64; it must be floating-point"),
    "shapes": (
        U,
        ONES[:, 0],
        r"`log_ratio` has the shape \(4, 1\), `advantage` has the shape \(4,\)",
    ),
}


@pytest.mark.parametrize("surrogate", [clipped, quadratic, barrier, ratio_diagnostics])
@pytest.mark.parametrize("case", WRONG_ARRAYS)
@pytest.mark.unchecked
def test_wrong_arrays_are_refused_in_one_sentence(surrogate, case):
    log_ratio, advantage, message = WRONG_ARRAYS[case]
    with pytest.raises(InputError, match=message) as error:
        surrogate(log_ratio, advantage, Bounds(0.8, 1.2))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("surrogate", [clipped, quadratic, barrier, ratio_diagnostics])
@pytest.mark.parametrize(
    "bounds",
    [
        (1.2, 0.8),
        (0.8, 1.0),
        (1.0, 1.2),
        (0.0, 1.2),
        (0.8, math.inf),
        (np.array(1.1), np.array(2)),
    ],
)
def test_bounds_on_the_wrong_side_of_one_are_refused(surrogate, bounds):
    with pytest.raises(InputError, match="0 < lower < 1 < upper"):
        surrogate(U, ONES, Bounds(*bounds))


@pytest.mark.unchecked
@pytest.mark.parametrize("bounds", [(0.8, 1.2, 1.5), (0.8,), 1.2, np.array([0.8, 1.2])])
def test_bounds_that_are_no_pair_are_refused(bounds):
    with pytest.raises(InputError, match="it must be a pair of target ratios"):
        barrier(U, ONES, bounds)


@pytest.mark.unchecked
def test_weights_of_another_shape_or_library_are_refused():
    with pytest.raises(
        InputError, match=r"`weight` has the shape \(4,\); the shapes must be equal"
    ):
        ratio_diagnostics(U, ONES, Bounds(0.8, 1.2), ONES[:, 0])
    with pytest.raises(InputError, match="must be arrays of the same library"):
        ratio_diagnostics(U, ONES, Bounds(0.8, 1.2), jnp.ones((4, 1)))


def test_objectives_do_not_import_jax():
    code = "import sys, ratiosym.objectives; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -------------------------------------------------------------------------------------- diagnostics


def expect_diagnostics(found, u, A, bounds):
    r = np.exp(u.astype(np.float64))
    np.testing.assert_allclose(found.minimum, r.min(), rtol=1e-5)
    np.testing.assert_allclose(found.maximum, r.max(), rtol=1e-5)
    np.testing.assert_allclose(found.quantiles, np.quantile(r, QUANTILES), rtol=1e-4)
    beyond = np.where(A >= 0, r > bounds.upper, r < bounds.lower)
    assert 0 < beyond.mean() < 1
    np.testing.assert_allclose(found.beyond_target, beyond.mean(), rtol=1e-6)
    np.testing.assert_allclose(found.approximate_kl, np.mean(r - 1 - np.log(r)), rtol=1e-4)


@pytest.mark.parametrize("kind", [None, bool, np.float32])
def test_diagnostics_are_numpys(kind):
    rng = np.random.default_rng(0)
    u = rng.normal(0, 0.3, (7, 5, 3)).astype(np.float32)
    A = rng.normal(size=u.shape).astype(np.float32)
    bounds = Bounds(0.8, 1.3)
    if kind is None:
        expect_diagnostics(diagnostics(jnp.asarray(u), jnp.asarray(A), bounds), u, A, bounds)
        return
    keep = rng.random(u.shape) < 0.6
    noise = rng.choice([np.nan, np.inf, -np.inf, -50.0, 50.0], u.shape).astype(np.float32)
    polluted, weight = jnp.where(keep, u, noise), jnp.asarray(keep, kind)
    found = diagnostics(polluted, jnp.asarray(A), bounds, weight)
    expect_diagnostics(found, u[keep], A[keep], bounds)


def test_quantiles_are_those_that_the_records_name():
    """training.csv calls them ratio_q01 to ratio_q99."""
    assert QUANTILES == (0.01, 0.25, 0.5, 0.75, 0.99)


def test_diagnostics_map_and_handle_one_sample_or_none():
    u = jnp.array([[0.5, -0.5, 3.0], [0.5, -0.5, 3.0], [0.5, -0.5, 3.0]])
    weight = jnp.array([[0, 1, 0], [0, 0, 0], [1, 1, 0]])
    found = jax.jit(jax.vmap(ratio_diagnostics, (0, 0, None, 0)))(
        u, -jnp.ones((3, 3)), Bounds(0.8, 1.2), weight
    )
    one, e = math.exp(-0.5), math.exp(0.5)
    np.testing.assert_allclose(found.minimum, [one, 1, one], rtol=1e-6)
    np.testing.assert_allclose(found.maximum, [one, 1, e], rtol=1e-6)
    np.testing.assert_allclose(found.quantiles[0], np.full(5, one), rtol=1e-6)
    np.testing.assert_array_equal(found.quantiles[1], np.ones(5))
    np.testing.assert_allclose(found.quantiles[2], np.quantile([one, e], QUANTILES), rtol=1e-6)
    np.testing.assert_allclose(found.beyond_target, [1, 0, 0.5])
    np.testing.assert_allclose(found.approximate_kl, [one - 0.5, 0, (one + e) / 2 - 1], atol=1e-6)


def test_diagnostics_of_one_ratio_of_numpys():
    found = ratio_diagnostics(np.array([0.5]), np.array([1.0]), Bounds(0.8, 1.2))
    np.testing.assert_allclose(found.quantiles, np.full(5, math.exp(0.5)))


@pytest.mark.parametrize("num", [1, 4])
def test_weighted_diagnostics_of_numpys_arrays_are_jaxs(num):
    u, A, bounds = np.linspace(-0.5, 0.5, num), np.ones(num), Bounds(0.8, 1.2)
    for weight in (np.ones(num), np.arange(num) < num // 2):
        found = ratio_diagnostics(u, A, bounds, weight)
        expected = ratio_diagnostics(*map(jnp.asarray, (u, A)), bounds, jnp.asarray(weight))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_without_advantage_the_target_is_the_upper_one():
    """Equation 40, as for the surrogates."""
    found = ratio_diagnostics(np.log([1.5, 1.0]), np.zeros(2), Bounds(0.8, 1.2))
    assert found.beyond_target == 0.5


def test_a_ratio_at_its_target_is_not_beyond_it():
    u, A = np.log([2.0, 0.5]), np.array([1.0, -1.0])
    assert ratio_diagnostics(u, A, Bounds(0.5, 2.0)).beyond_target == 0


def test_diagnostics_of_far_ratios_are_numbers():
    u = jnp.array([-500.0, 0.0, 500.0])
    found = diagnostics(u, jnp.array([-1.0, 1.0, 1.0]), Bounds(0.8, 1.2))
    assert found.minimum == 0
    assert 1e38 < found.maximum < jnp.inf
    assert np.isfinite(found.quantiles).all()
    np.testing.assert_allclose(found.beyond_target, 2 / 3, rtol=1e-6)


def test_the_divergence_of_ratios_near_one_loses_few_digits():
    u = jnp.full(4, 1e-3)
    found = diagnostics(u, jnp.ones(4), Bounds(0.8, 1.2))
    np.testing.assert_allclose(found.approximate_kl, math.expm1(1e-3) - 1e-3, rtol=1e-3)


def test_diagnostics_carry_no_gradient():
    def total(u):
        found = ratio_diagnostics(u, jnp.ones(4), Bounds(0.8, 1.2))
        return found.maximum + found.quantiles.sum() + found.approximate_kl

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(jnp.arange(4.0)), np.zeros(4))
