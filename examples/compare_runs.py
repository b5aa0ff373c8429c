"""Compare two runs: their curves, their ratios and their evaluations.

    python examples/compare_runs.py                        # trains two tiny runs first
    python examples/compare_runs.py demo/mars demo/mappo   # compares two of your own

One seed each shows how they differ, not which is better. For that, run a study with several seeds
and let ``ratiosym report`` compute intervals.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import ratiosym
from ratiosym.report.runs import draw_runs
from ratiosym.runs.directory import find_runs


def describe(directory: Path) -> str:
    """Describe a run in one line, from its records and fresh episodes."""
    (run,) = find_runs(directory)
    episodes = ratiosym.evaluate(directory, num_episodes=64)
    error = np.std(episodes.returns) / np.sqrt(len(episodes.returns))
    table = run.training
    return (
        f"{run.config.objective:6} return {episodes.returns.mean():7.2f} ± {error:.2f}  "
        f"ratios {table['ratio_min'].min():.3f} to {table['ratio_max'].max():.2f}  "
        f"entropy {table['entropy'][-1]:.2f}"
    )


def main(directories: list[Path], picture: Path) -> None:
    """Print a line per run and draw all of them in one picture."""
    for directory in directories:
        print(describe(directory))
    for path in draw_runs(directories, picture):
        print(f"picture: {path}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main([Path(word) for word in sys.argv[1:]], Path("comparison.png"))
    else:
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            for objective in ("mars", "mappo"):
                ratiosym.train("paxmen-4a", objective, preset="smoke", out=place / objective)
            main([place / "mars", place / "mappo"], place / "comparison.png")
