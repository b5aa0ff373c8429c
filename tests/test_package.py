"""What is published: the metadata, the extras, and the wheel in an environment of its own."""

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from ratiosym.cli import main
from ratiosym.cli.tasks import Tasks
from ratiosym.errors import EXTRAS, missing_library
from tests.example_runs import ROOT, environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIBRARIES = sysconfig.get_paths()["purelib"]
CORE = ("array_api_compat", "jaxtyping", "numpy", "numpy.libs", "wadler_lindig")


# ------------------------------------------------------------------------------------------- extras


def test_a_missing_library_is_named_with_its_extra(monkeypatch, capsys):
    def run(self):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib.figure")

    monkeypatch.setattr(Tasks, "run", run)
    with pytest.raises(SystemExit) as ended:
        main(["tasks"])
    assert ended.value.code == 2
    assert "pip install 'ratiosym[report]'" in capsys.readouterr().err


def test_other_import_errors_are_not_hidden(monkeypatch):
    def run(self):
        raise ModuleNotFoundError("No module named 'mine'", name="mine")

    monkeypatch.setattr(Tasks, "run", run)
    with pytest.raises(ModuleNotFoundError, match="mine"):
        main(["tasks"])


def test_every_extra_that_a_message_names_installs_the_library():
    offered = PROJECT["optional-dependencies"]
    of_library = {"PIL": "pillow", "orbax": "orbax-checkpoint", "jaxlib": "jax"}
    for library, extra in EXTRAS.items():
        wanted = of_library.get(library, library)
        assert any(line.startswith(wanted) for line in offered[extra]), library
        assert f"ratiosym[{extra}]" in str(missing_library(ModuleNotFoundError(name=library)))


def test_the_core_is_what_objectives_need():
    found = {line.partition(">")[0] for line in PROJECT["dependencies"]}
    assert found == {"array-api-compat", "jaxtyping", "numpy"}


def test_all_has_every_extra_but_those_of_pytorch():
    offered = PROJECT["optional-dependencies"]

    def reached(extra):
        (own,) = [line for line in offered[extra] if line.startswith("ratiosym[")] or [""]
        inner = own.removeprefix("ratiosym[").rstrip("]").split(",") if own else []
        return {extra}.union(*map(reached, inner))

    assert reached("all") == set(offered) - {"torch", "benchmarl"}


def test_versions_agree():
    assert f"version: {PROJECT['version']}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


# --------------------------------------------------------------------------------- habits on GitHub


SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "citation-file-format": "CITATION.cff",
}


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_for_github_keep_their_schemas(schema):
    """The schemas that check-jsonschema ships: no request to the network."""
    files = sorted(ROOT.glob(SCHEMAS[schema]))
    assert files
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    subprocess.run([*check, *files], check=True)


def test_workflows_run_what_the_makefile_offers():
    targets = (ROOT / "Makefile").read_text()
    text = (ROOT / ".github/workflows/test.yml").read_text()
    for target in ("lint", "test", "docs"):
        assert f"run: make {target}" in text
        assert f"\n{target}: " in targets
    for number in ("3.11", "3.12", "3.13"):
        assert number in text
        assert f"Programming Language :: Python :: {number}" in PROJECT["classifiers"]


# -------------------------------------------------------------------------------- wheel and sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, built from a copy of the committed files and new ones."""
    place = tmp_path_factory.mktemp("build")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in files.splitlines():
        if name.startswith("src/") or "/" not in name:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    script = "from setuptools import build_meta as b; b.build_wheel('.'); b.build_sdist('.')"
    subprocess.run([sys.executable, "-c", script], cwd=place, check=True, capture_output=True)
    (wheel,), (sdist,) = place.glob("*.whl"), place.glob("*.tar.gz")
    return wheel, sdist


def wanted_files():
    """Everything below src/ratiosym that is not generated."""
    home = ROOT / "src"
    return {
        path.relative_to(home).as_posix()
        for path in (home / "ratiosym").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_wheel_and_sdist_are_complete(built):
    wheel, sdist = built
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    assert wanted_files() <= inside
    assert "hydra_plugins/ratiosym_benchmarl.py" in inside
    assert not [name for name in inside if name.startswith(("tests", "docs", "examples"))]
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in wanted_files()} <= inside
    assert {"README.md", "LICENSE", "pyproject.toml"} <= inside


def make_environment(place, wheel, libraries):
    """An environment with the wheel and nothing else but what ``libraries`` holds."""
    venv.create(place, symlinks=True)
    python = place / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    install = [*pip, "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    (purelib,) = place.glob("lib/python*/site-packages")
    (purelib / "libraries.pth").write_text(f"{libraries}\n")
    return python


def run(python, *words, cwd, expect=0):
    """Outside the repository, without its paths."""
    variables = {k: v for k, v in environment().items() if k != "PYTHONPATH"}
    command = [str(word) for word in (python, *words)]
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_the_wheel_trains_reports_and_films(built, tmp_path):
    """With the libraries of this environment beside it, not its editable ratiosym."""
    python = make_environment(tmp_path / "env", built[0], LIBRARIES)
    ratiosym = tmp_path / "env/bin/ratiosym"
    where = run(python, "-c", "import ratiosym; print(ratiosym.__file__)", cwd=tmp_path).stdout
    assert Path(where.strip()).is_relative_to(tmp_path / "env")
    plan = 'name = "one"\ntasks = ["paxmen-4a"]\nseeds = [0, 1]\npreset = "smoke"\n'
    (tmp_path / "one.toml").write_text(plan + 'algorithms = ["mars"]\n')
    run(ratiosym, "study", "run", "one.toml", "--out", "one", "--workers", "1", cwd=tmp_path)
    run(ratiosym, "report", "one", cwd=tmp_path)
    assert "<html" in (tmp_path / "one/report.html").read_text()
    trained = tmp_path / "one/runs/paxmen-4a/mars/seed-0"
    assert json.loads((trained / "summary.json").read_text())["steps"] > 0
    run(ratiosym, "render", trained, "--out", "film.gif", cwd=tmp_path)
    assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF")


@pytest.mark.slow
def test_the_core_alone_has_objectives_and_says_what_else_to_install(built, tmp_path):
    libraries = tmp_path / "core"
    libraries.mkdir()
    for name in CORE:
        if Path(LIBRARIES, name).exists():
            (libraries / name).symlink_to(Path(LIBRARIES, name))
    for name in ("jaxtyping", "array-api-compat", "numpy"):  # they ask for their own versions
        about = Path(str(distribution(name)._path))
        (libraries / about.name).symlink_to(about)
    python = make_environment(tmp_path / "env", built[0], libraries)
    use = (
        "import numpy as np; from ratiosym.objectives import get_objective as get; m = get('mars');"
        "print(m.surrogate(np.zeros(1), np.ones(1), m.bounds()))"
    )
    assert run(python, "-c", use, cwd=tmp_path).stdout == "[1.]\n"
    ratiosym = tmp_path / "env/bin/ratiosym"
    assert "study run" in run(ratiosym, "--help", cwd=tmp_path).stdout
    for words in (["train", "paxmen-4a", "--preset", "smoke"], ["doctor"], ["demo"]):
        message = run(ratiosym, *words, cwd=tmp_path, expect=2).stderr
        assert "pip install 'ratiosym[" in message
    done = run(python, "-c", "import ratiosym; ratiosym.train", cwd=tmp_path, expect=1)
    assert "pip install 'ratiosym[train]'" in done.stderr
    assert not (tmp_path / "runs").exists()
