"""BenchMARL's MAPPO with its loss replaced, once per objective."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ratiosym.errors import MissingLibraryError
from ratiosym.objectives import get_objective
from ratiosym.torch import RatioLoss

try:
    import yaml
    from benchmarl.algorithms import Mappo, algorithm_config_registry
    from benchmarl.algorithms.common import AlgorithmConfig
    from tensordict.nn import TensorDictModule
    from torchrl.objectives import ValueEstimators
except ModuleNotFoundError as error:
    raise MissingLibraryError(
        f"ratiosym.benchmarl needs BenchMARL ('{error.name}' is not installed). Install it: pip "
        f"install 'ratiosym[benchmarl]'."
    ) from None

CONFIGURATIONS = Path(__file__).parent / "conf"  # the root that Hydra searches

# Entries of the batch that belong to a group of agents, with MAPPO's names.
_GROUP_KEYS = {
    "reward": "reward",
    "action": "action",
    "done": "done",
    "terminated": "terminated",
    "advantage": "advantage",
    "value_target": "value_target",
    "value": "state_value",
    "sample_log_prob": "log_prob",
}


class RatioAlgorithm(Mappo):
    """MAPPO with one of the seven objectives as its policy loss, named by subclasses."""

    objective: ClassVar[str]

    def __init__(self, **options: Any) -> None:
        names = get_objective(self.objective).defaults
        self.objective_parameters = {name: options.pop(name) for name in names}
        super().__init__(clip_epsilon=None, **options)

    def _get_loss(
        self, group: str, policy_for_loss: TensorDictModule, continuous: bool
    ) -> tuple[RatioLoss, bool]:
        loss = RatioLoss(
            actor_network=policy_for_loss,
            critic_network=self.get_critic(group),
            objective=self.objective,
            entropy_coeff=self.entropy_coef,
            critic_coeff=self.critic_coef,
            loss_critic_type=self.loss_critic_type,
            **self.objective_parameters,
        )
        loss.set_keys(**{name: (group, key) for name, key in _GROUP_KEYS.items()})
        loss.make_value_estimator(
            ValueEstimators.GAE, gamma=self.experiment_config.gamma, lmbda=self.lmbda
        )
        return loss, False  # no target networks


@dataclass
class RatioConfig(AlgorithmConfig):
    """Settings that all seven share with BenchMARL's MAPPO."""

    share_param_critic: bool
    entropy_coef: float
    critic_coef: float
    loss_critic_type: str
    lmbda: float
    scale_mapping: str
    use_tanh_normal: bool
    minibatch_advantage: bool

    @classmethod
    def get_from_yaml(cls, path: str | None = None) -> "RatioConfig":
        """Read the settings from a file, or the defaults shipped with this package."""
        name = ALGORITHM_NAMES[cls]
        file = Path(path) if path else CONFIGURATIONS / "algorithm" / f"{name}.yaml"
        settings: Mapping[str, Any] = yaml.safe_load(file.read_text())
        return cls(**{key: value for key, value in settings.items() if key != "defaults"})

    @staticmethod
    def supports_continuous_actions() -> bool:
        """Yes, as for MAPPO."""
        return True

    @staticmethod
    def supports_discrete_actions() -> bool:
        """Yes, as for MAPPO."""
        return True

    @staticmethod
    def on_policy() -> bool:
        """Yes, as for MAPPO."""
        return True

    @staticmethod
    def has_centralized_critic() -> bool:
        """Yes, as for MAPPO."""
        return True


class Mars(RatioAlgorithm):
    """MARS."""

    objective = "mars"


@dataclass
class MarsConfig(RatioConfig):
    """Settings of MARS."""

    b_lower: float
    b_upper: float

    @staticmethod
    def associated_class() -> type[Mars]:
        """Return the algorithm of these settings."""
        return Mars


class RatioMappo(RatioAlgorithm):
    """MAPPO: the same updates as BenchMARL's own, with ratio diagnostics."""

    objective = "mappo"


@dataclass
class RatioMappoConfig(RatioConfig):
    """Settings of MAPPO with ratio diagnostics."""

    epsilon: float

    @staticmethod
    def associated_class() -> type[RatioMappo]:
        """Return the algorithm of these settings."""
        return RatioMappo


class Maspo(RatioAlgorithm):
    """MASPO."""

    objective = "maspo"


@dataclass
class MaspoConfig(RatioConfig):
    """Settings of MASPO."""

    epsilon: float

    @staticmethod
    def associated_class() -> type[Maspo]:
        """Return the algorithm of these settings."""
        return Maspo


class MappoAsymmetric(RatioAlgorithm):
    """MAPPO with an asymmetric clipping interval."""

    objective = "mappo-asymmetric"


@dataclass
class MappoAsymmetricConfig(RatioConfig):
    """Settings of asymmetric MAPPO."""

    epsilon_lower: float
    epsilon_upper: float

    @staticmethod
    def associated_class() -> type[MappoAsymmetric]:
        """Return the algorithm of these settings."""
        return MappoAsymmetric


class MaspoAsymmetric(RatioAlgorithm):
    """MASPO with asymmetric targets."""

    objective = "maspo-asymmetric"


@dataclass
class MaspoAsymmetricConfig(RatioConfig):
    """Settings of asymmetric MASPO."""

    epsilon_lower: float
    epsilon_upper: float

    @staticmethod
    def associated_class() -> type[MaspoAsymmetric]:
        """Return the algorithm of these settings."""
        return MaspoAsymmetric


class MarsMultiplicative(RatioAlgorithm):
    """MARS with the targets 1/b and b."""

    objective = "mars-multiplicative"


@dataclass
class MarsMultiplicativeConfig(RatioConfig):
    """Settings of multiplicatively symmetric MARS."""

    b: float

    @staticmethod
    def associated_class() -> type[MarsMultiplicative]:
        """Return the algorithm of these settings."""
        return MarsMultiplicative


class MarsAdditive(RatioAlgorithm):
    """MARS with the targets 2 - b and b."""

    objective = "mars-additive"


@dataclass
class MarsAdditiveConfig(RatioConfig):
    """Settings of additively symmetric MARS."""

    b: float

    @staticmethod
    def associated_class() -> type[MarsAdditive]:
        """Return the algorithm of these settings."""
        return MarsAdditive


# BenchMARL's own "mappo" is not replaced.
ALGORITHMS: dict[str, type[RatioConfig]] = {
    "mars": MarsConfig,
    "maspo": MaspoConfig,
    "ratio_mappo": RatioMappoConfig,
    "mappo_asymmetric": MappoAsymmetricConfig,
    "maspo_asymmetric": MaspoAsymmetricConfig,
    "mars_multiplicative": MarsMultiplicativeConfig,
    "mars_additive": MarsAdditiveConfig,
}
ALGORITHM_NAMES = {config: name for name, config in ALGORITHMS.items()}


def register() -> None:
    """Add the algorithms to BenchMARL's registry, and their schemas to Hydra if it is installed."""
    algorithm_config_registry.update(ALGORITHMS)
    try:
        from hydra.core.config_store import ConfigStore
    except ModuleNotFoundError:
        return
    for name, config in ALGORITHMS.items():
        ConfigStore.instance().store(name=f"{name}_config", group="algorithm", node=config)
