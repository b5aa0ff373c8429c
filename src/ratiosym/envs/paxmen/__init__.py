"""PaxMen: a team leaves a hub by narrow corridors and eats the dots in the rooms at their ends."""

from ratiosym.envs.paxmen.env import PaxMen, paxmen
from ratiosym.envs.paxmen.layouts import HELD_OUT, LAYOUTS, Arm, Layout, validate

__all__ = ["HELD_OUT", "LAYOUTS", "Arm", "Layout", "PaxMen", "paxmen", "validate"]
