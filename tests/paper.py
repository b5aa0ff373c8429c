"""The paper's formulas in float64, as functions of one ratio r and advantage A.

They only need NumPy, and are the reference for the tests of all array libraries.
"""

import numpy as np
import pytest


def paper_mars(r, A, B_lower, B_upper):
    """Equations 11 and 12."""
    r_target = B_upper if A >= 0 else B_lower
    alpha = A / (1 - r_target ** (-2))
    return r * A - alpha * (r + 1 / r - 2)


def paper_mars_gradient(r, A, B_lower, B_upper):
    """Equation 10, and the size of its terms."""
    alpha = A / (1 - B_upper**-2) if A >= 0 else A / (1 - B_lower**-2)
    return A - alpha * (1 - 1 / r**2), abs(A) + abs(alpha * (1 - 1 / r**2))


def paper_mappo(r, A, lower, upper):
    """Equation 2."""
    return min(r * A, np.clip(r, lower, upper) * A)


def paper_mappo_gradient(r, A, lower, upper):
    """Equation 4, its |r − 1| < ε written as lower < r < upper for the asymmetric interval."""
    gradient = A if lower < r < upper or np.sign(A) * (r - 1) < 0 else 0.0
    return gradient, abs(A)


def paper_maspo(r, A, epsilon):
    """Equation 3."""
    return r * A - abs(A) / (2 * epsilon) * (r - 1) ** 2


def paper_maspo_asymmetric(r, A, epsilon_lower, epsilon_upper):
    """Appendix, asymmetric MASPO."""
    r_target = 1 + epsilon_upper if A >= 0 else 1 - epsilon_lower
    return r * A - A / (2 * (r_target - 1)) * (r - 1) ** 2


def paper_maspo_gradient(r, A, epsilon_lower, epsilon_upper):
    epsilon = epsilon_upper if A >= 0 else epsilon_lower
    return A - abs(A) / epsilon * (r - 1), abs(A) + abs(A / epsilon * (r - 1))


PAPER = {
    "mars": lambda r, A, b_lower, b_upper: paper_mars(r, A, b_lower, b_upper),
    "mars-multiplicative": lambda r, A, b: paper_mars(r, A, 1 / b, b),
    "mars-additive": lambda r, A, b: paper_mars(r, A, 1 - (b - 1), 1 + (b - 1)),
    "mappo": lambda r, A, epsilon: paper_mappo(r, A, 1 - epsilon, 1 + epsilon),
    "mappo-asymmetric": lambda r, A, epsilon_lower, epsilon_upper: paper_mappo(
        r, A, 1 - epsilon_lower, 1 + epsilon_upper
    ),
    "maspo": lambda r, A, epsilon: paper_maspo(r, A, epsilon),
    "maspo-asymmetric": lambda r, A, epsilon_lower, epsilon_upper: paper_maspo_asymmetric(
        r, A, epsilon_lower, epsilon_upper
    ),
}
PAPER_GRADIENT = {
    "mars": lambda r, A, b_lower, b_upper: paper_mars_gradient(r, A, b_lower, b_upper),
    "mars-multiplicative": lambda r, A, b: paper_mars_gradient(r, A, 1 / b, b),
    "mars-additive": lambda r, A, b: paper_mars_gradient(r, A, 2 - b, b),
    "mappo": lambda r, A, epsilon: paper_mappo_gradient(r, A, 1 - epsilon, 1 + epsilon),
    "mappo-asymmetric": lambda r, A, epsilon_lower, epsilon_upper: paper_mappo_gradient(
        r, A, 1 - epsilon_lower, 1 + epsilon_upper
    ),
    "maspo": lambda r, A, epsilon: paper_maspo_gradient(r, A, epsilon, epsilon),
    "maspo-asymmetric": paper_maspo_gradient,
}
# The narrowest and widest targets that the paper searches, and one in between.
SETTINGS = {
    "mars": [{"b_lower": a, "b_upper": b} for a, b in ((0.95, 1.05), (0.5, 1.2), (0.1, 10.0))],
    "mars-multiplicative": [{"b": b} for b in (1.05, 1.2, 1.9)],
    "mars-additive": [{"b": b} for b in (1.05, 1.2, 1.9)],
    "mappo": [{"epsilon": e} for e in (0.05, 0.1, 0.2)],
    "maspo": [{"epsilon": e} for e in (0.05, 0.1, 0.2)],
} | {
    name: [
        {"epsilon_lower": a, "epsilon_upper": b} for a, b in ((0.05, 0.05), (0.5, 0.2), (0.9, 9.0))
    ]
    for name in ("mappo-asymmetric", "maspo-asymmetric")
}
CASES = [(name, parameters) for name in SETTINGS for parameters in SETTINGS[name]]


def case_id(value):
    return value if isinstance(value, str) else "-".join(str(v) for v in value.values())


def every_case(cases):
    return pytest.mark.parametrize(("name", "parameters"), cases, ids=case_id)


def grid(log_ratios, advantages=(1.0, -1.0, 2.5, -0.3)):
    u, A = np.meshgrid(np.asarray(log_ratios, np.float64), np.asarray(advantages, np.float64))
    return u, A


def paper_values(name, u, A, parameters):
    """Return the surrogate of each sample."""
    return np.vectorize(lambda r, a: PAPER[name](r, a, **parameters))(np.exp(u), A)


def paper_gradients(name, u, A, parameters):
    """Return the derivative of each sample's surrogate in log r, and the size of its terms."""
    r = np.exp(u)
    slope, size = np.vectorize(lambda r, a: PAPER_GRADIENT[name](r, a, **parameters))(r, A)
    return r * slope, r * size
