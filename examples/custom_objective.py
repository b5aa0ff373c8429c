"""A custom objective: a smooth penalty on the log-ratio instead of MARS's barrier.

    python examples/custom_objective.py
    ratiosym train mpe-spread-3ag --objective examples/custom_objective.py:LOG_QUADRATIC --width 0.7

An objective consists of a surrogate (what is maximised, per sample), a function from its parameters
to the two target ratios, and one ``Parameter`` record per parameter. The command line, tuning,
plans and figures read everything from this record.
"""

import math
import tempfile

from array_api_compat import array_namespace

import ratiosym
from ratiosym.objectives import Bounds, Objective, Parameter, target_ratio


def log_quadratic(log_ratio, advantage, bounds):
    """L = r A - c (log r)^2, with c such that the maximum over r is at the target ratio.

    dL/du = r A - 2 c u is zero at u* = log r_target for c = r_target A / (2 u*).
    """
    xp = array_namespace(log_ratio, advantage)
    target = target_ratio(advantage, bounds)
    weight = target * advantage / (2 * xp.log(target))
    return xp.exp(log_ratio) * advantage - weight * log_ratio**2


def around_one(width):
    """Return targets that are symmetric in the logarithm: exp(-width) and exp(width)."""
    return Bounds(math.exp(-width), math.exp(width))


LOG_QUADRATIC = ratiosym.register_objective(
    Objective(
        name="log-quadratic",
        title="log-quadratic",
        surrogate=log_quadratic,
        targets=around_one,
        parameters=(
            Parameter("width", 0.5, 0, 5, search=(0.1, 0.5, 1.0), help="Half the log-region."),
        ),
        colour="#882255",
    )
)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        (run,) = ratiosym.train(
            "mpe-spread-3ag", "log-quadratic", preset="smoke", width=0.7, out=f"{directory}/run"
        )
        print(f"{run.config.objective} {run.config.objective_parameters}")
        before, after = run.summary["first_return"], run.summary["final_return"]
        print(f"return {before:.1f} before training, {after:.1f} after")
