"""State of an engagement, with our aircraft first, then the opponents'."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, Int

from ratiosym.envs.aerojax.combat import ALIVE, Locks
from ratiosym.envs.aerojax.dynamics import Flight


class AeroState(NamedTuple):
    """N = 2 n aircraft."""

    flight: Flight  # [N]; the dead stay where they died
    health: Float[Array, "N"]  # 1 to 0
    fate: Int[Array, "N"]  # ALIVE, or the cause of its loss
    locks: Locks  # [2, n]
    skill: Float[Array, "n"]  # of the opponents
    time: Int[Array, ""]  # decisions taken

    @property
    def is_alive(self) -> Bool[Array, "N"]:
        """Which aircraft are still flying."""
        return self.fate == ALIVE
