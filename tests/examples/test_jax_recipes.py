"""The recipes for other JAX trainers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.policy_loss_jax import make_policy_loss
from examples.ppo_jax import make_train


@pytest.mark.parametrize("objective", ["mars", "mappo"])
def test_ppo_in_one_file_learns(objective):
    with jax.numpy_rank_promotion("allow"):  # JAX's default, which this recipe relies on
        _, rewards, found = jax.jit(make_train(objective))(jax.random.key(0))
    assert rewards[-1] > 0.5 * rewards[0]  # at most half the distance
    assert (found.minimum > 0).all()


def test_policy_loss_is_the_clipped_one_for_mappo():
    """What Mava and JaxMARL compute, written out."""
    keys = jax.random.split(jax.random.key(0), 3)
    new, old, A = (jax.random.normal(key, (8, 4, 3)) * 0.3 for key in keys)

    def clipped(new):
        ratio = jnp.exp(new - old)
        return -jnp.minimum(ratio * A, jnp.clip(ratio, 0.8, 1.2) * A).mean()

    ours = jax.jit(jax.value_and_grad(make_policy_loss("mappo", epsilon=0.2), has_aux=True))
    (loss, found), gradient = ours(new, old, A)
    expected, expected_gradient = jax.value_and_grad(clipped)(new)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-5, atol=1e-9)
    assert 0 < found["beyond_target"] < 1
    np.testing.assert_allclose(found["ratio_max"], jnp.exp(new - old).max(), rtol=1e-6)
