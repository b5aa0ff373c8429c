"""jaxmarl is loaded lazily, in part and quietly, and works with a user's own import."""

import subprocess
import sys

import pytest

from ratiosym.envs.adapters.jaxmarl import jaxnav, mpe_spread, smax


@pytest.mark.parametrize(
    ("factory", "settings", "task"),
    [
        (mpe_spread, (3,), "mpe-spread-3ag"),
        (smax, ("2s3z",), "smax-2s3z"),
        (jaxnav, (8, 2), "jaxnav-8x8x2a"),
    ],
)
def test_a_missing_library_is_named_with_its_remedy(factory, settings, task, monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxmarl", None)  # as if not installed
    factory.cache_clear()
    with pytest.raises(ImportError) as error:
        factory(*settings)
    assert str(error.value) == (
        f"Task {task!r} needs the library jaxmarl. Install it with: pip install 'ratiosym[jaxmarl]'"
    )


QUIET = """
import sys
from ratiosym.envs import registry
early = {name.split(".")[0] for name in sys.modules}
assert not early & {"jaxmarl", "flax", "gymnax"}, "not lazy"
import jax
env = registry.make("mpe-spread-3ag")
state, _ = env.reset(jax.random.key(0))
env.step(jax.random.key(1), state, jax.numpy.zeros((3, 5)))
registry.make("smax-2s3z")
assert "matplotlib" not in sys.modules, "not alone"
registry.make("jaxnav-8x8x2a")
assert "jaxmarl" not in sys.modules, "not alone"
"""

BESIDE = """
from ratiosym.envs.adapters.jaxmarl import jaxnav, mpe_spread, smax
env, battle, robots = mpe_spread(3), smax("2s3z"), jaxnav(8, 2)
import jaxmarl
from jaxmarl.environments.jaxnav import JaxNav
theirs = jaxmarl.make("MPE_simple_spread_v3", action_type="Continuous")
assert type(theirs) is type(env.library), "two copies of one class"
mpe_spread.cache_clear()
assert type(mpe_spread(3).library) is type(theirs), "two copies of one class, loaded after"
assert type(battle.library) is type(jaxmarl.make("HeuristicEnemySMAX")), "two copies of one class"
assert type(robots.library) is JaxNav, "two copies of one class"
"""


def run(program):
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", program], capture_output=True, text=True
    )


def test_nothing_is_imported_early_and_nothing_printed():
    result = run(QUIET)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_users_can_import_the_library_themselves():
    result = run(BESIDE)
    assert result.returncode == 0, result.stderr
