"""Fixtures that run commands in an empty directory."""

import pytest

from ratiosym.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Change to an empty directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def ask(capsys):
    """Run a command and return its output."""

    def run_it(*words, code=0):
        try:
            main([str(word) for word in words])
            found = 0
        except SystemExit as stop:
            found = stop.code
        out, err = capsys.readouterr()
        assert found == code, err
        return err if code == 2 else out

    return run_it
