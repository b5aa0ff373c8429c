"""Speed benchmarks, reported as ratios measured in the same run: ``make bench``."""
