"""Files that people can edit, changed at random: every reader either refuses with an InputError or
gives back exactly what the file says. No traceback, nothing accepted in silence.
"""

import contextlib
import copy
import json
import math
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ratiosym.errors import InputError
from ratiosym.experiments.built_in import BUILT_IN
from ratiosym.experiments.plans import Plan, read_plan
from ratiosym.experiments.presets import configure, read_settings
from ratiosym.experiments.settings import Pair, read_tuned
from ratiosym.experiments.study import read_notes, read_study
from ratiosym.experiments.tuning import Search
from ratiosym.experiments.tuning.run import check_same_search, identity
from ratiosym.experiments.tuning.seeds import read_value_of_seed
from ratiosym.experiments.tuning.storage import JournalFile
from ratiosym.runs import checkpoint
from ratiosym.runs.directory import Run, find_runs, read_run_record
from ratiosym.runs.files import read_json
from ratiosym.runs.loop import find_checkpoints
from ratiosym.runs.trained import load_run

TASK = "mpe-spread-3ag"
CONFIG = configure(TASK, "smoke")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([TASK, "mars", "mappo", "gru", "paper", "1", "true", ".", "/", "a" * 300]),
)
values = st.recursive(
    scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3)
)
fuzzed = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def places(data, path=()):
    """Every place in nested data."""
    entries = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@st.composite
def edits(draw, data):
    """Data with one place replaced, removed or added."""
    data = copy.deepcopy(data)
    *above, key = draw(st.sampled_from(list(places(data))))
    place = data
    for step in above:
        place = place[step]
    action = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
    if action == "remove":
        del place[key]
    elif action == "add" and isinstance(place, dict):
        place[draw(st.text(max_size=5))] = draw(values)
    else:
        place[key] = draw(values)
    return data


def agrees(given, found):
    """Whether everything that was given is in what was read, with its value and kind."""
    if isinstance(given, dict):
        return isinstance(found, dict) and all(agrees(given[k], found.get(k)) for k in given)
    if isinstance(given, list):
        return len(given) == len(found) and all(map(agrees, given, found))
    if isinstance(given, bool) or isinstance(found, bool):
        return given is found
    is_number = isinstance(given, int | float) and isinstance(found, int | float)
    return given == found if is_number else (type(given), given) == (type(found), found)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


@fuzzed
@given(edits({"config": CONFIG.to_dict(), "track": ["tensorboard"], "seeds": [0, 1], "spec": {}}))
def test_config_json(tmp_path, data):
    path = write(tmp_path / "config.json", data)
    for read in (lambda: find_runs(tmp_path)[0].config, lambda: read_settings(path)):
        try:
            config = read()
        except InputError:
            continue
        config.validate()
        assert agrees(data["config"], config.to_dict())
    try:
        record = read_run_record(path)
    except InputError:
        return
    assert agrees(data.get("track", []), list(record.track))
    assert agrees(data.get("seeds", []), list(record.seeds))


@fuzzed
@given(edits({"config": CONFIG.to_dict(), "seeds": [0, 1]}))
def test_seeds_json(tmp_path, data):
    write(tmp_path / "seeds.json", data)
    try:
        runs = find_runs(tmp_path)
    except InputError:
        return
    assert agrees(data["seeds"], [run.config.seed for run in runs])
    assert all(run.directory.parent == tmp_path for run in runs)


@fuzzed
@given(edits({"plan": json.loads(json.dumps(BUILT_IN["smoke"].to_dict()))}))
def test_plan_json(tmp_path, data):
    write(tmp_path / "plan.json", data)
    try:
        plan = read_study(tmp_path)
    except InputError:
        return
    found = json.loads(json.dumps(plan.to_dict()))
    del data["plan"]["algorithms"], found["algorithms"]  # may be names alone
    assert agrees(data["plan"], found)
    assert plan.runs()


@fuzzed
@given(st.text() | st.binary())
def test_plans_that_are_no_plans(tmp_path, text):
    path = tmp_path / "plan.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    with pytest.raises(InputError):
        read_plan(path)


@fuzzed
@given(
    edits(
        {
            "name": "mine",
            "algorithms": ["mars", {"objective": "mappo", "options": {"epsilon": 0.1}}],
            "tasks": [TASK],
            "seeds": [0],
            "preset": "smoke",
            "options": {"steps": 512, "hidden_size": 8},
            "task_options": {TASK: {"discount": 0.9}},
        }
    )
)
def test_plans(data):
    try:
        plan = Plan.from_dict(data)
    except InputError:
        return
    assert agrees(data["tasks"], list(plan.tasks))
    assert all(run.config.steps >= 1 for run in plan.runs())


@fuzzed
@given(st.data())
def test_search_json(tmp_path, data):
    search = Search(CONFIG, 2, tmp_path, (1000,))
    right = identity(search)
    found = data.draw(edits(right))
    try:
        check_same_search(search, read_json(write(tmp_path / "search.json", found)))
    except InputError:
        return
    assert {name: found[name] for name in right} == right


@fuzzed
@given(edits({"config": {"config": CONFIG.to_dict()}, "summary": {"value": 1.5, "seconds": 3.0}}))
def test_records_of_a_seed_of_a_trial(tmp_path, data):
    for name in ("config", "summary"):
        write(tmp_path / f"{name}.json", data.get(name))
    value = read_value_of_seed(tmp_path, CONFIG)
    if value is None:  # it is trained again
        return
    assert agrees(data["config"]["config"], CONFIG.to_dict())
    assert math.isfinite(value)
    assert value == data["summary"]["value"]


PAIR = Pair(TASK, "mars", "mars")
ENTRY = {
    "objective": "mars",
    "options": {"b_lower": 0.5, "b_upper": 2.0},
    "value": 1.5,
    "seeds": {"1000": 1.5},
    "steps": 256,
    "trial": 3,
    "trials": {"complete": 4, "pruned": 0, "diverged": 0},
    "search": "tuning/x",
}


def read_options(directory):
    """The options of the pair, if they make a configuration."""
    options = read_tuned(directory, [PAIR])[TASK]["mars"]
    configure(TASK, "smoke", **options)
    return options


@fuzzed
@given(edits({"settings": {TASK: {"mars": ENTRY}}}))
def test_settings_json(tmp_path, data):
    write(tmp_path / "settings.json", data)
    try:
        options = read_options(tmp_path)
    except InputError:
        return
    assert agrees(data["settings"][TASK]["mars"]["options"], options)


@fuzzed
@given(edits({**ENTRY, "params": ENTRY["options"], "config": CONFIG.to_dict()}))
def test_best_json(tmp_path, data):
    write(tmp_path / PAIR.place / "best.json", data)
    try:
        options = read_options(tmp_path)
    except InputError:
        return
    assert agrees(data["params"], options)


@pytest.fixture(scope="module")
def journal():
    """The journal of a search with a finished trial."""
    with tempfile.TemporaryDirectory() as directory:
        storage = JournalFile(Path(directory)).storage
        study = optuna.create_study(storage=storage, study_name="search")
        study.tell(study.ask(), 1.5)
        return (Path(directory) / "journal.log").read_bytes().splitlines(keepends=True)


@fuzzed
@given(st.data())
def test_a_journal_with_a_changed_line(tmp_path, journal, data):
    number = data.draw(st.integers(0, len(journal) - 1))
    record = json.loads(journal[number])
    changed = data.draw(edits(record).map(json.dumps) | st.text(max_size=40))
    lines = [*journal[:number], f"{changed}\n".encode(errors="replace"), *journal[number + 1 :]]
    (tmp_path / "journal.log").write_bytes(b"".join(lines))
    with contextlib.suppress(InputError):
        JournalFile(tmp_path)


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"op_code": 99}\n', b"\xff\n"])
def test_a_journal_with_a_damaged_last_line(tmp_path, journal, line):
    (tmp_path / "journal.log").write_bytes(b"".join([*journal, line]))
    with pytest.raises(InputError, match=r"is damaged\. Delete it and run the same command again"):
        JournalFile(tmp_path)


@fuzzed
@given(edits({"steps": 5, "mean_return": 1.5, "steps_per_second": 3.0, "timed_steps": 4}))
def test_notes_of_a_worker(tmp_path, data):
    """They only serve the display: what does not fit is left out."""
    notes = read_notes(write(tmp_path / "notes.json", data))
    assert all(type(value) in (int, float) for value in notes.values())


# -------------------------------------------------------------------------------------- checkpoints

ROW = {"update": 0, "mean_return": -1.5}
META = {
    "update": 0,
    "config": CONFIG.to_dict(),
    "spec": {
        "name": "x",
        "num_agents": 1,
        "observation_size": 1,
        "state_size": 1,
        "action": {"kind": "discrete", "num_actions": 2},
        "time_limit": 3,
        "metrics": [],
        "usual_length": None,
    },
    "versions": {},
    "returns": {"first": ROW, "best": ROW, "last": ROW},
    "tables": {name: {"num_bytes": 0, "sha256": "x"} for name in ("evaluations", "training")},
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run with a checkpoint of one array."""
    directory = tmp_path_factory.mktemp("saved")
    write(directory / "config.json", {"config": CONFIG.to_dict()})
    checkpoint.save(directory / "checkpoint", {"x": np.ones(3)}, checkpoint.Meta(**META))
    return directory


def replace_meta(directory, meta, listing=None):
    """Meta data in a checkpoint whose checksums are right, unless others are given."""
    place = directory / "checkpoint" / "0"
    write(place / checkpoint.META, meta)
    right = {"format": checkpoint.FORMAT, "files": checkpoint.checksums(place)}
    write(place / checkpoint.LISTING, right if listing is None else listing)


@fuzzed
@given(edits(META))
def test_meta_json(saved, meta):
    replace_meta(saved, meta)
    try:
        found, config, spec = load_run(saved)
        assert found.meta.update == 0
        assert agrees(meta["config"], config.to_dict())
        assert agrees(meta["spec"], spec.to_dict())
    except InputError:
        pass
    run = Run(saved, CONFIG)
    try:
        find_checkpoints(saved, [run])
    except InputError:
        return
    assert run.returns is not None
    run.note_evaluation({"update": 2, "mean_return": 1.0})  # what training does next
    assert run.returns.last["update"] == 2


@pytest.mark.parametrize("which", ["first", "best", "last"])
@pytest.mark.parametrize("row", [{}, {"update": 0}, {"update": 0, "mean_return": "high"}])
def test_evaluations_that_say_nothing(saved, which, row):
    replace_meta(saved, {**META, "returns": {**META["returns"], which: row}})
    with pytest.raises(InputError, match="is damaged"):
        find_checkpoints(saved, [Run(saved, CONFIG)])


@fuzzed
@given(st.data())
def test_files_json(saved, data):
    replace_meta(saved, META)
    place = saved / "checkpoint" / "0"
    right = json.loads((place / checkpoint.LISTING).read_text())
    listing = data.draw(edits(right))
    write(place / checkpoint.LISTING, listing)
    try:
        checkpoint.load(saved / "checkpoint")
    except InputError:
        return
    assert {name: listing[name] for name in right} == right


@fuzzed
@given(st.binary(max_size=200), st.sampled_from(["files.json", "meta.json", "state/_METADATA"]))
def test_files_of_a_checkpoint_that_are_something_else(saved, content, name):
    replace_meta(saved, META)
    path = saved / "checkpoint" / "0" / name
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        with pytest.raises(InputError):
            checkpoint.load(saved / "checkpoint")
    finally:
        path.write_bytes(before)


def test_a_plan_in_toml_is_read(tmp_path):
    """What the tests above change at random is right to begin with."""
    text = f'name = "mine"\nalgorithms = ["mars"]\ntasks = ["{TASK}"]\nseeds = [0]\n'
    (tmp_path / "plan.toml").write_text(text)
    assert read_plan(Path(tmp_path / "plan.toml")) == Plan.from_dict(tomllib.loads(text))
