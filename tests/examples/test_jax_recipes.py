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


def minibatch_updates(policy_loss, num_devices=2):
    """Updates as Mava and JaxMARL make them: a scan over minibatches, averaged over devices.

    Minibatches have the shape [time, environment, agent], and their advantages are normalised.
    """
    keys = jax.random.split(jax.random.key(1), 4)
    shape = (num_devices, 5, 8, 4, 3)  # devices, minibatches, and a minibatch
    observation = jax.random.normal(keys[0], (*shape, 6))
    action = jax.random.randint(keys[1], shape, 0, 2)
    old_log_prob = jnp.log(0.5) + 0.1 * jax.random.normal(keys[2], shape)
    advantage = jax.random.normal(keys[3], shape)

    def loss(weight, observation, action, old_log_prob, gae):
        log_probs = jax.nn.log_softmax(observation @ weight)
        log_prob = jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]
        gae = (gae - gae.mean()) / (gae.std() + 1e-8)
        return policy_loss(log_prob, old_log_prob, gae)

    def step(weight, minibatch):
        (value, found), gradient = jax.value_and_grad(loss, has_aux=True)(weight, *minibatch)
        gradient, logged = jax.lax.pmean((gradient, {"loss": value, **found}), axis_name="device")
        return weight - 0.5 * gradient, logged

    def update(*batch):
        return jax.lax.scan(step, jnp.zeros((6, 2)), batch)

    return jax.vmap(update, axis_name="device")(observation, action, old_log_prob, advantage)


def test_minibatch_updates_with_mappo_are_those_of_the_clipped_loss():
    def clipped(log_prob, old_log_prob, gae):
        ratio = jnp.exp(log_prob - old_log_prob)
        return -jnp.minimum(ratio * gae, jnp.clip(ratio, 0.8, 1.2) * gae).mean(), {}

    expected, expected_logged = minibatch_updates(clipped)
    weight, logged = minibatch_updates(make_policy_loss("mappo", epsilon=0.2))
    np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(logged["loss"], expected_logged["loss"], rtol=1e-5, atol=1e-7)
    assert jnp.abs(expected).max() > 0.01
    assert (logged["ratio_min"] < 0.8).all()  # the clipping had an effect
    assert {value.shape for value in logged.values()} == {(2, 5)}  # a scalar per minibatch
    other, _ = minibatch_updates(make_policy_loss("mars"))
    assert jnp.abs(other - expected).max() > 1e-3
