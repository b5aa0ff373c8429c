"""The examples that use PyTorch learn their task, and only replace the surrogate."""

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from examples import ppo_torch, sb3_mars


@pytest.mark.parametrize("objective", ["mars", "mappo"])
def test_ppo_in_one_file_learns(objective, capsys):
    rewards, found = ppo_torch.train(objective)
    assert rewards[-1] > 0.5 * rewards[0]  # at most half the distance
    assert found.minimum > 0
    assert "beyond target" in capsys.readouterr().out


def test_ppo_in_one_file_takes_parameters(monkeypatch, capsys):
    quick = ppo_torch.Settings(updates=1)
    monkeypatch.setattr(ppo_torch, "Settings", lambda seed: quick)
    words = ["ppo_torch.py", "--objective", "maspo", "--set", "epsilon=0.1"]
    monkeypatch.setattr("sys.argv", words)
    ppo_torch.main()
    assert capsys.readouterr().out.count("update") == 1


def test_stable_baselines_learns_with_mars():
    untrained = sb3_mars.mean_return(sb3_mars.train(steps=0))
    model = sb3_mars.train(b_upper=1.5)
    assert sb3_mars.mean_return(model) > 0.5 * untrained
    log = model.logger.name_to_value
    assert 0 < log["train/ratio_min"] < 1 < log["train/ratio_max"]


def test_stable_baselines_with_mappo_is_its_own_ppo():
    options = {"n_steps": 256, "batch_size": 64, "n_epochs": 2, "seed": 0, "device": "cpu"}
    theirs = PPO("MlpPolicy", sb3_mars.Chase(), clip_range=0.2, **options).learn(512)
    ours = sb3_mars.RatioPPO("MlpPolicy", sb3_mars.Chase(), objective="mappo", **options).learn(512)
    for one, other in zip(ours.policy.parameters(), theirs.policy.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    untrained = PPO("MlpPolicy", sb3_mars.Chase(), **options)
    moved = [
        np.abs((a - b).detach()).max()
        for a, b in zip(ours.policy.parameters(), untrained.policy.parameters(), strict=True)
    ]
    assert max(moved) > 1e-3
