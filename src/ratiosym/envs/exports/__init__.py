"""Exports of our environments to JaxMARL, Jumanji and PettingZoo.

Each export is one module that needs one library. All of them accept a task's name (without agent
ids) or any environment that follows the ``Env`` contract.
"""

from importlib.util import find_spec

from ratiosym.envs.protocol import Env
from ratiosym.envs.registry import make
from ratiosym.errors import MissingLibraryError


def environment(env: str | Env) -> Env:
    """Return the environment itself, or make that of a task, without agent ids."""
    return make(env, agent_ids=False) if isinstance(env, str) else env


def agent_names(env: Env) -> list[str]:
    """Return the agents' names in libraries that need them."""
    return [f"agent_{index}" for index in range(env.spec.num_agents)]


def require(library: str) -> None:
    """Raise an error if a library is missing; our extra has the same name."""
    if find_spec(library) is None:
        raise MissingLibraryError(
            f"The export to {library} needs this library. Install it with: pip install "
            f"'ratiosym[{library}]'"
        )
