"""Many runs, and one run kept on disk."""
