"""How the library is imported."""

import pytest

from tests.example_runs import run_python

IN_A_NOTEBOOK = """
import builtins, sys, types
builtins.__IPYTHON__ = True
sys.modules["ipykernel"] = types.ModuleType("ipykernel")
sys.modules["IPython"] = types.ModuleType("IPython")  # without what jumanji would call
import ratiosym
ratiosym.make("connector-5x5x3a", agent_ids=False).library
assert builtins.__IPYTHON__
"""


@pytest.mark.slow
def test_a_notebook_keeps_its_matplotlib():
    result = run_python("-c", IN_A_NOTEBOOK)
    assert result.returncode == 0, result.stderr
