"""Adapters for jaxmarl's environments: SMAX, MPE and JaxNav.

jaxmarl uses dicts keyed by agent name; the adapters stack them into arrays, in the library's agent
order. Its ``step`` computes a full reset every time and discards the episode's last observation, so
the adapters call ``step_env``. Library calls allow rank promotion, whatever the user has set.

To add an environment, add a module with an adapter class and its factory, built on ``library``.
"""

from ratiosym.envs.adapters.jaxmarl.jaxnav import jaxnav
from ratiosym.envs.adapters.jaxmarl.mpe import mpe_spread
from ratiosym.envs.adapters.jaxmarl.smax import smax

__all__ = ["jaxnav", "mpe_spread", "smax"]
