"""References to user code by module or file."""

import pytest

from ratiosym.errors import InputError
from ratiosym.references import canonical_reference, is_reference, load_reference


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("class Thing: pass\nthing = Thing()\n")
    return path


def test_what_is_a_reference():
    assert is_reference("package.module:name")
    assert is_reference("path/to/file.py:name")
    for other in ("mars", "mars:", ":name", "a:b c", ""):
        assert not is_reference(other)


def test_a_module():
    assert load_reference("math:sqrt", "task")(9) == 3


def test_a_module_in_the_working_directory(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert type(load_reference("mine:thing", "task")).__name__ == "Thing"


def test_a_file_is_loaded_once(file):
    thing = load_reference(f"{file}:thing", "task")
    assert load_reference(f"{file}:thing", "task") is thing
    assert isinstance(thing, load_reference(f"{file}:Thing", "task"))


def test_a_file_is_found_from_elsewhere(file, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(file.parent)
    name = canonical_reference("mine.py:thing")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert load_reference(name, "task") is load_reference(f"{file}:thing", "task")
    assert canonical_reference("math:sqrt") == "math:sqrt"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine", "'mine' is not of the form package.module:name"),
        ("no_such_module_here:x", "there is no module 'no_such_module_here'"),
        ("math:no_such", "'math' has no 'no_such'"),
        ("nowhere/at_all.py:x", "there is no file '.*nowhere/at_all.py'"),
    ],
)
def test_what_is_missing_is_said(name, message):
    with pytest.raises(InputError, match=f"The network .*{message}"):
        load_reference(name, "network")


def test_a_file_with_a_fault_is_tried_again(tmp_path):
    path = tmp_path / "faulty.py"
    path.write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        load_reference(f"{path}:x", "task")
    path.write_text("x = 1")
    assert load_reference(f"{path}:x", "task") == 1
