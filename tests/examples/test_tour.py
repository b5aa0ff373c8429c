"""The notebook: committed with its outputs, and it runs."""

import json

import pytest

from tests.example_runs import ROOT, environment

TOUR = ROOT / "examples/tour.ipynb"


def outputs(cells):
    return [output for cell in cells for output in cell.get("outputs", ())]


def test_it_is_committed_as_it_ran():
    cells = [c for c in json.loads(TOUR.read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    found = outputs(cells)
    assert not [output for output in found if output["output_type"] == "error"]
    kinds = [kind for output in found for kind in output.get("data", ())]
    assert kinds.count("image/png") >= 3
    assert "image/gif" in kinds
    assert "text/html" in kinds  # tables of pandas


@pytest.mark.slow
def test_it_runs(monkeypatch, tmp_path):
    """With a budget of a few updates."""
    import nbclient
    import nbformat

    for name, value in environment(TOUR_STEPS="8192", TMPDIR=str(tmp_path)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("JAX_NUMPY_RANK_PROMOTION")
    notebook = nbformat.read(TOUR, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=1800, resources={"metadata": {"path": ROOT}}
    ).execute()
    assert list(tmp_path.glob("tour-*/episode.gif"))
