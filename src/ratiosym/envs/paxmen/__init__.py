"""PaxMen: a team leaves a hub through narrow corridors to eat the dots in the rooms beyond."""

from ratiosym.envs.paxmen.env import PaxMen, paxmen
from ratiosym.envs.paxmen.layouts import HELD_OUT, LAYOUTS, Arm, Layout, validate

__all__ = ["HELD_OUT", "LAYOUTS", "Arm", "Layout", "PaxMen", "paxmen", "validate"]
