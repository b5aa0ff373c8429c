"""Lets BenchMARL's command line find ratiosym's algorithms: ``algorithm=mars``.

Hydra imports every module of this namespace package. Other programs that use Hydra are not touched.
"""

import sys

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class RatiosymSearchPath(SearchPathPlugin):
    """Adds the algorithms' YAML files to the search path of a program that uses BenchMARL."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra before it composes a configuration."""
        if "benchmarl" in sys.modules:
            from ratiosym.benchmarl import CONFIGURATIONS

            search_path.append("ratiosym", f"file://{CONFIGURATIONS}")
