"""One run on disk."""
