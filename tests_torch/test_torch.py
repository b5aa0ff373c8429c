"""RatioLoss compared to TorchRL's ClipPPOLoss, and on its own."""

import copy

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import (
    CompositeDistribution,
    NormalParamExtractor,
    TensorDictModule,
    set_composite_lp_aggregate,
)
from torch import nn
from torch.distributions import Categorical, Normal
from torchrl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss, ValueEstimators

from ratiosym.errors import InputError
from ratiosym.objectives import OBJECTIVES, Bounds, Objective, Parameter, barrier, independent
from ratiosym.torch import RatioLoss
from tests.paper import SETTINGS, paper_values

BATCH, OBSERVATION, ACTION = 64, 3, 2
DIAGNOSTICS = {
    "ratio_min",
    "ratio_max",
    "ratio_q01",
    "ratio_q25",
    "ratio_q50",
    "ratio_q75",
    "ratio_q99",
    "beyond_target",
    "ratio_kl",
}


def networks():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(OBSERVATION, 2 * ACTION), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        return_log_prob=True,
    )
    return actor, ValueOperator(nn.Linear(OBSERVATION, 1), in_keys=["observation"])


def batch(actor, *, with_advantage=True, spread=0.4):
    torch.manual_seed(1)
    data = TensorDict({"observation": torch.randn(BATCH, OBSERVATION)}, [BATCH])
    with torch.no_grad():
        actor(data)
    data["action_log_prob"] += spread * torch.randn(BATCH)
    data["next"] = TensorDict(
        {
            "observation": torch.randn(BATCH, OBSERVATION),
            "reward": torch.randn(BATCH, 1),
            "done": torch.rand(BATCH, 1) < 0.1,
            "terminated": torch.rand(BATCH, 1) < 0.1,
        },
        [BATCH],
    )
    if with_advantage:
        data["advantage"] = torch.randn(BATCH, 1)
        data["value_target"] = torch.randn(BATCH, 1)
        data["state_value"] = torch.randn(BATCH, 1)
    return data


def losses_and_gradients(loss, data):
    loss.zero_grad()
    out = loss(data.clone())
    total = sum(value.sum() for key, value in out.items() if key.startswith("loss_"))
    total.backward()
    gradients = {n: p.grad.clone() for n, p in loss.named_parameters() if p.grad is not None}
    return out.detach(), gradients


OPTIONS = {
    "defaults": {},
    "no entropy": {"entropy_bonus": False},
    "squared error": {"loss_critic_type": "l2", "critic_coeff": 0.5, "entropy_coeff": 0.1},
    "normalised": {"normalize_advantage": True},
    "sum": {"reduction": "sum"},
    "no reduction": {"reduction": "none"},
    "clipped values": {"clip_value": True},
    "values clipped at 0.1": {"clip_value": 0.1},
    "values not clipped": {"clip_value": False},
    "separate": {"separate_losses": True},
    "not functional": {"functional": False},
    "no explained variance": {"log_explained_variance": False},
    "no critic": {"critic_coeff": 0.0},
}


@pytest.mark.parametrize("with_advantage", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_mappo_is_torchrls_clipped_loss(options, with_advantage):
    options = OPTIONS[options]
    if "clip_value" in options and not with_advantage:
        pytest.skip("without an advantage the batch holds no value to clip at")
    actor, critic = networks()
    data = batch(actor, with_advantage=with_advantage)
    theirs = ClipPPOLoss(copy.deepcopy(actor), copy.deepcopy(critic), clip_epsilon=0.2, **options)
    ours = RatioLoss(
        copy.deepcopy(actor), copy.deepcopy(critic), objective="mappo", epsilon=0.2, **options
    )
    expected, expected_gradients = losses_and_gradients(theirs, data)
    found, gradients = losses_and_gradients(ours, data)
    assert set(found.keys()) - set(expected.keys()) == DIAGNOSTICS
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-6, atol=1e-6)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-6, atol=1e-6)
    assert 0 < found["clip_fraction"] < 1
    assert set(ours.in_keys) == set(theirs.in_keys)


def test_normalised_with_a_dimension_of_its_own():
    actor, critic = networks()
    data = batch(actor).reshape(16, 4)
    for options in ({"normalize_advantage_exclude_dims": (-2,)}, {}):
        results = [
            loss_class(
                copy.deepcopy(actor),
                copy.deepcopy(critic),
                normalize_advantage=True,
                **kind,
                **options,
            )(data.clone())
            for loss_class, kind in ((ClipPPOLoss, {}), (RatioLoss, {"objective": "mappo"}))
        ]
        torch.testing.assert_close(results[1]["loss_objective"], results[0]["loss_objective"])


def test_tensor_arguments_give_the_same_tuple():
    actor, critic = networks()
    data = batch(actor)
    theirs = ClipPPOLoss(copy.deepcopy(actor), copy.deepcopy(critic))
    ours = RatioLoss(copy.deepcopy(actor), copy.deepcopy(critic), objective="mappo")
    assert ours.out_keys == theirs.out_keys
    # TorchRL estimates the advantage itself here, so it is not an input key of the loss.
    names = {key: key if isinstance(key, str) else "_".join(key) for key in ours.in_keys}
    arguments = {name: data[key] for key, name in names.items()}
    results = [loss(**arguments) for loss in (ours, theirs)]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_keys_and_value_estimators_are_torchrls():
    actor, critic = networks()
    data = batch(actor, with_advantage=False)
    loss = RatioLoss(actor, critic, objective="mars")
    loss.set_keys(advantage="A", value_target="target")
    loss.make_value_estimator(ValueEstimators.TDLambda, gamma=0.9, lmbda=0.8)
    with torch.no_grad():
        loss.value_estimator(
            data, params=loss.critic_network_params, target_params=loss.target_critic_network_params
        )
    assert {"A", "target"} <= set(data.keys())
    assert torch.isfinite(loss(data)["loss_objective"])


def test_heads_of_a_composite_action():
    with set_composite_lp_aggregate(False):
        torch.manual_seed(0)
        names = ("move", "grip")
        net = nn.Sequential(nn.Linear(OBSERVATION, 3 + 2), HeadParameters())
        keys = [
            ("params", "move", "logits"),
            ("params", "grip", "loc"),
            ("params", "grip", "scale"),
        ]
        actor = ProbabilisticActor(
            TensorDictModule(net, in_keys=["observation"], out_keys=keys),
            in_keys=["params"],
            out_keys=[*names],
            distribution_class=CompositeDistribution,
            distribution_kwargs={"distribution_map": {"move": Categorical, "grip": Normal}},
            return_log_prob=True,
        )
        critic = ValueOperator(nn.Linear(OBSERVATION, 1), in_keys=["observation"])
        data = TensorDict({"observation": torch.randn(BATCH, OBSERVATION)}, [BATCH])
        with torch.no_grad():
            actor(data)
        data["move_log_prob"] += 0.3 * torch.randn(BATCH)
        data["advantage"], data["value_target"] = torch.randn(2, BATCH, 1)
        results = [
            loss_class(copy.deepcopy(actor), copy.deepcopy(critic), **kind)(data.clone())
            for loss_class, kind in ((ClipPPOLoss, {}), (RatioLoss, {"objective": "mappo"}))
        ]
    theirs, ours = results
    assert "composite_entropy" in theirs
    for key, value in theirs.items(include_nested=True, leaves_only=True):
        torch.testing.assert_close(ours[key], value, rtol=1e-6, atol=1e-6)


class HeadParameters(nn.Module):
    def forward(self, x):
        return x[..., :3], x[..., 3], x[..., 4].exp()


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_every_objective_is_the_papers(name):
    actor, critic = networks()
    data = batch(actor)
    parameters = SETTINGS[name][1]
    loss = RatioLoss(actor, critic, objective=name, **parameters)
    out, gradients = losses_and_gradients(loss, data)
    with torch.no_grad():
        u = actor.get_dist(data).log_prob(data["action"]) - data["action_log_prob"]
    u, A = u.double().numpy(), data["advantage"][:, 0].double().numpy()
    expected = -paper_values(name, u, A, parameters).mean()
    np.testing.assert_allclose(out["loss_objective"], expected, rtol=1e-4)
    assert all(torch.isfinite(g).all() and g.abs().sum() > 0 for g in gradients.values())
    r, bounds = np.exp(u), OBJECTIVES[name].bounds(**parameters)
    for key, value in {
        "ratio_min": r.min(),
        "ratio_max": r.max(),
        "ratio_q25": np.quantile(r, 0.25),
        "beyond_target": np.where(A >= 0, r > bounds.upper, r < bounds.lower).mean(),
        "ratio_kl": (r - 1 - u).mean(),
        "kl_approx": -u.mean(),
        "clip_fraction": ((r < bounds.lower) | (r > bounds.upper)).mean(),
        "ESS": r.sum() ** 2 / (r**2).sum() / BATCH,
    }.items():
        np.testing.assert_allclose(out[key], value, rtol=1e-4, err_msg=key)
        assert not out[key].requires_grad


def test_an_objective_of_your_own_and_no_diagnostics():
    mine = Objective(
        "mine", "Mine", barrier, independent,
        (Parameter("b_lower", 0.3, 0, 1, ()), Parameter("b_upper", 3.0, 1, 9, ())),
    )  # fmt: skip
    actor, critic = networks()
    loss = RatioLoss(actor, critic, objective=mine, b_upper=4.0, diagnostics=False)
    assert (loss.target_lower, loss.target_upper) == pytest.approx((0.3, 4.0))
    assert loss.objective_parameters == {"b_lower": 0.3, "b_upper": 4.0}
    assert not DIAGNOSTICS & set(loss(batch(actor)).keys())


def test_targets_are_saved_with_the_loss():
    actor, critic = networks()
    saved = RatioLoss(actor, critic, b_lower=0.5, b_upper=4.0).state_dict()
    other = RatioLoss(actor, critic)
    other.load_state_dict(saved)
    assert Bounds(other.target_lower, other.target_upper) == (0.5, 4.0)


WRONG = {
    "a misspelt parameter": ({"b_lwer": 0.5}, "no `b_lwer`.* 'mars' takes `b_lower`"),
    "TorchRL's epsilon": ({"clip_epsilon": 0.2}, "RatioLoss takes no `clip_epsilon`"),
    "another's parameter": ({"objective": "mappo", "b_upper": 2.0}, r"takes `epsilon` \(0\.2\)"),
    "wrong side of 1": ({"b_lower": 1.1}, r"`b_lower` is 1\.1; it must be .* below 1"),
    "unknown objective": ({"objective": "masp"}, r"Unknown objective 'masp'\. Closest: 'maspo'"),
    "no objective": ({"objective": barrier}, "`objective` is of type function; it must be a name"),
    "unknown reduction": ({"reduction": "max"}, "`reduction` is 'max'; .* mean, sum, none"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case):
    options, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        RatioLoss(*networks(), **options)


def test_an_advantage_of_another_shape_is_refused():
    actor, critic = networks()
    data = batch(actor)
    data["advantage"] = torch.randn(BATCH, 2)
    with pytest.raises(
        InputError, match=r"`advantage` has the shape \(64, 2\); the shapes must be equal"
    ):
        RatioLoss(actor, critic)(data)


def test_without_advantage_and_critic_there_is_a_sentence():
    actor, _ = networks()
    with pytest.raises(InputError, match="The batch has no 'advantage'"):
        RatioLoss(actor, None, critic_coeff=0.0)(batch(actor, with_advantage=False))
