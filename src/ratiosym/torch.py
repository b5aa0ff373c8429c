"""The seven objectives as a TorchRL loss, in place of its ``ClipPPOLoss``.

    loss = RatioLoss(actor, critic, objective="mars", b_lower=0.5, b_upper=2.0)
    losses = loss(batch)
    (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()

Networks, tensordict keys, value estimators and outputs are those of TorchRL's PPO losses. Only the
surrogate differs, and the output includes ratio diagnostics.
"""

import inspect
from typing import Any

import numpy as np

from ratiosym.errors import InputError, MissingLibraryError
from ratiosym.objectives import (
    OBJECTIVES,
    QUANTILES,
    Bounds,
    Objective,
    RatioDiagnostics,
    get_objective,
    ratio_diagnostics,
)

try:
    import torch
    from tensordict import TensorDict, TensorDictBase, TensorDictParams, is_tensor_collection
    from tensordict.nn import TensorDictModule, dispatch
    from torchrl.objectives import PPOLoss
except ModuleNotFoundError as error:
    raise MissingLibraryError(
        f"ratiosym.torch needs PyTorch and TorchRL ('{error.name}' is not installed). Install "
        f"them: pip install 'ratiosym[torch]'. The functions in ratiosym.objectives take tensors "
        f"without TorchRL."
    ) from None

_REDUCTIONS = {"mean": torch.mean, "sum": torch.sum, "none": lambda values: values}
_QUANTILE_KEYS = tuple(f"ratio_q{round(100 * level):02d}" for level in QUANTILES)
_NETWORKS = (
    "actor_network_params",
    "critic_network_params",
    "target_actor_network_params",
    "target_critic_network_params",
)


class RatioLoss(PPOLoss):
    """A PPO loss with any of the seven objectives, or a custom one, instead of clipping.

    Args:
        actor_network: The policy, as for ``ClipPPOLoss``.
        critic_network: The critic, as for ``ClipPPOLoss``.
        objective: A name from ``ratiosym.objectives.OBJECTIVES``, ``package.module:OBJECTIVE``, or
            an ``Objective`` record. Its parameters are keyword arguments: ``b_lower`` and
            ``b_upper`` for "mars", ``epsilon`` for "mappo". Omitted ones take their defaults.
        clip_value: As for ``ClipPPOLoss``. True clips values at ``upper - 1``, which for "mappo" is
            epsilon.
        diagnostics: Whether the output includes the ratio diagnostics.
        options: The remaining keyword arguments of ``ClipPPOLoss``.

    The output includes everything that ``ClipPPOLoss`` returns. ``clip_fraction`` is the fraction
    of ratios outside the two targets, whether or not the surrogate clips them, and ``kl_approx``
    the mean of −log r. It also includes ratio diagnostics:

    ``ratio_min``, ``ratio_max``, ``ratio_q01`` ... ``ratio_q99``
        extremes and quantiles of the ratios;
    ``beyond_target``
        fraction of samples past their target in the improving direction;
    ``ratio_kl``
        mean of (r − 1) − log r, an estimate of the KL divergence that is never negative.

    The targets are the buffers ``target_lower`` and ``target_upper``.
    """

    actor_network: TensorDictModule
    critic_network: TensorDictModule
    actor_network_params: TensorDictParams
    critic_network_params: TensorDictParams
    target_actor_network_params: TensorDictParams
    target_critic_network_params: TensorDictParams
    _out_keys: list[str] | None

    def __init__(
        self,
        actor_network: TensorDictModule | None = None,
        critic_network: TensorDictModule | None = None,
        *,
        objective: str | Objective = "mars",
        clip_value: bool | float | None = None,
        diagnostics: bool = True,
        **options: Any,
    ) -> None:
        chosen = get_objective(objective) if isinstance(objective, str) else objective
        if not isinstance(chosen, Objective):
            raise InputError(
                f"`objective` is of type {type(objective).__name__}; it must be a name "
                f"({', '.join(OBJECTIVES)}) or a ratiosym.objectives.Objective."
            )
        parameters = _take_parameters(chosen, options)
        reduction = options.get("reduction")
        if reduction is not None and reduction not in _REDUCTIONS:
            raise InputError(
                f"`reduction` is {reduction!r}; it must be one of: {', '.join(_REDUCTIONS)}."
            )
        bounds = chosen.bounds(**parameters)
        if isinstance(clip_value, bool):
            clip_value = bounds.upper - 1.0 if clip_value else None
        super().__init__(actor_network, critic_network, clip_value=clip_value, **options)
        self.objective = chosen
        self.objective_parameters = chosen.resolve(parameters)
        self.diagnostics = diagnostics
        device = options.get("device") or next(self.parameters(), self.entropy_coeff).device
        self.register_buffer("target_lower", torch.tensor(bounds.lower, device=device))
        self.register_buffer("target_upper", torch.tensor(bounds.upper, device=device))

    @property
    def out_keys(self) -> list[str]:
        """Outputs of a call with keyword arguments, in the order of ``ClipPPOLoss``."""
        if self._out_keys is None:
            self._out_keys = [
                "loss_objective",
                "clip_fraction",
                *(["entropy", "loss_entropy"] if self.entropy_bonus else []),
                *(["loss_critic"] if self._has_critic else []),
                *(["value_clip_fraction"] if self.clip_value is not None else []),
                "ESS",
            ]
        return self._out_keys

    @out_keys.setter
    def out_keys(self, keys: list[str]) -> None:
        self._out_keys = keys

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the losses of a batch and the metrics to log."""
        tensordict = tensordict.clone(False)
        advantage = self._advantage(tensordict)
        samples = advantage.shape[:-1]
        log_ratio, distribution, _ = self._log_weight(tensordict, adv_shape=samples)
        bounds = Bounds(self.target_lower, self.target_upper)
        found = {"loss_objective": -self.objective.surrogate(log_ratio, advantage, bounds)}
        if self.entropy_bonus:
            found |= self._entropies(self._get_entropy(distribution, adv_shape=samples))
        if self._has_critic:
            found |= self._critic_losses(tensordict)
        for key in ("loss_objective", "loss_entropy", "loss_critic"):
            if key in found:
                found[key] = _REDUCTIONS[self.reduction](found[key]).squeeze(-1)
        found |= self._metrics(log_ratio.detach(), advantage.detach(), bounds)
        losses = TensorDict(found)
        self._clear_weakrefs(tensordict, losses, *_NETWORKS)
        return losses

    def _advantage(self, tensordict: TensorDictBase) -> torch.Tensor:
        """Return the batch's advantage or the value estimator's, standardised if requested."""
        key = self.tensor_keys.advantage
        advantage = tensordict.get(key, None, as_padded_tensor=True)
        if advantage is None:
            if self.critic_network is None:
                raise InputError(
                    f"The batch has no {key!r}, and it cannot be estimated without "
                    f"`critic_network`. Provide one of the two."
                )
            self.value_estimator(
                tensordict,
                params=self._cached_critic_network_params_detached,
                target_params=self.target_critic_network_params,
            )
            advantage = tensordict.get(key)
        if self.normalize_advantage and advantage.numel() > 1:
            advantage = _standardised(advantage, self.normalize_advantage_exclude_dims)
        return advantage

    def _entropies(self, entropy: Any) -> dict[str, Any]:
        loss = self._weighted_loss_entropy(entropy)
        if not is_tensor_collection(entropy):
            return {"entropy": entropy.detach().mean(), "loss_entropy": loss}
        total = entropy.sum(dim="feature", reduce=True)
        return {
            "composite_entropy": entropy.detach(),  # one per action head
            "entropy": total.detach().mean(),
            "loss_entropy": loss,
        }

    def _critic_losses(self, tensordict: TensorDictBase) -> dict[str, Any]:
        names = ("loss_critic", "value_clip_fraction", "explained_variance")
        values = self.loss_critic(tensordict)
        return {k: v for k, v in zip(names, values, strict=True) if v is not None}

    def _metrics(
        self, log_ratio: torch.Tensor, advantage: torch.Tensor, bounds: Bounds
    ) -> dict[str, torch.Tensor]:
        """Return the metrics of ``ClipPPOLoss`` and, if requested, the ratio diagnostics."""
        arrays: list[Any] = [log_ratio, advantage, *bounds]
        xp: Any = torch
        # On a CPU, NumPy sorts many times faster than PyTorch and has less overhead per operation.
        if not torch.compiler.is_compiling() and all(_has_numpy_view(x) for x in arrays):
            arrays, xp = [x.numpy() for x in arrays], np
        u, bounds = arrays[0], Bounds(*arrays[2:])
        with np.errstate(all="ignore"):  # a NaN policy shows in the metrics
            values = {
                "kl_approx": -u.mean(),
                "clip_fraction": _fraction_outside(xp, u, bounds),
                "ESS": self._effective_size(xp, u) / u.shape[0],
            }
            if self.diagnostics:
                values |= _describe(ratio_diagnostics(u, arrays[1], bounds))
        return _as_tensors(values) if xp is np else values

    def _effective_size(self, xp: Any, log_ratio: Any) -> Any:
        """Return the effective sample size (Σr)² / Σr² over the first dimension, reduced."""
        u = log_ratio.squeeze()
        r = xp.exp(u - xp.amax(u, 0))  # up to a factor, which cancels
        size = xp.square(r.sum(0)) / xp.square(r).sum(0)
        is_reduced = size.ndim == 0 or self.reduction == "none"
        return size if is_reduced else getattr(size, self.reduction)()


def _fraction_outside(xp: Any, log_ratio: Any, bounds: Bounds) -> Any:
    is_outside = (log_ratio < xp.log(bounds.lower)) | (log_ratio > xp.log(bounds.upper))
    return xp.asarray(is_outside, dtype=log_ratio.dtype).mean()


def _as_tensors(values: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Convert NumPy's scalars, all at once, and arrays."""
    scalars = [name for name, value in values.items() if value.ndim == 0]
    together = torch.from_numpy(np.array([values[name] for name in scalars]))
    tensors = dict(zip(scalars, together.unbind(), strict=True))
    return {n: tensors[n] if n in tensors else torch.from_numpy(v) for n, v in values.items()}


def _describe(found: RatioDiagnostics) -> dict[str, Any]:
    return {
        "ratio_min": found.minimum,
        "ratio_max": found.maximum,
        **dict(zip(_QUANTILE_KEYS, found.quantiles, strict=True)),
        "beyond_target": found.beyond_target,
        "ratio_kl": found.approximate_kl,
    }


def _has_numpy_view(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)


def _standardised(advantage: torch.Tensor, exclude: tuple[int, ...]) -> torch.Tensor:
    """Standardise over all dimensions except the excluded ones."""
    excluded = {dim % advantage.ndim for dim in exclude}
    dims = tuple(dim for dim in range(advantage.ndim) if dim not in excluded)
    mean = advantage.mean(dims, keepdim=True)
    deviation = advantage.std(dims, keepdim=True)
    return (advantage - mean) / deviation.clamp_min(torch.finfo(torch.float).resolution)


# TorchRL's losses silently ignore unknown keywords, so a misspelt target would go unnoticed.
_OPTIONS = frozenset(
    name
    for name, parameter in inspect.signature(PPOLoss.__init__).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
)


def _take_parameters(objective: Objective, options: dict[str, Any]) -> dict[str, float]:
    """Pop the objective's parameters from the keyword arguments; reject unknown ones."""
    own = objective.defaults
    for name in options:
        if name not in own and name not in _OPTIONS:
            takes = ", ".join(f"`{p.name}` ({p.default:g})" for p in objective.parameters)
            raise InputError(
                f"RatioLoss takes no `{name}`. Objective '{objective.name}' takes {takes}; all "
                f"other arguments are those of TorchRL's ClipPPOLoss, without `clip_epsilon`."
            )
    return {name: options.pop(name) for name in own if name in options}
