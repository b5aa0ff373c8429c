"""The policy loss for the MAPPO of Mava or JaxMARL: one function in place of their clipped one.

docs/how-to/other-trainers.md shows where it is called. It takes what their actor losses already
have.

Which targets to begin with: MARS's defaults, 0.8 and 1.2, are as wide as the clipping interval of
0.2 that both use. Then widen the upper one (2, 4), then lower the lower one (0.5, 0.3).

Which diagnostic to look at: ``ratio_min`` and ``beyond_target``. Both trainers log what the actor
loss returns beside the loss.
"""

from ratiosym.objectives import get_objective, ratio_diagnostics


def make_policy_loss(objective="mars", **parameters):
    """``policy_loss(log_prob, old_log_prob, advantage)`` gives the loss and its diagnostics."""
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
