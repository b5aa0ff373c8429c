"""AeroJAX: 3D air combat, following the paper's appendix (``docs/environments/aerojax.md``)."""

from ratiosym.envs.aerojax.config import PRESETS, TYPES, Airframe, Cone, Config
from ratiosym.envs.aerojax.env import AeroJax, dogfight
from ratiosym.envs.aerojax.render import acmi

__all__ = ["PRESETS", "TYPES", "AeroJax", "Airframe", "Cone", "Config", "acmi", "dogfight"]
