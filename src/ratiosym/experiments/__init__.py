"""Many runs: presets and plans, the jobs that carry them out, studies and tuning."""
