"""The seven ratio objectives of the paper, equation by equation, and ratio diagnostics.

An objective combines a surrogate (what is maximised) with a rule for its two target ratios (where
the incentive to move ends):

    surrogate    clipped (MAPPO), quadratic (MASPO), barrier (MARS)
    targets      additive, additive_asymmetric, independent, reciprocal, mirrored

All surrogates take the same ``Bounds``, so two objectives with equal bounds differ only in their
geometry (the paper's "Ablation Fairness"). They are functions of the log-ratio
u = log r = log π_θ − log π_old (Eq. 1), return one value per sample and are to be maximised; taking
the mean and flipping the sign is left to the learner.

Everything here is elementwise and written against the array API: it accepts JAX, NumPy and PyTorch
arrays and returns the same kind. Importing this module does not import JAX.
"""

import difflib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_jax_array
from jaxtyping import Bool, Float, Num

from ratiosym.errors import InputError
from ratiosym.references import load_reference

# An array of any library; jaxtyping's Array would mean JAX's.
Array = Any
Scalar = Any  # a float, or a traced scalar that can change without recompilation


class Bounds(NamedTuple):
    """The two target ratios, 0 < lower < 1 < upper."""

    lower: Scalar  # for samples with a negative advantage
    upper: Scalar  # for all others


# ---------------------------------------------------------------------------------------- penalties


def psi_maspo(log_ratio: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Additive penalty ψ_MASPO(r) = (r − 1)² (Eq. 5), which stays below 1 as r → 0 (Eq. 6).

    ``expm1`` is avoided: its derivative is computed as expm1(u) + 1, which at u = −40 rounds to 0
    instead of e⁻⁴⁰.
    """
    xp = _namespace(log_ratio=log_ratio)
    return xp.square(xp.exp(log_ratio) - 1.0)


def psi_mars(log_ratio: Float[Array, "*b"]) -> Float[Array, "*b"]:
    """Symmetric penalty ψ_MARS(r) = r + 1/r − 2 (Eq. 7), which is unbounded as r → 0.

    It is the geometric mean of ψ_MASPO(r) and ψ_MASPO(1/r) (Eq. 17), so ψ(r) = ψ(1/r). It is
    computed in the equivalent form (2 sinh(u/2))²: nothing cancels near r = 1, and 1/r is never
    formed from an r that float32 has already rounded to zero.
    """
    xp = _namespace(log_ratio=log_ratio)
    return xp.square(2.0 * xp.sinh(0.5 * log_ratio))


def target_ratio(advantage: Float[Array, "*b"], bounds: Bounds) -> Float[Array, "*b"]:
    """Return each sample's target ratio: B_upper if Â ≥ 0, else B_lower (Eq. 40)."""
    xp = _namespace(advantage=advantage)
    lower, upper = _like(xp, advantage, bounds)
    return xp.where(advantage >= 0, upper, lower)


# --------------------------------------------------------------------------------------- surrogates


def clipped(
    log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"], bounds: Bounds
) -> Float[Array, "*b"]:
    """MAPPO's surrogate, with no gradient beyond the target in the improving direction (Eq. 4).

    L = min(r Â, clip(r, B_lower, B_upper) Â)                                   (Eq. 2)

    The paper's interval is [1 − ε, 1 + ε], or [1 − ε_lower, 1 + ε_upper] for asymmetric MAPPO.
    """
    xp = _namespace(log_ratio=log_ratio, advantage=advantage)
    r = xp.exp(_zero_without_advantage(log_ratio, advantage))
    lower, upper = _like(xp, r, bounds)
    return xp.minimum(r * advantage, xp.clip(r, lower, upper) * advantage)


def quadratic(
    log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"], bounds: Bounds
) -> Float[Array, "*b"]:
    """MASPO's surrogate, maximal at the target ratio and finite at r = 0.

    L = r Â − Â / (2 (r_target − 1)) · (r − 1)²                (Eq. 3; asymmetric MASPO)

    With r_target = 1 + sign(Â) ε, the weight is |Â| / 2ε, as in Eq. 3.
    """
    xp = _namespace(log_ratio=log_ratio, advantage=advantage)
    u = _zero_without_advantage(log_ratio, advantage)
    weight = advantage / (2.0 * (target_ratio(advantage, bounds) - 1.0))
    return xp.exp(u) * advantage - weight * psi_maspo(u)


def barrier(
    log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"], bounds: Bounds
) -> Float[Array, "*b"]:
    """MARS's surrogate, maximal at the target ratio and unbounded below as r → 0.

    L = r Â − α (r + 1/r − 2),    α = Â / (1 − r_target⁻²)                      (Eq. 12, Eq. 11)

    α > 0 for either sign of Â ≠ 0. The gradient in u is r Â − α (r − 1/r): it grows like α/r as
    r → 0 (Proposition 3.1) and vanishes only at the target (Proposition 3.2).
    """
    xp = _namespace(log_ratio=log_ratio, advantage=advantage)
    u = _zero_without_advantage(log_ratio, advantage)
    alpha = advantage / (1.0 - target_ratio(advantage, bounds) ** -2)
    return xp.exp(u) * advantage - alpha * psi_mars(u)


def _zero_without_advantage(
    log_ratio: Float[Array, "*b"], advantage: Float[Array, "*b"]
) -> Float[Array, "*b"]:
    """Return the log-ratio, set to 0 where Â = 0, so that value and gradient are 0 (appendix B.5).

    Multiplying by Â = 0 is not enough: an extreme log-ratio gives 0 · ∞ in the value or the
    gradient. With this, setting Â = 0 excludes a sample whatever its log-ratio.
    """
    xp = _namespace(log_ratio=log_ratio, advantage=advantage)
    return xp.where(advantage == 0, 0.0, log_ratio)


def _like(xp: Any, array: Array, bounds: Bounds) -> Bounds:
    """Check the bounds and convert them to scalars of the array's library, dtype and device."""
    if not (isinstance(bounds, tuple | list) and len(bounds) == 2):
        raise InputError(
            f"`bounds` is {bounds!r}; it must be a pair of target ratios, for example "
            f"Bounds(0.8, 1.2)."
        )
    place = {"device": array.device} if _is_tensor(array) else {}
    return Bounds(*(xp.asarray(bound, dtype=array.dtype, **place) for bound in _checked(*bounds)))


def _is_tensor(array: Array) -> bool:
    """Whether this is a PyTorch tensor.

    The cache of array-api-compat's own check makes torch.compile warn.
    """
    torch = sys.modules.get("torch")  # there can be no tensor without it
    return torch is not None and isinstance(array, torch.Tensor)


def _namespace(**arrays: Array) -> Any:
    """Return the array library of floating-point arguments of one library and one shape."""
    xp = _library(**arrays)
    for name, array in arrays.items():
        if not _is_floating(xp, array.dtype):
            raise InputError(f"`{name}` has the dtype {array.dtype}; it must be floating-point.")
    _check_shapes(**arrays)
    return xp


def _is_floating(xp: Any, dtype: Any) -> bool:
    if hasattr(dtype, "is_floating_point"):  # PyTorch, which has no isdtype
        return bool(dtype.is_floating_point)
    return bool(xp.isdtype(dtype, "real floating"))


def _library(**arrays: Array) -> Any:
    """Return the common array library.

    For PyTorch and NumPy this is the library itself: the functions used here follow the array API,
    and array-api-compat's wrappers take noticeably longer on small batches.
    """
    if all(_is_tensor(array) for array in arrays.values()):
        return sys.modules["torch"]
    if all(type(array) is np.ndarray for array in arrays.values()):
        return np
    try:
        if not all(hasattr(array, "dtype") for array in arrays.values()):
            raise TypeError  # array_namespace passes over plain numbers
        return array_namespace(*arrays.values())
    except TypeError:
        kinds = ", ".join(f"`{name}` is of type {_type_name(x)}" for name, x in arrays.items())
        raise InputError(f"{kinds}; they must be arrays of the same library.") from None


def _check_shapes(**arrays: Array) -> None:
    first, *others = (x.shape for x in arrays.values())
    if any(shape != first for shape in others):
        described = ", ".join(f"`{n}` has the shape {tuple(x.shape)}" for n, x in arrays.items())
        raise InputError(f"{described}; the shapes must be equal, with one entry per sample.")


def _type_name(thing: Any) -> str:
    library = type(thing).__module__.partition(".")[0]
    return type(thing).__name__ if library == "builtins" else f"{library}.{type(thing).__name__}"


# ---------------------------------------------------------------------------- the two target ratios


def _checked(lower: Scalar, upper: Scalar) -> Bounds:
    """Return the bounds, or raise if they do not enclose 1.

    Traced values cannot be checked, and tensors are not: that would wait for the device.
    """
    if _is_number(lower) and _is_number(upper) and not 0 < lower < 1 < upper < math.inf:
        raise InputError(
            f"The target ratios are {float(lower):g} and {float(upper):g}; they must be "
            f"finite and satisfy 0 < lower < 1 < upper, for example 0.8 and 1.25."
        )
    return Bounds(lower, upper)


def _is_number(value: Scalar) -> bool:
    return isinstance(value, Real) or (isinstance(value, np.ndarray) and value.ndim == 0)


def additive(epsilon: Scalar) -> Bounds:
    """MAPPO, MASPO: (1 − ε, 1 + ε)."""
    return _checked(1.0 - epsilon, 1.0 + epsilon)


def additive_asymmetric(epsilon_lower: Scalar, epsilon_upper: Scalar) -> Bounds:
    """Asymmetric MAPPO, asymmetric MASPO: (1 − ε_lower, 1 + ε_upper)."""
    return _checked(1.0 - epsilon_lower, 1.0 + epsilon_upper)


def independent(b_lower: Scalar, b_upper: Scalar) -> Bounds:
    """MARS: (B_lower, B_upper)."""
    return _checked(b_lower, b_upper)


def reciprocal(b: Scalar) -> Bounds:
    """Multiplicatively symmetric MARS: (1/b, b)."""
    return _checked(1.0 / b, b)


def mirrored(b: Scalar) -> Bounds:
    """Additively symmetric MARS: (2 − b, b), which is (1 − ε, 1 + ε) with ε = b − 1."""
    return _checked(2.0 - b, b)


# ----------------------------------------------------------------------------- the seven objectives

Surrogate = Callable[[Float[Array, "*b"], Float[Array, "*b"], Bounds], Float[Array, "*b"]]
Targets = Callable[..., Bounds]

# Minimum distance of a parameter from its limits. Weights divide by r_target − 1, and float32
# rounds a target within 6e-8 of 1 to exactly 1.
NEAREST = 1e-6


@dataclass(frozen=True)
class Parameter:
    """A parameter of an objective: a number strictly between ``low`` and ``high``."""

    name: str
    default: float
    low: float
    high: float
    search: tuple[float, ...]  # the values that tuning tries (appendix D.3.2)
    help: str = ""

    def check(self, value: float) -> None:
        """Raise ``InputError`` unless the value is a finite number within the limits."""
        is_finite = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not (is_finite and self.low + NEAREST <= value <= self.high - NEAREST):
            below = "" if self.high == math.inf else f" and below {self.high:g}"
            raise InputError(
                f"`{self.name}` is {value!r}; it must be a finite number above {self.low:g}{below} "
                f"(by at least {NEAREST}), for example {self.default:g}."
            )


@dataclass(frozen=True)
class Objective:
    """Complete definition of an objective, read by the command line, tuning and figures."""

    name: str
    title: str
    surrogate: Surrogate
    targets: Targets  # maps the parameters to the two target ratios
    parameters: tuple[Parameter, ...]
    colour: str = "#666666"  # in figures

    @property
    def defaults(self) -> dict[str, float]:
        """Default value of each parameter."""
        return {p.name: p.default for p in self.parameters}

    @property
    def search_space(self) -> dict[str, tuple[float, ...]]:
        """Values that tuning tries for each parameter."""
        return {p.name: p.search for p in self.parameters}

    def resolve(self, given: Mapping[str, float]) -> dict[str, float]:
        """Check the given parameters and fill in the defaults of the others."""
        known = self.defaults
        for name in given:
            if name not in known:
                raise InputError(
                    f"Objective '{self.name}' has no parameter `{name}`. It takes: {_call(known)}."
                )
        values = {**known, **given}
        for parameter in self.parameters:
            try:
                parameter.check(values[parameter.name])
            except InputError as error:
                raise InputError(f"Objective '{self.name}': {error}") from None
        return {name: float(value) for name, value in values.items()}

    def bounds(self, **parameters: float) -> Bounds:
        """Return the two target ratios; omitted parameters take their defaults."""
        return self.targets(**self.resolve(parameters))


def _call(parameters: Mapping[str, float]) -> str:
    return ", ".join(f"`{name}` ({value:g})" for name, value in parameters.items()) or "none"


# Search values: appendix D.3.2. Asymmetric MAPPO and MASPO search exactly the targets of MARS:
# 1 − ε_lower = B_lower and 1 + ε_upper = B_upper (the paper's "Ablation Fairness"). The defaults of
# MARS, MAPPO and MASPO were best on average over the tasks of the study cpu; those of the variants
# are as close to MARS's as their search values allow (decision 103).
_EPSILON = Parameter(
    "epsilon", 0.2, 0, 1, (0.05, 0.1, 0.2), "The targets are 1 - epsilon and 1 + epsilon."
)
_ASYMMETRIC = (
    Parameter("epsilon_lower", 0.5, 0, 1, (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
              "The lower target is 1 - epsilon_lower."),
    Parameter("epsilon_upper", 1.0, 0, math.inf, (0.05, 0.1, 0.2, 1.0, 3.0, 5.0, 7.0, 9.0),
              "The upper target is 1 + epsilon_upper."),
)  # fmt: skip
_INDEPENDENT = (
    Parameter("b_lower", 0.5, 0, 1, (0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1),
              "The contraction target B_lower, for samples with a negative advantage."),
    Parameter("b_upper", 2.0, 1, math.inf, (1.05, 1.1, 1.2, 2.0, 4.0, 6.0, 8.0, 10.0),
              "The expansion target B_upper, for all other samples."),
)  # fmt: skip
_B_SEARCH = (1.05, 1.1, 1.2, 1.5, 1.9)
_RECIPROCAL_B = Parameter("b", 1.9, 1, math.inf, _B_SEARCH, "The targets are 1/b and b.")
_MIRRORED_B = Parameter("b", 1.5, 1, 2, _B_SEARCH, "The targets are 2 - b and b.")

OBJECTIVES: dict[str, Objective] = {}


def register_objective(objective: Objective) -> Objective:
    """Register an objective under its name.

    The name is then accepted by ``ratiosym.train``, the command line, plans, tuning and figures. A
    name cannot be reused for a different objective.
    """
    if not isinstance(objective, Objective):
        raise InputError(
            f"register_objective got a {type(objective).__name__}; it needs a "
            f"ratiosym.objectives.Objective."
        )
    if OBJECTIVES.get(objective.name, objective) != objective:
        raise InputError(
            f"A different objective named '{objective.name}' already exists. Choose another name."
        )
    objective.resolve({})  # the defaults must be within their own limits
    OBJECTIVES[objective.name] = objective
    return objective


# fmt: off
for _objective in (
    Objective("mars", "MARS", barrier, independent, _INDEPENDENT, "#D55E00"),
    Objective("mappo", "MAPPO", clipped, additive, (_EPSILON,), "#0072B2"),
    Objective("maspo", "MASPO", quadratic, additive, (_EPSILON,), "#009E73"),
    Objective("mappo-asymmetric", "MAPPO (asymmetric)",
              clipped, additive_asymmetric, _ASYMMETRIC, "#56B4E9"),
    Objective("maspo-asymmetric", "MASPO (asymmetric)",
              quadratic, additive_asymmetric, _ASYMMETRIC, "#4D4D4D"),
    Objective("mars-multiplicative", "MARS (multiplicative)",
              barrier, reciprocal, (_RECIPROCAL_B,), "#CC79A7"),
    Objective("mars-additive", "MARS (additive)",
              barrier, mirrored, (_MIRRORED_B,), "#E69F00"),
):
    register_objective(_objective)
# fmt: on

BUILT_IN = frozenset(OBJECTIVES)  # available in every process


def get_objective(name: str) -> Objective:
    """Look up an objective: built in, registered, or ``package.module:OBJECTIVE``."""
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    if ":" in name:
        found = load_reference(name, "objective")
        if not isinstance(found, Objective):
            raise InputError(
                f"'{name}' is a {type(found).__name__}; it must be a ratiosym.objectives.Objective."
            )
        return found
    closest = difflib.get_close_matches(name.lower(), OBJECTIVES, n=1, cutoff=0.4)
    hint = f" Closest: '{closest[0]}'." if closest else ""
    raise InputError(
        f"Unknown objective '{name}'.{hint} Choose one of: {', '.join(OBJECTIVES)}; or name your "
        f"own as package.module:OBJECTIVE."
    )


# -------------------------------------------------------------------------------------- diagnostics

QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
_LARGEST = 88.0  # log-ratios are capped here: float32 overflows just above exp(88)


class RatioDiagnostics(NamedTuple):
    """Summary of how far the ratios of a batch have moved from 1."""

    minimum: Float[Array, ""]
    maximum: Float[Array, ""]
    quantiles: Float[Array, "levels"]  # at QUANTILES
    beyond_target: Float[Array, ""]  # fraction past their target in the improving direction
    approximate_kl: Float[Array, ""]  # mean of (r − 1) − log r, an estimate of KL(π_old ‖ π_θ)


def ratio_diagnostics(
    log_ratio: Float[Array, "*b"],
    advantage: Float[Array, "*b"],
    bounds: Bounds,
    weight: Num[Array, "*b"] | Bool[Array, "*b"] | None = None,
) -> RatioDiagnostics:
    """Summarise the ratios of a batch, without gradients.

    Samples with weight 0 are ignored; if none are left, the ratios are reported as 1 and the rest
    as 0. Quantiles interpolate linearly between samples.
    """
    xp = _namespace(log_ratio=log_ratio, advantage=advantage)
    if 0 in log_ratio.shape:
        raise InputError(
            f"`log_ratio` has the shape {tuple(log_ratio.shape)}; it must have at least one sample."
        )
    counts = None
    if weight is not None:
        _library(log_ratio=log_ratio, weight=weight)
        _check_shapes(log_ratio=log_ratio, weight=weight)
        counts = xp.reshape(weight, (-1,)) > 0
    u = xp.reshape(_without_gradient(log_ratio), (-1,))  # [N]
    u = xp.minimum(u, xp.full_like(u, _LARGEST))
    r = xp.exp(u)
    lower, upper = _like(xp, u, bounds)
    is_beyond = xp.where(xp.reshape(advantage, (-1,)) >= 0, r > upper, r < lower)
    return RatioDiagnostics(
        *_spread(xp, u, counts),
        beyond_target=_mean(xp, xp.asarray(is_beyond, dtype=u.dtype), counts),
        approximate_kl=_mean(xp, xp.expm1(u) - u, counts),
    )


def _spread(
    xp: Any, u: Float[Array, "N"], counts: Bool[Array, "N"] | None
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, "levels"]]:
    """Return the minimum, the maximum and the quantiles of the ratios that count."""
    if counts is None:
        r, last = xp.exp(_sorted(xp, u)), u.shape[0] - 1
        return r[0], r[last], _quantiles(xp, r, last)
    r = xp.exp(_sorted(xp, xp.where(counts, u, xp.full_like(u, _LARGEST))))  # ignored ones last
    num = _count(xp, counts)
    last = xp.maximum(num - 1, xp.zeros_like(num))
    none = xp.ones_like(r[0])
    return (
        xp.where(num > 0, r[0], none),
        xp.where(num > 0, r[xp.reshape(last, (1,))][0], none),
        xp.where(num > 0, _quantiles(xp, r, last), none),
    )


def _sorted(xp: Any, values: Float[Array, "N"]) -> Float[Array, "N"]:
    return values.sort().values if _is_tensor(values) else xp.sort(values, stable=False)


def _quantiles(xp: Any, r: Float[Array, "N"], last: Any) -> Float[Array, "levels"]:
    """Interpolate linearly between the sorted ratios, of which ``last`` is the last index."""
    place = {"device": r.device} if _is_tensor(r) else {}
    levels = xp.asarray(QUANTILES, dtype=r.dtype, **place)
    position = levels * (last if isinstance(last, int) else xp.asarray(last, dtype=r.dtype))
    below = xp.asarray(xp.floor(position), dtype=xp.int32)
    above = xp.where(below < last, below + 1, below)
    start = r[below]
    return start + (position - xp.asarray(below, dtype=r.dtype)) * (r[above] - start)


def _mean(xp: Any, values: Float[Array, "N"], counts: Bool[Array, "N"] | None) -> Float[Array, ""]:
    """Return the mean of the values that count, or 0 if there are none."""
    if counts is None:
        return xp.sum(values) / values.shape[0]
    num = _count(xp, counts)
    total = xp.sum(xp.where(counts, values, xp.zeros_like(values)))
    return total / xp.asarray(xp.maximum(num, xp.ones_like(num)), dtype=values.dtype)


def _count(xp: Any, counts: Bool[Array, "N"]) -> Num[Array, ""]:
    return xp.sum(xp.asarray(counts, dtype=xp.int32), dtype=xp.int32)


def _without_gradient(array: Array) -> Array:
    if _is_tensor(array):
        return array.detach()
    if is_jax_array(array):
        import jax

        return jax.lax.stop_gradient(array)
    return array
