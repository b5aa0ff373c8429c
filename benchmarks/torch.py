"""RatioLoss against TorchRL's ClipPPOLoss: forward and backward pass, in random order."""

import os
import random
from statistics import quantiles
from time import process_time

import torch

from ratiosym.torch import RatioLoss  # isort: skip  (says what to install if it is missing)
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss

OBSERVATION, ACTION = 18, 2  # spread with three agents
WIDTHS = (64, 256)  # of two hidden layers; 256 is BenchMARL's default
ROUNDS = {1024: 200, 16384: 30}  # by the number of samples


def make_networks(width: int) -> tuple[nn.Module, nn.Module]:
    net = nn.Sequential(MLP(OBSERVATION, 2 * ACTION, 2, width), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        return_log_prob=True,
    )
    return actor, ValueOperator(MLP(OBSERVATION, 1, 2, width), in_keys=["observation"])


def make_batch(actor: nn.Module, num: int) -> TensorDict:
    data = TensorDict({"observation": torch.randn(num, OBSERVATION)}, [num])
    with torch.no_grad():
        actor(data)
    data["action_log_prob"] += 0.2 * torch.randn(num)
    data["advantage"], data["value_target"] = torch.randn(2, num, 1)
    return data


def seconds(loss: nn.Module, data: TensorDict) -> float:
    """Measure the CPU time of one thread, which other load disturbs least."""
    began = process_time()
    out = loss(data)
    (out["loss_objective"] + out["loss_critic"] + out["loss_entropy"]).backward()
    return process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"Forward and backward pass, lower quartile, one thread of {os.cpu_count()}.")
    for width in WIDTHS:
        actor, critic = make_networks(width)
        losses = {
            "ClipPPOLoss": ClipPPOLoss(actor, critic),
            "RatioLoss mappo": RatioLoss(actor, critic, objective="mappo"),
            "RatioLoss maspo": RatioLoss(actor, critic, objective="maspo"),
            "RatioLoss mars": RatioLoss(actor, critic, objective="mars"),
            "RatioLoss mars, no diagnostics": RatioLoss(actor, critic, diagnostics=False),
        }
        for num, rounds in ROUNDS.items():
            print(f"two layers of {width}, {num:,} samples")
            compare(losses, make_batch(actor, num), rounds)


def compare(losses: dict[str, nn.Module], data: TensorDict, rounds: int) -> None:
    found: dict[str, list[float]] = {name: [] for name in losses}
    for _ in range(rounds):
        for name in random.sample(list(losses), len(losses)):
            found[name].append(seconds(losses[name], data))
    quartiles = {name: quantiles(times)[0] for name, times in found.items()}
    for name, time in quartiles.items():
        ratio = time / quartiles["ClipPPOLoss"]
        print(f"  {name:32s} {1e3 * time:8.2f} ms  x {ratio:.2f}", flush=True)
