"""Adapters over jumanji's environments: RWARE, Connector, Search and Rescue.

The library is imported when a task is made and not before. Its auto-reset wrapper computes a whole
reset on every step, so it is never used: the adapters call ``step`` and ``envs/starts.py`` begins
new episodes. The library calls every end of RWARE and of Search and Rescue a termination; here the
clock's ends are told apart. Its calls run with rank promotion allowed, whatever the user has set.
"""

from ratiosym.envs.adapters.jumanji.connector import connector
from ratiosym.envs.adapters.jumanji.rware import rware
from ratiosym.envs.adapters.jumanji.search_and_rescue import search_and_rescue

__all__ = ["connector", "rware", "search_and_rescue"]
