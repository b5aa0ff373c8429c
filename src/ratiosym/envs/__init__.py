"""What policies are learned on: the environment contract, its wrappers, the task table and the
adapters.
"""
