"""The seven objectives as BenchMARL algorithms: its MAPPO with another loss.

    from ratiosym.benchmarl import MarsConfig
    Experiment(algorithm_config=MarsConfig.get_from_yaml(), task=..., model_config=..., ...)

    python -m benchmarl.run algorithm=mars task=vmas/balance algorithm.b_upper=2.0

Importing this module adds the algorithms to BenchMARL's registry. ``benchmarl.run`` finds them
without an import, through a Hydra plugin that is installed with this package.
"""

from ratiosym.benchmarl.algorithms import (
    ALGORITHMS,
    CONFIGURATIONS,
    MappoAsymmetric,
    MappoAsymmetricConfig,
    Mars,
    MarsAdditive,
    MarsAdditiveConfig,
    MarsConfig,
    MarsMultiplicative,
    MarsMultiplicativeConfig,
    Maspo,
    MaspoAsymmetric,
    MaspoAsymmetricConfig,
    MaspoConfig,
    RatioConfig,
    RatioMappo,
    RatioMappoConfig,
    register,
)

__all__ = [
    "ALGORITHMS",
    "CONFIGURATIONS",
    "MappoAsymmetric",
    "MappoAsymmetricConfig",
    "Mars",
    "MarsAdditive",
    "MarsAdditiveConfig",
    "MarsConfig",
    "MarsMultiplicative",
    "MarsMultiplicativeConfig",
    "Maspo",
    "MaspoAsymmetric",
    "MaspoAsymmetricConfig",
    "MaspoConfig",
    "RatioConfig",
    "RatioMappo",
    "RatioMappoConfig",
    "register",
]

register()
