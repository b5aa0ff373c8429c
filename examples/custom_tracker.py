"""A custom tracker: one line of JSON per evaluation, for other programs to read.

From the repository's root:

    ratiosym train mpe-spread-3ag --preset smoke --track examples/custom_tracker.py:JsonLines

or from Python: ``ratiosym.train(..., track=["examples/custom_tracker.py:JsonLines"])``.
"""

import json


class JsonLines:
    """Append to ``evaluations.jsonl`` in the run's directory. Each seed has its own tracker."""

    def begin(self, run):
        """Begin a new or resumed run, whose rows start at ``run.first_step``."""
        self.path = run.directory / "evaluations.jsonl"
        self.name = f"{run.config.task} {run.config.objective} seed {run.config.seed}"

    def log(self, table, row):
        """Log a row. ``table`` is "training" (one row per update) or "evaluation"."""
        if table == "evaluation":
            values = {"run": self.name, "steps": row["steps"], "return": row["mean_return"]}
            with open(self.path, "a") as file:
                file.write(json.dumps(values) + "\n")

    def end(self, summary):
        """End the run. ``summary`` is None if it was interrupted."""
