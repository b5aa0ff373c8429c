"""All kinds of policy compared to NumPy: densities, entropies, samples, extreme values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from ratiosym.learning.distributions import (
    ClippedGaussian,
    MaskedCategorical,
    TanhGaussian,
    log_tanh_slope,
)

LEGAL = jnp.array(
    [[True, True, False, True], [False, False, True, False], [True, True, True, True]]
)
LOGITS = jnp.array([[0.3, -1.2, 9.0, 2.0], [5.0, 1.0, -3.0, 0.0], [0.0, 0.0, 0.0, 30.0]])


def log_softmax_of_legal():
    """Return [3, 4] in double precision, -inf where illegal."""
    logits = np.where(LEGAL, np.asarray(LOGITS, np.float64), -np.inf)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


# -------------------------------------------------------------------------------- MaskedCategorical


def test_categorical_log_prob_is_that_of_the_legal_actions():
    expected = log_softmax_of_legal()
    policy = MaskedCategorical.of(LOGITS, LEGAL)
    for action in range(4):
        log_prob = np.asarray(policy.log_prob(jnp.full(3, action)))
        legal = np.asarray(LEGAL[:, action])
        np.testing.assert_allclose(log_prob[legal], expected[legal, action], rtol=1e-5, atol=1e-6)
        assert (np.exp(log_prob[~legal]) == 0).all()


def test_categorical_entropy_is_that_of_the_legal_actions():
    log_p = log_softmax_of_legal()
    expected = -np.sum(np.exp(log_p) * np.where(np.isfinite(log_p), log_p, 0.0), axis=-1)
    np.testing.assert_allclose(
        MaskedCategorical.of(LOGITS, LEGAL).entropy(), expected, rtol=1e-5, atol=1e-6
    )


def test_categorical_never_samples_what_is_illegal_and_the_rest_as_often_as_it_says():
    policy = MaskedCategorical.of(LOGITS, LEGAL)
    n = 20_000
    samples = jax.vmap(policy.sample)(jax.random.split(jax.random.key(0), n))  # [n, 3]
    shares = np.stack([(np.asarray(samples) == action).mean(0) for action in range(4)], axis=-1)
    p = np.exp(log_softmax_of_legal())
    assert (shares[~np.asarray(LEGAL)] == 0).all()
    assert (np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / n) + 1e-6).all()


def test_categorical_mode_is_the_likeliest_legal_action():
    np.testing.assert_array_equal(MaskedCategorical.of(LOGITS, LEGAL).mode(), [3, 2, 3])


def test_categorical_gradient_is_zero_where_illegal_and_right_elsewhere():
    def both(logits, action):
        policy = MaskedCategorical.of(logits, LEGAL)
        return jnp.sum(policy.log_prob(action) + policy.entropy())

    action = jnp.array([0, 2, 3])
    gradient = np.asarray(jax.grad(both)(LOGITS, action))
    log_p = log_softmax_of_legal()
    p, log_p = np.exp(log_p), np.where(np.isfinite(log_p), log_p, 0.0)
    entropy = -np.sum(p * log_p, -1, keepdims=True)
    expected = np.eye(4)[action] - p - p * (log_p + entropy)
    assert (gradient[~np.asarray(LEGAL)] == 0).all()
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def test_categorical_actions_reach_the_environment_as_they_are():
    action = MaskedCategorical.of(LOGITS, LEGAL).sample(jax.random.key(0))
    given = MaskedCategorical.environment_action(action)
    assert given.dtype == jnp.int32
    np.testing.assert_array_equal(given, action)


# ------------------------------------------------------------------------------------- TanhGaussian


def gaussian(mean, scale):
    return TanhGaussian(jnp.array([mean], jnp.float32), jnp.array([scale], jnp.float32))


def test_gaussian_scale_is_softplus_and_never_zero():
    policy = TanhGaussian.of(jnp.zeros((3, 2)), jnp.array([0.0, -100.0]))
    np.testing.assert_allclose(policy.scale, np.tile([np.log(2) + 1e-3, 1e-3], (3, 1)), rtol=1e-6)


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 0.7), (1.5, 0.7), (-0.5, 2.0), (0.3, 0.1)])
def test_gaussian_log_prob_is_the_density_of_the_squashed_action(mean, scale):
    x = np.linspace(mean - 4 * scale, mean + 4 * scale, 41)
    slope = -2 * np.log(np.cosh(x))  # log of d tanh(x) / dx
    expected = stats.norm.logpdf(x, mean, scale) - slope
    actual = jax.vmap(gaussian(mean, scale).log_prob)(jnp.array(x, jnp.float32)[:, None])
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)

    # As a density over y in (-1, 1) it integrates to 1 (midpoint rule).
    edges = np.linspace(mean - 8 * scale, mean + 8 * scale, 2001)
    middle = ((edges[1:] + edges[:-1]) / 2).astype(np.float32)
    density = np.exp(
        np.asarray(jax.vmap(gaussian(mean, scale).log_prob)(middle[:, None]), np.float64)
    )
    np.testing.assert_allclose(np.sum(density * np.diff(np.tanh(edges))), 1.0, rtol=1e-3)


def test_gaussian_log_prob_is_summed_over_dimensions():
    mean, scale = jnp.array([[0.1, -0.4, 2.0]]), jnp.array([[0.7, 0.2, 1.0]])
    x = jnp.array([[0.3, -0.3, -1.0]])
    parts = [gaussian(mean[0, i], scale[0, i]).log_prob(x[0, i : i + 1]) for i in range(3)]
    whole = TanhGaussian(mean, scale).log_prob(x)
    assert whole.shape == (1,)
    np.testing.assert_allclose(whole[0], sum(parts), rtol=1e-6)


@pytest.mark.parametrize("x", [-30.0, 30.0])
@pytest.mark.parametrize(("mean", "scale"), [(0.0, 0.7), (29.5, 0.7), (-29.5, 2.0)])
def test_ratio_is_exact_and_finite_where_tanh_is_flat(x, mean, scale):
    """At 30, tanh is exactly 1 in float32, so the squashed action would not suffice."""
    assert jnp.abs(jnp.tanh(jnp.float32(x))) == 1.0
    action, moved = jnp.array([x]), (mean + 0.01, scale * 1.02)

    def log_ratio(m, s):
        return gaussian(m, s).log_prob(action) - gaussian(mean, scale).log_prob(action)

    expected = stats.norm.logpdf(x, *moved) - stats.norm.logpdf(x, mean, scale)
    size = abs(stats.norm.logpdf(x, mean, scale)) + 2 * abs(x)  # rounding before the difference
    np.testing.assert_allclose(log_ratio(*moved), expected, atol=3e-7 * size)
    assert log_ratio(mean, scale) == 0.0

    def of_mean(m):
        return TanhGaussian(m, jnp.array([scale])).log_prob(action)

    np.testing.assert_allclose(
        jax.grad(of_mean)(jnp.array([mean]))[0], (x - mean) / scale**2, rtol=1e-5
    )


def test_log_tanh_slope_does_not_cancel():
    x = np.array([-50.0, -10.0, -1.0, 0.0, 1e-4, 3.0, 50.0])
    expected = 2 * (np.log(2) - np.logaddexp(x, -x))
    np.testing.assert_allclose(
        log_tanh_slope(jnp.array(x, jnp.float32)), expected, rtol=1e-6, atol=1e-7
    )


# Largest error of the five-point quadrature over all means (it is at mean 0), in nats: 0.0008 at a
# scale of 0.7, about where a policy starts, 0.006 at 1 and 0.09 at 2, where the policy is wider
# than the tanh.
@pytest.mark.parametrize(
    ("scale", "error"), [(0.3, 1.4e-6), (0.7, 8.1e-4), (1.0, 5.9e-3), (2.0, 9.1e-2)]
)
def test_gaussian_entropy_against_integration(scale, error):
    errors = []
    for mean in np.linspace(-3.0, 3.0, 13):

        def slope(x, mean=mean):
            return stats.norm.pdf(x, mean, scale) * 2 * (np.log(2) - np.logaddexp(x, -x))

        expected = (
            stats.norm.entropy(mean, scale)
            + integrate.quad(slope, mean - 9 * scale, mean + 9 * scale)[0]
        )
        errors.append(float(gaussian(mean, scale).entropy()) - expected)
    np.testing.assert_allclose(np.abs(errors).max(), error, rtol=0.02, atol=2e-6)


def test_gaussian_entropy_is_minus_the_mean_log_prob_and_sums_over_dimensions():
    policy = TanhGaussian(jnp.array([[0.2, -0.5]]), jnp.array([[0.6, 0.3]]))
    samples = jax.vmap(policy.sample)(jax.random.split(jax.random.key(0), 20_000))
    surprise = -np.asarray(jax.vmap(policy.log_prob)(samples))[:, 0]
    tolerance = 4 * surprise.std() / len(surprise) ** 0.5 + 0.001
    np.testing.assert_allclose(policy.entropy()[0], surprise.mean(), atol=tolerance)


def test_gaussian_samples_mode_and_environment_action():
    policy = TanhGaussian(jnp.array([0.5, -2.0]), jnp.array([0.1, 1.0]))
    samples = np.asarray(jax.vmap(policy.sample)(jax.random.split(jax.random.key(0), 20_000)))
    np.testing.assert_allclose(samples.mean(0), policy.mean, atol=4 / 20_000**0.5)
    np.testing.assert_allclose(samples.std(0), policy.scale, rtol=0.03)
    np.testing.assert_array_equal(policy.mode(), policy.mean)
    np.testing.assert_allclose(
        policy.environment_action(policy.mode()), np.tanh(policy.mean), rtol=1e-6
    )


# ---------------------------------------------------------------------------------- ClippedGaussian


def test_clipped_gaussian_densities_are_the_plain_gaussians():
    """Also for actions beyond the limits, which are equal for the environment."""
    mean, scale = jnp.array([[0.3, -2.0]] * 2), jnp.array([[0.7, 0.2]] * 2)
    policy, x = ClippedGaussian(mean, scale), np.array([[0.1, -1.5], [4.0, -3.0]], np.float32)
    expected = stats.norm.logpdf(x, mean, scale).sum(-1)
    np.testing.assert_allclose(policy.log_prob(jnp.array(x)), expected, rtol=1e-5)
    np.testing.assert_allclose(
        policy.entropy(), stats.norm.entropy(mean, scale).sum(-1), rtol=1e-5, atol=1e-6
    )


def test_clipped_gaussian_samples_mode_and_environment_action():
    policy = ClippedGaussian.of(jnp.array([0.5, -2.0]), jnp.array([0.0, -1.0]))
    np.testing.assert_allclose(policy.scale, np.log1p(np.exp([0.0, -1.0])) + 1e-3, rtol=1e-6)
    samples = np.asarray(jax.vmap(policy.sample)(jax.random.split(jax.random.key(0), 20_000)))
    np.testing.assert_allclose(samples.mean(0), policy.mean, atol=4 / 20_000**0.5)
    np.testing.assert_allclose(samples.std(0), policy.scale, rtol=0.03)
    assert samples.min() < -1  # stored as sampled
    assert samples.max() > 1
    np.testing.assert_array_equal(policy.mode(), policy.mean)
    np.testing.assert_array_equal(policy.environment_action(policy.mode()), [0.5, -1.0])
    np.testing.assert_array_equal(policy.environment_action(jnp.array([3.0])), [1.0])
