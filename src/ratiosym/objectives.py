"""The paper: seven ratio objectives, equation by equation, and the ratio diagnostics.

An objective is a surrogate (what is maximised) and a choice of its two target ratios (where it stops):

    surrogate    ``clipped`` (MAPPO), ``quadratic`` (MASPO), ``barrier`` (MARS)
    targets      ``additive``, ``additive_asymmetric``, ``independent``, ``reciprocal``, ``mirrored``

Every surrogate sees the same ``Bounds``, so two objectives with equal bounds differ in their geometry alone
(the paper's ablation-fairness rule). Surrogates are written in the log-ratio u = log r = log π_θ − log π_old
(Eq. 1), are to be maximised, and give one value for each sample: the mean and the sign are the learner's.
"""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ratiosym.types import InputError

Scalar = float | Float[Array, ""]


class Bounds(NamedTuple):
    """The two target ratios, 0 < lower < 1 < upper: floats, or traced scalars that vary without compiling."""

    lower: Scalar  # for samples with a negative advantage
    upper: Scalar  # for all others


# ---------------------------------------------------------------------------------------------- penalties


def psi_maspo(log_ratio: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """The additive penalty: ψ_MASPO(r) = (r − 1)²  (Eq. 5). It stays below 1 as r → 0 (Eq. 6).

    Not with ``expm1``, whose derivative is formed as expm1(u) + 1: at u = −40 that is 0, not e⁻⁴⁰.
    """
    return jnp.square(jnp.exp(log_ratio) - 1.0)


def psi_mars(log_ratio: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """The symmetric penalty: ψ_MARS(r) = r + 1/r − 2  (Eq. 7). It grows without limit as r → 0.

    It is the geometric mean of ψ_MASPO(r) and ψ_MASPO(1/r) (Eq. 17), so ψ(r) = ψ(1/r). Computed as
    (2 sinh(u/2))², the same number: nothing cancels near r = 1, and 1/r is never formed from an r that
    float32 has already rounded to zero.
    """
    return jnp.square(2.0 * jnp.sinh(0.5 * log_ratio))


def target_ratio(advantage: Float[Array, "*b"], bounds: Bounds) -> Float[Array, "*b"]:
    """The ratio a sample is steered to: B_upper if Â ≥ 0, else B_lower  (Eq. 40)."""
    return jnp.where(advantage >= 0, bounds.upper, bounds.lower)


# --------------------------------------------------------------------------------------------- surrogates


def clipped(log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"], bounds: Bounds) -> Float[Array, "*b"]:
    """MAPPO's surrogate: no gradient beyond the target in the improving direction (Eq. 4).

    L = min(r Â, clip(r, B_lower, B_upper) Â)                                   (Eq. 2)

    The paper's interval is [1 − ε, 1 + ε], or [1 − ε_lower, 1 + ε_upper] for asymmetric MAPPO.
    """
    r = jnp.exp(_at_rest_without_advantage(log_ratio, advantage))
    return jnp.minimum(r * advantage, jnp.clip(r, bounds.lower, bounds.upper) * advantage)


def quadratic(log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"], bounds: Bounds) -> Float[Array, "*b"]:
    """MASPO's surrogate: its maximum over r is at the target, and its value at r = 0 is finite.

    L = r Â − Â / (2 (r_target − 1)) · (r − 1)²                                 (Eq. 3; asymmetric MASPO)

    With r_target = 1 + sign(Â) ε the weight is |Â| / 2ε, as Eq. 3 writes it.
    """
    u = _at_rest_without_advantage(log_ratio, advantage)
    weight = advantage / (2.0 * (target_ratio(advantage, bounds) - 1.0))
    return jnp.exp(u) * advantage - weight * psi_maspo(u)


def barrier(log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"], bounds: Bounds) -> Float[Array, "*b"]:
    """MARS's surrogate: its maximum over r is at the target, and it falls without limit as r → 0.

    L = r Â − α (r + 1/r − 2),    α = Â / (1 − r_target⁻²)                      (Eq. 12, Eq. 11)

    α > 0 for either sign of Â ≠ 0. The gradient in u is r Â − α (r − 1/r): it grows like α/r as r → 0
    (Proposition 3.1) and is zero at the target alone (Proposition 3.2).
    """
    u = _at_rest_without_advantage(log_ratio, advantage)
    alpha = advantage / (1.0 - target_ratio(advantage, bounds) ** -2)
    return jnp.exp(u) * advantage - alpha * psi_mars(u)


def _at_rest_without_advantage(log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """The log-ratio, and 0 where Â = 0: such a sample has value 0 and gradient 0 (appendix B.5).

    Multiplying by Â = 0 alone would not do: at a far log-ratio it makes 0 · ∞, in the value or the gradient.
    So a sample is left out by giving it Â = 0, whatever its log-ratio.
    """
    return jnp.where(advantage == 0, 0.0, log_ratio)


# ------------------------------------------------------------------------------------ the two target ratios


def additive(epsilon: Scalar) -> Bounds:
    """MAPPO, MASPO: (1 − ε, 1 + ε)."""
    return Bounds(1.0 - epsilon, 1.0 + epsilon)


def additive_asymmetric(epsilon_lower: Scalar, epsilon_upper: Scalar) -> Bounds:
    """Asymmetric MAPPO, asymmetric MASPO: (1 − ε_lower, 1 + ε_upper)."""
    return Bounds(1.0 - epsilon_lower, 1.0 + epsilon_upper)


def independent(b_lower: Scalar, b_upper: Scalar) -> Bounds:
    """MARS: (B_lower, B_upper)."""
    return Bounds(b_lower, b_upper)


def reciprocal(b: Scalar) -> Bounds:
    """Multiplicatively symmetric MARS: (1/b, b)."""
    return Bounds(1.0 / b, b)


def mirrored(b: Scalar) -> Bounds:
    """Additively symmetric MARS: (2 − b, b), which is (1 − ε, 1 + ε) with ε = b − 1."""
    return Bounds(2.0 - b, b)


# ------------------------------------------------------------------------------------- the seven objectives

Surrogate = Callable[[Float[Array, "*b"], Float[Array, "*b"], Bounds], Float[Array, "*b"]]
Targets = Callable[..., Bounds]

# Between which numbers a parameter lies, so that 0 < lower < 1 < upper; and how near it may come to them,
# since a weight divides by r_target − 1 and float32 rounds a target nearer to 1 than 6e-8 to 1.
_NEAREST = 1e-6
_LIMITS: dict[Targets, dict[str, tuple[float, float]]] = {
    additive: {"epsilon": (0, 1)},
    additive_asymmetric: {"epsilon_lower": (0, 1), "epsilon_upper": (0, math.inf)},
    independent: {"b_lower": (0, 1), "b_upper": (1, math.inf)},
    reciprocal: {"b": (1, math.inf)},
    mirrored: {"b": (1, 2)},
}


@dataclass(frozen=True)
class Objective:
    """One of the paper's objectives: a surrogate and how its two target ratios are chosen."""

    name: str
    title: str
    surrogate: Surrogate
    targets: Targets
    parameters: dict[str, float] = field(hash=False)  # what ``targets`` takes, with defaults

    def bounds(self, **parameters: float) -> Bounds:
        """The target ratios for these parameters, checked on the host. All parameters are needed."""
        if parameters.keys() != self.parameters.keys():
            raise InputError(
                f"Objective '{self.name}' got the parameters {_list(parameters)}; it takes exactly "
                f"{_list(self.parameters)}. Give each of them once, for example {_call(self.parameters)}."
            )
        for name, value in parameters.items():
            low, high = _LIMITS[self.targets][name]
            is_finite = isinstance(value, Real) and math.isfinite(value)
            if not (is_finite and low + _NEAREST <= value <= high - _NEAREST):
                below = "" if high == math.inf else f" and below {high}"
                raise InputError(
                    f"Objective '{self.name}' got {name}={value!r}; it must be a finite number "
                    f"above {low}{below} (by {_NEAREST} or more). "
                    f"Choose one in that range, for example {_call(self.parameters)}."
                )
        return self.targets(**parameters)


def _list(names: dict[str, float]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _call(parameters: dict[str, float]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


# fmt: off
OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective("mars", "MARS", barrier, independent, {"b_lower": 0.8, "b_upper": 1.2}),
        Objective("mappo", "MAPPO", clipped, additive, {"epsilon": 0.2}),
        Objective("maspo", "MASPO", quadratic, additive, {"epsilon": 0.2}),
        Objective("mappo-asymmetric", "MAPPO (asymmetric)", clipped, additive_asymmetric,
                  {"epsilon_lower": 0.2, "epsilon_upper": 0.2}),
        Objective("maspo-asymmetric", "MASPO (asymmetric)", quadratic, additive_asymmetric,
                  {"epsilon_lower": 0.2, "epsilon_upper": 0.2}),
        Objective("mars-multiplicative", "MARS (multiplicative)", barrier, reciprocal, {"b": 1.2}),
        Objective("mars-additive", "MARS (additive)", barrier, mirrored, {"b": 1.2}),
    )
}
# fmt: on


def get_objective(name: str) -> Objective:
    """The objective of this name."""
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    closest = difflib.get_close_matches(name.lower(), OBJECTIVES, n=1, cutoff=0.4)
    hint = f" Closest: '{closest[0]}'." if closest else ""
    raise InputError(f"Unknown objective '{name}'.{hint} Choose one of: {', '.join(OBJECTIVES)}.")


# --------------------------------------------------------------------------------------------- diagnostics

QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
_LARGEST = 88.0  # log of the largest ratio told apart: float32 ends a little above exp(88)


class RatioDiagnostics(NamedTuple):
    """How far the ratios of a batch have moved."""

    minimum: Float[Array, ""]
    maximum: Float[Array, ""]
    quantiles: Float[Array, "levels"]  # at QUANTILES
    beyond_target: Float[Array, ""]  # share of samples past their target in the improving direction
    approximate_kl: Float[Array, ""]  # mean of (r − 1) − log r, which estimates KL(π_old ‖ π_θ)


def ratio_diagnostics(
    log_ratio: Float[Array, "*b"],
    advantage: Float[Array, "*b"],
    bounds: Bounds,
    weight: Float[Array, "*b"] | Bool[Array, "*b"] | None = None,
) -> RatioDiagnostics:
    """What the ratios of a batch look like. Carries no gradient.

    Samples of weight 0 count in nothing; with none left, the ratios read 1 and the rest 0. Quantiles
    interpolate linearly between samples.
    """
    u = jnp.minimum(jax.lax.stop_gradient(log_ratio), _LARGEST).ravel()  # [N]
    counts = jnp.ones(u.shape, bool) if weight is None else weight.ravel() > 0  # [N]
    num = counts.sum()

    r = jnp.exp(jnp.sort(jnp.where(counts, u, _LARGEST)))  # [N], those that count in front
    last = jnp.maximum(num - 1, 0)
    position = jnp.asarray(QUANTILES, r.dtype) * last  # [levels]
    below = jnp.floor(position).astype(last.dtype)
    above = jnp.minimum(below + 1, last)
    quantiles = r[below] + (position - below) * (r[above] - r[below])

    is_up = advantage.ravel() >= 0
    is_beyond = jnp.where(is_up, jnp.exp(u) > bounds.upper, jnp.exp(u) < bounds.lower)

    def mean(values: Float[Array, "N"]) -> Float[Array, ""]:
        return jnp.where(counts, values, 0.0).sum() / jnp.maximum(num, 1)

    return RatioDiagnostics(
        minimum=jnp.where(num > 0, r[0], 1.0),
        maximum=jnp.where(num > 0, r[last], 1.0),
        quantiles=jnp.where(num > 0, quantiles, 1.0),
        beyond_target=mean(is_beyond),
        approximate_kl=mean(jnp.expm1(u) - u),
    )
