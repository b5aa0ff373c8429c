"""Device mesh over seeds and groups of the update batch, and the placement of arrays on it.

Devices are assigned to whole seeds first, then to whole groups; the seeds of one device are
vmapped.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree

from ratiosym.errors import InputError


def make_mesh(num_seeds: int, num_groups: int, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Distribute seeds over devices first, then groups. Left-over devices stay idle."""
    devices = list(jax.devices() if devices is None else devices)
    seed_ways = largest_divisor(num_seeds, len(devices))
    group_ways = largest_divisor(num_groups, len(devices) // seed_ways)
    num_used = seed_ways * group_ways
    if jax.process_count() > 1 and num_used != len(devices):
        raise InputError(
            f"{jax.process_count()} processes have {len(devices)} devices, but {num_seeds} seeds "
            f"with {num_groups} groups each can use only {num_used} of them. Choose `num_seeds` or "
            f"`update_batch_size` so that seeds x groups is a multiple of {len(devices)}."
        )
    return Mesh(np.array(devices[:num_used]).reshape(seed_ways, group_ways), ("seed", "group"))


def largest_divisor(number: int, limit: int) -> int:
    """Return the largest divisor of ``number`` that is at most ``limit``."""
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)


def spread(
    mesh: Mesh, function: Callable[..., PyTree], in_specs: Any, out_specs: Any
) -> Callable[..., PyTree]:
    """Map a function of one seed and its local groups, [G, ...], over all seeds and devices."""

    def local(*arguments: PyTree) -> PyTree:
        batched = [i for i, spec in enumerate(in_specs) if spec != P()]
        axes = [0 if i in batched else None for i in range(len(arguments))]
        num_seeds = jax.tree.leaves(arguments[batched[0]])[0].shape[0]
        if num_seeds > 1:
            return jax.vmap(function, in_axes=axes)(*arguments)
        # vmap over a single seed would only slow down the matrix products.
        one = [
            jax.tree.map(lambda x: x[0], a) if i in batched else a for i, a in enumerate(arguments)
        ]
        return jax.tree.map(lambda x: x[None], function(*one))

    return jax.shard_map(local, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def place(mesh: Mesh, tree: PyTree, specs: PyTree) -> PyTree:
    """Place arrays that are complete on this process. ``specs`` is a tree prefix of ``tree``."""

    def put(leaf: Array | np.ndarray, sharding: NamedSharding) -> Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(put(jax.random.key_data(leaf), sharding))
        host = np.asarray(leaf)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    return jax.tree.map(put, tree, shardings(mesh, tree, specs))


def shardings(mesh: Mesh, tree: PyTree, specs: PyTree) -> PyTree:
    """Return the sharding of each leaf."""
    return jax.tree.map(
        lambda spec, part: jax.tree.map(lambda _: NamedSharding(mesh, spec), part),
        specs,
        tree,
        is_leaf=lambda x: isinstance(x, P),
    )


def to_host(tree: PyTree) -> PyTree:
    """Convert to NumPy arrays, complete on every process."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        return multihost_utils.process_allgather(tree, tiled=True)
    return jax.device_get(tree)
