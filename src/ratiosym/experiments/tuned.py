"""Settings found by ``ratiosym tune``, by task and objective: preset ``cpu`` begins with them (docs/tuning.md).

Written by ``python -m ratiosym.experiments.ship BEST.json ...``; not by hand.
"""

from typing import Any

# fmt: off
TUNED: dict[str, dict[str, dict[str, Any]]] = {}
