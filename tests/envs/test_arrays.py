"""Functions of arrays whose batch is last give the same under ``vmap`` as one by one."""

import jax
import jax.numpy as jnp
import numpy as np

from ratiosym.envs.arrays import batch_last


def with_batch_last(key, table, scale):
    """Use a trailing batch axis: [E], [N, 3, E], [E]."""
    noise = jax.vmap(jax.random.uniform)(key)
    assert noise.shape == table.shape[2:] == scale.shape
    return {"scaled": table * scale[None, None], "total": table.sum(axis=(0, 1)) + noise}


def inputs(*shape):
    key = jax.random.split(jax.random.key(0), shape)
    table = jax.random.normal(jax.random.key(1), (*shape, 4, 3))
    return key, table, jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)


def one_by_one(key, table, scale):
    return {"scaled": table * scale, "total": table.sum() + jax.random.uniform(key)}


def same(one, other):
    for name in ("scaled", "total"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6)


def test_batches_of_any_depth_are_their_rows():
    function = batch_last(with_batch_last)
    for shape in [(), (5,), (2, 5)]:
        ours, theirs = function, one_by_one
        for _ in shape:
            ours, theirs = jax.vmap(ours), jax.vmap(theirs)
        same(jax.jit(ours)(*inputs(*shape)), theirs(*inputs(*shape)))


def test_an_argument_may_be_shared_by_the_batch():
    key, table, scale = inputs(5)
    function = jax.vmap(batch_last(with_batch_last), in_axes=(0, None, 0))
    shared = jnp.broadcast_to(table[0], table.shape)
    same(function(key, table[0], scale), jax.vmap(one_by_one)(key, shared, scale))
