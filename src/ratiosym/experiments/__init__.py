"""Experiments with many runs: presets, plans, jobs, studies and tuning."""
