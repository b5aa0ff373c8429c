"""Settings for the tests in PyTorch's environment."""

import pytest
import torch

torch.set_num_threads(1)  # the networks are tiny


def pytest_configure(config: pytest.Config) -> None:
    # Warnings are errors, except those between libraries.
    for line in ("ignore::DeprecationWarning", "ignore::FutureWarning"):
        config.addinivalue_line("filterwarnings", line)
