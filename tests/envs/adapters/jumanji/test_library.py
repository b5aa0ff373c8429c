"""How the library is imported."""

import pytest

from tests.example_runs import run_python

IN_A_NOTEBOOK = """
import builtins, sys
import ipykernel, IPython  # without a shell, which jumanji would call
builtins.__IPYTHON__ = True
import jax, ratiosym
env = ratiosym.make({task!r}, agent_ids=False)
state, _ = env.reset(jax.random.key(0))
assert env.draw(state).ndim == 3
assert "jumanji" in sys.modules
assert builtins.__IPYTHON__
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["connector-5x5x3a", "rware-tiny-2ag", "sar-100tg-2ag"])
def test_a_notebook_keeps_its_matplotlib(task):
    result = run_python("-c", IN_A_NOTEBOOK.format(task=task))
    assert result.returncode == 0, result.stderr
