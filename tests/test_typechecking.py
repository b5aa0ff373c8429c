"""Annotated shapes and dtypes are checked wherever the tests call the package."""

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from ratiosym.learning.distributions import log_tanh_slope
from ratiosym.objectives import psi_mars
from ratiosym.report.statistics import iqm
from tests.typechecking import unchecked


def test_a_wrong_dtype_is_refused_unless_told():
    with pytest.raises(TypeCheckError, match="parameter 'x'"):
        log_tanh_slope(jnp.arange(3))
    with unchecked():
        log_tanh_slope(jnp.arange(3))


@pytest.mark.parametrize("function", [psi_mars, iqm])
def test_something_that_is_no_array_is_refused(function):
    with pytest.raises(TypeCheckError):
        function([1.0, 2.0])


@pytest.mark.unchecked
def test_a_marked_test_is_not_checked():
    log_tanh_slope(jnp.arange(3))
