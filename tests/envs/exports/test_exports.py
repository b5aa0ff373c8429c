"""Tests of all exports: missing libraries, quiet imports, the documentation page."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ratiosym.errors import MissingLibraryError

EXPORTS = ("jaxmarl", "jumanji", "pettingzoo")
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "exports.md"
SNIPPETS = dict(
    re.findall(r"^## (\w+)\n\n```python\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
)


@pytest.mark.parametrize("library", EXPORTS)
def test_a_missing_library_says_what_to_install(library, monkeypatch):
    module = f"ratiosym.envs.exports.{library}"
    importlib.import_module(module)
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)  # as if not installed
    with pytest.raises(MissingLibraryError) as error:
        importlib.import_module(module)
    assert str(error.value) == (
        f"The export to {library} needs this library. Install it with: pip install "
        f"'ratiosym[{library}]'"
    )


def test_importing_the_exports_is_quiet():
    code = "; ".join(f"import ratiosym.envs.exports.{name}" for name in EXPORTS)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == ""


def test_the_page_has_a_snippet_for_each():
    assert [name.lower() for name in SNIPPETS] == list(EXPORTS)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("JaxMARL", r"-0\.1\d* \(101,\)"),
        ("Jumanji", r"\[-0\.1\d* .*\] \[1\. 1\. 1\. 1\.\] \(4, 25\)"),
        ("PettingZoo", r"-?\d\.\d+ \(101,\)"),
    ],
)
def test_the_pages_snippets_run(name, printed, capsys):
    exec(compile(SNIPPETS[name], name, "exec"), {})
    assert re.fullmatch(printed, capsys.readouterr().out.strip())
