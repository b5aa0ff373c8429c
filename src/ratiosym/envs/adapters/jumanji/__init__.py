"""Adapters for jumanji's environments: RWARE, Connector, Search and Rescue.

The library is imported only when a task is made. Its auto-reset wrapper computes a full reset on
every step, so it is never used: the adapters call ``step``, and ``envs/starts.py`` starts new
episodes. The library reports every end of RWARE and Search and Rescue as a termination; the
adapters report the time limit as a truncation. Library calls allow rank promotion, whatever the
user has set.
"""

from ratiosym.envs.adapters.jumanji.connector import connector
from ratiosym.envs.adapters.jumanji.rware import rware
from ratiosym.envs.adapters.jumanji.search_and_rescue import search_and_rescue

__all__ = ["connector", "rware", "search_and_rescue"]
