"""MARS, Multi-Agent Ratio Symmetry: seven ratio objectives in one recurrent CTDE learner in JAX.

import ratiosym
env = ratiosym.make("mpe-spread-3ag")
runs = ratiosym.train("mpe-spread-3ag", objective="mars", out="runs/first", steps=200_000)
policy = ratiosym.load_policy("runs/first")
action, carry = policy.act(observation, policy.initial_carry(), key)
"""

from importlib.metadata import version

from ratiosym import objectives
from ratiosym.envs.tasks import make
from ratiosym.experiments.run import evaluate, load_policy, resume, train
from ratiosym.learning.policy import Policy
from ratiosym.types import InputError

__version__ = version("ratiosym")
__all__ = ["InputError", "Policy", "evaluate", "load_policy", "make", "objectives", "resume", "train"]
