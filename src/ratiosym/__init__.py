"""MARS, Multi-Agent Ratio Symmetry: seven ratio objectives in one recurrent CTDE learner in JAX.

import ratiosym
env = ratiosym.make("mpe-spread-3ag")
runs = ratiosym.train("mpe-spread-3ag", objective="mars", out="runs/first", steps=200_000)
policy = ratiosym.load_policy("runs/first")
action, carry = policy.act(observation, policy.initial_carry(), key)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ratiosym import objectives
    from ratiosym.api import branch, render, train
    from ratiosym.envs.protocol import DrawableEnv, Env, check_env
    from ratiosym.envs.registry import make, register_task, tasks
    from ratiosym.errors import InputError
    from ratiosym.learning.config import RunConfig
    from ratiosym.learning.policy import Policy
    from ratiosym.objectives import register_objective
    from ratiosym.runs.loop import resume
    from ratiosym.runs.trained import evaluate, load_policy
    from ratiosym.types import Continuous, Discrete, EnvSpec, Observation, Step

    __version__: str

# Loaded on first use: 'import ratiosym' alone loads neither environments nor the learner.
_HOMES = {
    "Continuous": "ratiosym.types",
    "Discrete": "ratiosym.types",
    "DrawableEnv": "ratiosym.envs.protocol",
    "Env": "ratiosym.envs.protocol",
    "EnvSpec": "ratiosym.types",
    "InputError": "ratiosym.errors",
    "Observation": "ratiosym.types",
    "Policy": "ratiosym.learning.policy",
    "RunConfig": "ratiosym.learning.config",
    "Step": "ratiosym.types",
    "branch": "ratiosym.api",
    "check_env": "ratiosym.envs.protocol",
    "evaluate": "ratiosym.runs.trained",
    "load_policy": "ratiosym.runs.trained",
    "make": "ratiosym.envs.registry",
    "objectives": "ratiosym",
    "register_objective": "ratiosym.objectives",
    "register_task": "ratiosym.envs.registry",
    "render": "ratiosym.api",
    "resume": "ratiosym.runs.loop",
    "tasks": "ratiosym.envs.registry",
    "train": "ratiosym.api",
}

__all__ = [
    "Continuous",
    "Discrete",
    "DrawableEnv",
    "Env",
    "EnvSpec",
    "InputError",
    "Observation",
    "Policy",
    "RunConfig",
    "Step",
    "branch",
    "check_env",
    "evaluate",
    "load_policy",
    "make",
    "objectives",
    "register_objective",
    "register_task",
    "render",
    "resume",
    "tasks",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("ratiosym")
    if name not in _HOMES:
        raise AttributeError(f"module 'ratiosym' has no attribute {name!r}")
    if _HOMES[name] == "ratiosym":
        return importlib.import_module(f"ratiosym.{name}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from ratiosym.errors import missing_library

        raise missing_library(error) or error from None


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
