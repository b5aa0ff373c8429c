"""Adapters over jaxmarl's environments: SMAX, MPE and JaxNav.

The library speaks in dicts keyed by agent name; here every array is stacked once, in the library's
agent order. Its ``step`` computes a whole reset each time and throws the episode's last observation
away, so the adapters call ``step_env``. Its calls run with rank promotion allowed, whatever the
user has set.

A further environment is a further module: an adapter class and its factory, built on ``library``.
"""

from ratiosym.envs.adapters.jaxmarl.jaxnav import jaxnav
from ratiosym.envs.adapters.jaxmarl.mpe import mpe_spread
from ratiosym.envs.adapters.jaxmarl.smax import smax

__all__ = ["jaxnav", "mpe_spread", "smax"]
