"""Our environments for other people's code: as environments of JaxMARL, Jumanji and PettingZoo.

Each export is one module that needs one library. All three work for anything that keeps the ``Env``
contract, and take a task's name or an environment; by name, without agent ids.
"""

from importlib.util import find_spec

from ratiosym.envs.protocol import Env
from ratiosym.envs.registry import make
from ratiosym.errors import MissingLibraryError


def environment(env: str | Env) -> Env:
    """The environment itself, or that of a task without agent ids."""
    return make(env, agent_ids=False) if isinstance(env, str) else env


def agent_names(env: Env) -> list[str]:
    """What an agent is called where agents have names."""
    return [f"agent_{index}" for index in range(env.spec.num_agents)]


def require(library: str) -> None:
    """Say how to install an export's library, after which our extra is named, where it is
    missing.
    """
    if find_spec(library) is None:
        raise MissingLibraryError(
            f"The export to {library} needs that library. Install it with: pip install "
            f"'ratiosym[{library}]'"
        )
