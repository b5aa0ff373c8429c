"""A tracker of your own: one line of JSON per evaluation, for whatever reads the output.

From the repository's root:

    ratiosym train mpe-spread-3ag --preset smoke --track examples/custom_tracker.py:JsonLines

or from Python: ``ratiosym.train(..., track=["examples/custom_tracker.py:JsonLines"])``.
"""

import json


class JsonLines:
    """Appends to ``evaluations.jsonl`` in the run's directory. Each seed has a tracker of its
    own.
    """

    def begin(self, run):
        """A new run, or one that is resumed: ``run.first_step`` says where its rows begin."""
        self.path = run.directory / "evaluations.jsonl"
        self.name = f"{run.config.task} {run.config.objective} seed {run.config.seed}"

    def log(self, table, row):
        """``table`` is "training" (one row per update) or "evaluation"."""
        if table == "evaluation":
            values = {"run": self.name, "steps": row["steps"], "return": row["mean_return"]}
            with open(self.path, "a") as file:
                file.write(json.dumps(values) + "\n")

    def end(self, summary):
        """``summary`` is None where the run was interrupted."""
