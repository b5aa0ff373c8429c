"""The objectives on PyTorch tensors, compared to the paper's formulas and NumPy, without JAX."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from ratiosym.errors import InputError
from ratiosym.objectives import (
    OBJECTIVES,
    Bounds,
    barrier,
    clipped,
    quadratic,
    ratio_diagnostics,
)
from tests.paper import CASES, every_case, grid, paper_gradients, paper_values

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11}
FAR = np.linspace(-40, 40, 161) + 1e-3  # off the kinks of MAPPO


def value_and_gradient(surrogate, u, A, bounds):
    u = u.clone().requires_grad_()
    value = surrogate(u, A, bounds)
    (gradient,) = torch.autograd.grad(value.sum(), u)
    return value.detach(), gradient


def tensors(dtype, log_ratios=FAR):
    return tuple(torch.tensor(x, dtype=dtype) for x in grid(log_ratios))


@pytest.mark.parametrize("dtype", DTYPES)
@every_case(CASES)
def test_values_and_gradients_are_the_papers(name, parameters, dtype):
    u, A = tensors(dtype)
    objective = OBJECTIVES[name]
    value, gradient = value_and_gradient(objective.surrogate, u, A, objective.bounds(**parameters))
    assert value.dtype == gradient.dtype == dtype
    exact_u, exact_A = u.double().numpy(), A.double().numpy()
    expected, size = paper_gradients(name, exact_u, exact_A, parameters)
    assert (np.abs(gradient.double().numpy() - expected) <= TOLERANCE[dtype] * size).all()
    expected = paper_values(name, exact_u, exact_A, parameters)
    size += np.abs(expected) + np.abs(exact_A)
    assert (np.abs(value.double().numpy() - expected) <= TOLERANCE[dtype] * size).all()


@pytest.mark.parametrize("dtype", DTYPES)
@every_case(CASES)
def test_values_and_diagnostics_are_numpys(name, parameters, dtype):
    u, A = tensors(dtype)
    objective = OBJECTIVES[name]
    bounds = objective.bounds(**parameters)
    value = objective.surrogate(u, A, bounds)
    assert isinstance(value, torch.Tensor)
    rtol = 2e-5 if dtype == torch.float32 else 1e-13
    theirs = objective.surrogate(u.numpy(), A.numpy(), bounds)
    assert theirs.dtype == value.numpy().dtype
    size = paper_gradients(name, u.numpy(), A.numpy(), parameters)[1] + np.abs(theirs) + 1
    assert (np.abs(value.numpy() - theirs) <= rtol * size).all()
    ours = ratio_diagnostics(u, A, bounds)
    theirs = ratio_diagnostics(u.numpy(), A.numpy(), bounds)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one.numpy(), other, rtol=rtol)


@every_case(CASES)
def test_autograd_is_the_finite_difference(name, parameters):
    objective = OBJECTIVES[name]
    u, A = tensors(torch.float64, np.linspace(-3, 3, 13) + 1e-3)
    bounds = objective.bounds(**parameters)
    assert torch.autograd.gradcheck(lambda x: objective.surrogate(x, A, bounds), u.requires_grad_())


@every_case(CASES[::3])
def test_without_advantage_there_is_no_value_and_no_gradient(name, parameters):
    u = torch.tensor([0.0, -40.0, 40.0, 120.0, -120.0, torch.inf, -torch.inf, torch.nan])
    bounds = OBJECTIVES[name].bounds(**parameters)
    value, gradient = value_and_gradient(OBJECTIVES[name].surrogate, u, torch.zeros_like(u), bounds)
    assert (value == 0).all()
    assert (gradient == 0).all()


@pytest.mark.parametrize("weight", [None, torch.bool, torch.float32])
def test_diagnostics_of_masked_samples(weight):
    rng = np.random.default_rng(0)
    u, A = rng.normal(0, 0.3, (2, 7, 5, 3)).astype(np.float32)
    counts = None if weight is None else rng.random(u.shape) < 0.6
    bounds = Bounds(0.8, 1.3)
    found = ratio_diagnostics(
        torch.tensor(u, requires_grad=True),
        torch.tensor(A),
        bounds,
        None if weight is None else torch.tensor(counts).to(weight),
    )
    expected = ratio_diagnostics(u, A, bounds, counts)
    for one, other in zip(found, expected, strict=True):
        assert not one.requires_grad
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, "numbers") for name in sorted(OBJECTIVES)] + [("mars", "tensors")]
)
def test_compiles_into_one_graph_without_a_warning(name, kind):
    """The graph is traced and differentiated as for any backend, without a C++ compiler."""
    torch._dynamo.reset()
    objective = OBJECTIVES[name]
    u, A = tensors(torch.float32)
    bounds = objective.bounds()
    if kind == "tensors":
        bounds = Bounds(*(torch.tensor(bound) for bound in bounds))

    def loss(u, A, bounds):
        return objective.surrogate(u, A, bounds)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        u.requires_grad_()
        value = compiled(u, A, bounds)
        (gradient,) = torch.autograd.grad(value.sum(), u)
    expected, expected_gradient = value_and_gradient(objective.surrogate, u.detach(), A, bounds)
    torch.testing.assert_close(value.detach(), expected)
    torch.testing.assert_close(gradient, expected_gradient)


def test_diagnostics_compile_into_one_graph_without_a_warning():
    torch._dynamo.reset()
    u, A = tensors(torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = torch.compile(ratio_diagnostics, fullgraph=True, backend="aot_eager")(
            u, A, Bounds(0.8, 1.2), A > -1
        )
    torch.testing.assert_close(found, ratio_diagnostics(u, A, Bounds(0.8, 1.2), A > -1))


def test_compiles_to_machine_code():
    """PyTorch's default backend, which generates C++ and is slow."""
    torch._dynamo.reset()
    u, A = tensors(torch.float32)
    bounds = Bounds(0.5, 2.0)
    compiled = torch.compile(lambda u: barrier(u, A, bounds), fullgraph=True)
    torch.testing.assert_close(compiled(u), barrier(u, A, bounds))


U, ONES = torch.zeros(4, 1), torch.ones(4, 1)
WRONG_TENSORS = {
    "NumPy": (
        U,
        np.ones((4, 1)),
        r"`log_ratio` is of type torch\.Tensor, `advantage` is of type numpy\.ndarray; they must "
        r"be arrays of the same library\.",
    ),
    "integers": (U, ONES.int(), r"`advantage` has the dtype torch\.int32; it must be float"),
    "booleans": (U > 0, ONES, r"`log_ratio` has the dtype torch\.bool; it must be float"),
    "shapes": (
        U,
        ONES[:, 0],
        r"`log_ratio` has the shape \(4, 1\), `advantage` has the shape \(4,\); the "
        r"shapes must be equal",
    ),
}


@pytest.mark.parametrize("surrogate", [clipped, quadratic, barrier, ratio_diagnostics])
@pytest.mark.parametrize("case", WRONG_TENSORS)
def test_wrong_tensors_are_refused_in_one_sentence(surrogate, case):
    log_ratio, advantage, message = WRONG_TENSORS[case]
    with pytest.raises(InputError, match=message) as error:
        surrogate(log_ratio, advantage, Bounds(0.8, 1.2))
    assert "\n" not in str(error.value)


def test_bounds_on_the_wrong_side_of_one_are_refused():
    with pytest.raises(
        InputError, match=r"1\.2 and 0\.8; they must be finite and satisfy 0 < lower < 1 < upper"
    ):
        barrier(U, ONES, Bounds(1.2, 0.8))
    with pytest.raises(InputError, match=r"1\.2 and 0\.8; they must be finite"):
        barrier(U.numpy(), ONES.numpy(), Bounds(np.array(1.2), np.array(0.8)))
    with pytest.raises(InputError, match=r"`b_upper` is 0\.9; it must be a finite number above 1"):
        OBJECTIVES["mars"].bounds(b_upper=0.9)


@pytest.mark.parametrize("bounds", [0.2, (0.8,), (0.8, 1.0, 1.2)])
def test_bounds_must_be_a_pair(bounds):
    with pytest.raises(InputError, match=r"`bounds` is .*; it must be a pair of target ratios"):
        barrier(U, ONES, bounds)


@pytest.mark.parametrize("kind", [torch.Tensor, np.asarray])
def test_diagnostics_of_an_empty_batch_are_refused(kind):
    with pytest.raises(InputError, match=r"the shape \(0, 1\); it must have at least one sample"):
        ratio_diagnostics(kind(U[:0]), kind(ONES[:0]), Bounds(0.8, 1.2))


def test_numpy_alone_is_enough():
    """For NumPy arrays, neither JAX (not installed here) nor PyTorch is imported."""
    code = """
import sys
import numpy as np
from ratiosym.objectives import OBJECTIVES, ratio_diagnostics
mars = OBJECTIVES["mars"]
u, A = np.array([0.1, -0.2]), np.array([1.0, -1.0])
assert mars.surrogate(u, A, mars.bounds()).shape == (2,)
assert ratio_diagnostics(u, A, mars.bounds()).maximum > 1
sys.exit(bool({"jax", "torch"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
