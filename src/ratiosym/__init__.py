"""MARS, Multi-Agent Ratio Symmetry: seven ratio objectives in one recurrent CTDE learner in JAX.

import ratiosym
env = ratiosym.make("mpe-spread-3ag")
runs = ratiosym.train("mpe-spread-3ag", objective="mars", out="runs/first", steps=200_000)
policy = ratiosym.load_policy("runs/first")
action, carry = policy.act(observation, policy.initial_carry(), key)
"""

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratiosym import objectives
    from ratiosym.api import train
    from ratiosym.envs.tasks import make
    from ratiosym.errors import InputError
    from ratiosym.learning.policy import Policy
    from ratiosym.runs.loop import resume
    from ratiosym.runs.trained import evaluate, load_policy

# Loaded when first used: 'import ratiosym' alone loads neither environments nor the learner.
_HOMES = {
    "InputError": "ratiosym.errors",
    "Policy": "ratiosym.learning.policy",
    "evaluate": "ratiosym.runs.trained",
    "load_policy": "ratiosym.runs.trained",
    "make": "ratiosym.envs.tasks",
    "objectives": "ratiosym",
    "resume": "ratiosym.runs.loop",
    "train": "ratiosym.api",
}

__version__ = version("ratiosym")
__all__ = [
    "InputError",
    "Policy",
    "evaluate",
    "load_policy",
    "make",
    "objectives",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ratiosym' has no attribute {name!r}")
    if _HOMES[name] == "ratiosym":
        return importlib.import_module(f"ratiosym.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
