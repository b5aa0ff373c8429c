"""Links, source files and functions named in the documentation exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.example_runs import ROOT

PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "results/**/*.md")
    for page in ROOT.glob(pattern)
)
HOMES = (ROOT, ROOT / "src/ratiosym", ROOT / "src", ROOT / "docs")


def page_id(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_linked_files_exist(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    files = [link for link in links if "://" not in link and not link.startswith("mailto:")]
    missing = [link for link in files if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_source_files_exist(page):
    if page.name == "CHANGELOG.md":
        return  # it describes the past
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w-]+\.py)`", page.read_text()))
    missing = [name for name in named if not any((home / name).exists() for home in HOMES)]
    assert not [name for name in missing if not name.startswith(("path/", "mine/"))]


def test_functions_of_the_paper_map_exist():
    """``file.py` (`name`)`` and ``objectives.name``."""
    text = (ROOT / "docs/paper/equations.md").read_text()
    named = re.findall(r"`([\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", text)
    assert len(named) > 5
    for file, names in named:
        tree = ast.parse((ROOT / "src/ratiosym" / file).read_text())
        defined = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
        assert set(re.findall(r"\w+", names)) <= defined, file
    objectives = ast.parse(Path(ROOT / "src/ratiosym/objectives.py").read_text())
    defined = {node.name for node in ast.walk(objectives) if hasattr(node, "name")}
    assert set(re.findall(r"`objectives\.((?!py)[a-z_]+)`", text)) <= defined
