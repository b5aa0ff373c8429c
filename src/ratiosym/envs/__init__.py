"""Environments: the contract, wrappers, the task table, adapters and exports."""
