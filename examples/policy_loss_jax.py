"""A replacement for the clipped policy loss in the MAPPO of Mava and JaxMARL.

docs/how-to/other-trainers.md shows where to call it. Their actor losses already compute its
arguments.

Which targets to start with: the defaults, 0.5 and 2. Narrow ones (0.8 and 1.2) are slower and hold
the policy closer; also try 0.3 and 4.

Which diagnostics to watch: ``ratio_min`` and ``beyond_target``. Add them to the losses that
the trainer logs.
"""

from ratiosym.objectives import get_objective, ratio_diagnostics


def make_policy_loss(objective="mars", **parameters):
    """Return ``policy_loss(log_prob, old_log_prob, advantage) -> loss, diagnostics``."""
    chosen = get_objective(objective)
    bounds = chosen.bounds(**parameters)

    def policy_loss(log_prob, old_log_prob, advantage):
        log_ratio = log_prob - old_log_prob
        loss = -chosen.surrogate(log_ratio, advantage, bounds).mean()
        found = ratio_diagnostics(log_ratio, advantage, bounds)
        return loss, {
            "ratio_min": found.minimum,
            "ratio_max": found.maximum,
            "beyond_target": found.beyond_target,
            "approximate_kl": found.approximate_kl,
        }

    return policy_loss
