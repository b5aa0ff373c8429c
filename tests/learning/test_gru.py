"""The GRU compared to its equations, step by step, and its gradient to autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.gru import GRUParams, gru, init_gru
from tests.learning.helpers import assert_close

LENGTH, FEATURES, HIDDEN = 7, 3, 5


def reference(params, inputs, is_start, carry):
    """Evaluate the equations of the docstring step by step."""
    W_reset, W_update, W_candidate = jnp.split(params.input_kernel, 3, axis=1)
    b_reset, b_update, b_candidate = jnp.split(params.input_bias, 3)
    U_reset, U_update, U_candidate = jnp.split(params.recurrent_kernel, 3, axis=1)

    def step(h, now):
        x, first = now
        h = jnp.where(first[..., None], 0.0, h)
        reset = jax.nn.sigmoid(x @ W_reset + b_reset + h @ U_reset)
        z = jax.nn.sigmoid(x @ W_update + b_update + h @ U_update)
        n = jnp.tanh(
            x @ W_candidate + b_candidate + reset * (h @ U_candidate + params.candidate_bias)
        )
        h = (1 - z) * n + z * h
        return h, h

    with jax.numpy_rank_promotion("allow"):
        return jax.lax.scan(step, carry, (inputs, is_start))[1]


def example(seed=0, batch=(4,), first=None):
    """Return parameters with non-zero biases, inputs, some starts, and a carry."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return jnp.array(rng.normal(size=shape), jnp.float32)

    params = GRUParams(
        normal(FEATURES, 3 * HIDDEN), normal(3 * HIDDEN), normal(HIDDEN, 3 * HIDDEN), normal(HIDDEN)
    )
    is_start = rng.random((LENGTH, *batch)) < 0.3
    is_start[0] = is_start[0] if first is None else first
    assert is_start[1:].any()
    assert not is_start[1:].all()
    return params, normal(LENGTH, *batch, FEATURES), jnp.array(is_start), normal(*batch, HIDDEN)


BATCHES = [(4,), (3, 2)]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_states_are_those_of_the_equations(batch):
    arguments = example(batch=batch)
    states = jax.jit(gru)(*arguments)
    assert states.shape == (LENGTH, *batch, HIDDEN)
    np.testing.assert_allclose(states, jax.jit(reference)(*arguments), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("first", [False, True], ids=["goes on", "starts anew"])
def test_gradient_is_that_of_the_equations_in_all_inputs(batch, first):
    params, inputs, is_start, carry = example(batch=batch, first=first)
    weight = example(1, batch=batch)[1][..., :1]  # weight of every state in the loss

    def gradient(function):
        loss = lambda p, x, c: jnp.sum(weight * function(p, x, is_start, c) ** 2)  # noqa: E731
        return jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(params, inputs, carry)

    ours, theirs = gradient(gru), gradient(reference)
    for name, a, b in zip(
        [*GRUParams._fields, "inputs", "carry"], *map(jax.tree.leaves, (ours, theirs)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=name)
        assert (np.abs(b).max() > 0.01) or (name == "carry" and first), name
    if first:
        assert not ours[2].any()  # an old carry does not affect a new episode


def test_what_was_before_a_start_does_not_matter():
    params, inputs, is_start, carry = example()
    is_start = is_start.at[3].set(True)
    states = jax.jit(gru)(params, inputs, is_start, carry)
    other = jax.jit(gru)(params, inputs.at[:3].add(1.0), is_start, carry + 1.0)
    np.testing.assert_array_equal(states[3:], other[3:])
    assert not np.allclose(states[:3], other[:3])


def test_parameters_side_by_side_are_as_one_after_another():
    examples = [example(seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *examples)

    def loss(params, inputs, is_start, carry):
        return jnp.sum(gru(params, inputs, is_start, carry) ** 2)

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 3)))
    together = jax.jit(jax.vmap(gradient))(*stacked)
    for i, one in enumerate(examples):
        mine = jax.tree.map(lambda x, i=i: x[i], together)
        assert_close(mine, gradient(*one), rtol=1e-4, atol=1e-5)


def test_one_step_after_another_is_the_whole_sequence():
    params, inputs, is_start, carry = example()
    whole = jax.jit(gru)(params, inputs, is_start, carry)
    for t in range(LENGTH):
        carry = jax.jit(gru)(params, inputs[t : t + 1], is_start[t : t + 1], carry)[0]
        np.testing.assert_allclose(carry, whole[t], rtol=1e-5, atol=1e-6)


def test_first_parameters(key):
    features, hidden = 400, 64
    params = init_gru(key, features, hidden)
    assert params.input_kernel.shape == (features, 3 * hidden)
    assert not params.input_bias.any()
    assert not params.candidate_bias.any()
    recurrent = np.split(np.asarray(params.recurrent_kernel), 3, axis=1)
    for gate in recurrent:  # each gate's kernel is a rotation
        np.testing.assert_allclose(gate.T @ gate, np.eye(hidden), atol=1e-5)
    inputs = np.split(np.asarray(params.input_kernel), 3, axis=1)
    for gate in inputs:  # LeCun: variance 1 / inputs, over 25,600 draws
        np.testing.assert_allclose(gate.std(), features**-0.5, rtol=0.03)
        np.testing.assert_allclose(gate.mean(), 0.0, atol=4 * features**-0.5 / gate.size**0.5)
    for kernels in (recurrent, inputs):  # each drawn independently
        assert np.abs(kernels[0] - kernels[1]).max() > 0.01
        assert np.abs(kernels[1] - kernels[2]).max() > 0.01
