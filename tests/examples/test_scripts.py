"""Every example runs as documented and prints what it promises."""

import re

import pytest

from tests.example_runs import ROOT, run_python

PRINTS = {
    "compare_runs": r"mars +return .* ratios .*\nmappo +return (.*\n)+picture: .*comparison.*png",
    "custom_network_cnn": r"after +0 steps: mean return .*\n(.*\n)*Policy\('connector-5x5x3a'",
    "custom_network_lstm": r"after +0 steps: mean return .*\n(.*\n)*Policy\('paxmen-4a'",
    "export_jaxmarl": r"paxmen-4a: world state \(8, 101\).*\naerojax-2v2: world state \(8, 79\)",
    "export_jumanji": r"PaxMen-4a-v0: agents' view \(4, 25\).*\nAeroJAX-2v2-v0: .*\(2, 51\)",
    "export_pettingzoo": r"paxmen-4a: 100 steps, return -\d.*\naerojax-2v2: \d+ steps",
    "load_act_render": r"Policy\('paxmen-4a', 4 agents.*\nreturn -?\d.*\nfilm: .*episode.gif",
    "ppo_jax": r"update +1  reward .* ratio min .*\n(.*\n)*update +30",
}
# These are run by other tests, in this or another environment.
ELSEWHERE = {"custom_environment", "custom_objective", "custom_tracker", "policy_loss_jax"} | {
    "ppo_torch",
    "sb3_mars",
}


def test_every_example_is_run_by_some_test():
    assert {path.stem for path in ROOT.glob("examples/*.py")} == {*PRINTS, *ELSEWHERE}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRINTS))
def test_it_prints_what_it_promises(name):
    promotion = {"JAX_NUMPY_RANK_PROMOTION": "allow"}  # JAX's default, which a recipe relies on
    result = run_python(f"examples/{name}.py", env=promotion if name == "ppo_jax" else None)
    assert result.returncode == 0, result.stderr
    assert re.search(PRINTS[name], result.stdout), result.stdout
