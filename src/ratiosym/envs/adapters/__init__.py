"""Adapters that turn environments of other libraries into ours."""
