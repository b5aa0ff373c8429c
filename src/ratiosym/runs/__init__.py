"""Runs on disk: training, recording, checkpoints and resuming."""
