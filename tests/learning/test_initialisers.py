import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.initialisers import orthogonal


@pytest.mark.parametrize(
    ("num_inputs", "num_outputs"), [(128, 128), (21, 128), (128, 5), (1, 1), (3, 1)]
)
def test_the_shorter_side_is_orthonormal_times_the_gain(num_inputs, num_outputs, key):
    kernel = np.asarray(orthogonal(key, num_inputs, num_outputs, 2**0.5), np.float64)
    assert kernel.shape == (num_inputs, num_outputs)
    shorter = kernel if num_inputs >= num_outputs else kernel.T
    np.testing.assert_allclose(shorter.T @ shorter, 2 * np.eye(min(kernel.shape)), atol=1e-5)


def test_uniform_over_all_orthogonal_kernels(key):
    """The moments are those of a Haar matrix: mean 0, squares 1/n, independent of position."""
    n, num_draws = 4, 20_000
    kernels = np.asarray(
        jax.jit(jax.vmap(lambda k: orthogonal(k, n, n)))(jax.random.split(key, num_draws))
    )
    error = 5 / num_draws**0.5
    np.testing.assert_allclose(kernels.mean(0), 0, atol=error)
    np.testing.assert_allclose((kernels**2).mean(0), 1 / n, atol=error)
    np.testing.assert_allclose((kernels[:, 0, 0] ** 4).mean(), 3 / (n * (n + 2)), atol=error)
    assert abs((np.linalg.det(kernels) > 0).mean() - 0.5) < error


def test_a_batch_equals_its_rows(key):
    keys = jax.random.split(key, 3)
    batch = jax.vmap(lambda k: orthogonal(k, 8, 8))(keys)
    for row, k in zip(batch, keys, strict=True):
        np.testing.assert_allclose(row, orthogonal(k, 8, 8), atol=1e-6)
    assert jnp.abs(batch[0] - batch[1]).max() > 0.1
