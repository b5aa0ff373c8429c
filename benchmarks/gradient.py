"""Four ways to compute the recurrent actor's gradient: autodiff or custom, whole or in blocks."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from benchmarks.timing import best_seconds, peak_gflops
from ratiosym.learning.gru import GRUParams, _forward, flat_affine, gru
from ratiosym.learning.networks import Network, Size, dense, init_network
from ratiosym.learning.update import blocked_gradient

LENGTH, INPUTS, HIDDEN, OUTPUTS = 128, 21, 128, 5
ROWS = (32, 128, 512)
ROWS_PER_BLOCK = 16


def plain_gru(
    params: GRUParams, inputs: jax.Array, is_start: jax.Array, carry: jax.Array
) -> jax.Array:
    """The same forward pass with automatic differentiation."""
    projected = flat_affine(inputs, params.input_kernel, params.input_bias)
    retain = 1.0 - is_start.astype(inputs.dtype)[..., None]
    gates = jnp.split(projected, 3, axis=-1)
    return _forward(params.recurrent_kernel, params.candidate_bias, gates, retain, carry)[0]


def loss(
    memory: Callable[..., jax.Array], network: Network, block: tuple[jax.Array, ...]
) -> tuple[jax.Array, None]:
    inputs, is_start, carry = block
    hidden = jax.nn.relu(dense(network.torso, inputs))
    hidden = memory(network.memory, hidden, is_start, carry)
    return jnp.mean(dense(network.head, jax.nn.relu(dense(network.body, hidden))) ** 2), None


def whole(
    memory: Callable[..., jax.Array], network: Network, rows: tuple[jax.Array, ...]
) -> Network:
    return jax.grad(partial(loss, memory), has_aux=True)(network, rows)[0]


def blocked(
    memory: Callable[..., jax.Array], network: Network, rows: tuple[jax.Array, ...]
) -> jax.Array:
    def cut(x: jax.Array, axis: int) -> jax.Array:
        shape = (*x.shape[:axis], -1, min(ROWS_PER_BLOCK, x.shape[axis]), *x.shape[axis + 1 :])
        return jnp.moveaxis(x.reshape(shape), axis, 0)

    inputs, is_start, carry = rows
    return blocked_gradient(
        partial(loss, memory), network, (cut(inputs, 1), cut(is_start, 1), cut(carry, 0))
    )[1]


def on_devices(form: Callable[..., PyTree], num_devices: int) -> Callable[..., PyTree]:
    mesh = Mesh(np.array(jax.devices()[:num_devices]), ("rows",))

    def local(network: Network, rows: tuple[jax.Array, ...]) -> PyTree:
        return jax.lax.pmean(form(network, rows), "rows")

    specs = (P(), (P(None, "rows"), P(None, "rows"), P("rows")))
    return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False))


def main() -> None:
    network = init_network(jax.random.key(0), INPUTS, OUTPUTS, Size(HIDDEN), True, 0.01)
    peak = peak_gflops()
    print(
        f"matrix multiplication: {peak:.0f} GFLOP/s; forward and backward over {LENGTH} steps, "
        f"GFLOP/s (of peak)"
    )
    forms = {
        "plain autodiff": partial(whole, plain_gru),
        "own gradient": partial(whole, gru),
        "plain, blocks": partial(blocked, plain_gru),
        "own, blocks": partial(blocked, gru),
    }
    print(f"{'rows':>5} {'devices':>7}  " + "  ".join(f"{name:>16}" for name in forms))
    for num_rows in ROWS:
        work = 6 * num_rows * LENGTH * (INPUTS * HIDDEN + 7 * HIDDEN**2 + HIDDEN * OUTPUTS) / 1e9
        keys = jax.random.split(jax.random.key(1))
        rows = (
            jax.random.normal(keys[0], (LENGTH, num_rows, INPUTS)),
            jax.random.bernoulli(keys[1], 0.03, (LENGTH, num_rows)),
            jnp.zeros((num_rows, HIDDEN)),
        )
        for num_devices in dict.fromkeys((1, min(2, len(jax.devices())))):
            speeds = []
            for form in forms.values():
                function = on_devices(form, num_devices)
                speeds.append(work / best_seconds(partial(function, network, rows)))
            text = "  ".join(f"{s:8.0f} ({s / peak:4.0%}) " for s in speeds)
            print(f"{num_rows:5} {num_devices:7}  {text}", flush=True)
