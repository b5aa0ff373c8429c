"""A small study with known answers, and what a report makes of it; only read."""

import pytest

from ratiosym.report.analysis import analyse
from ratiosym.report.results import load
from tests.report.studies import make_plan, write_study


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """Two suites, three algorithms, three seeds."""
    return write_study(tmp_path_factory.mktemp("study"), make_plan())


@pytest.fixture(scope="session")
def analysis(study):
    return analyse(load(study))
