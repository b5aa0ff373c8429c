"""Checkpoints: restored bit for bit; damaged or foreign ones are rejected and left unchanged."""

import dataclasses
import json
import resource
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ratiosym.learning.learner import TrainState
from ratiosym.learning.train import split_seeds
from ratiosym.runs import checkpoint
from ratiosym.runs.checkpoint import (
    Checkpoint,
    CheckpointError,
    Meta,
    load,
    save,
    updates,
)
from ratiosym.runs.state import flatten, is_key, restore, unflatten
from tests.example_runs import contents
from tests.learning import helpers

META = Meta(
    update=2,
    config={"task": "drift", "steps": 10},
    spec={"name": "drift"},
    returns={"last": {"std_return": 0.1}},
    tables={"training": {"num_bytes": 7, "sha256": "00"}},
)


@pytest.fixture(scope="module")
def learner():
    return helpers.make(num_seeds=2)


@pytest.fixture(scope="module")
def state(learner):
    """Two seeds, with distinct numbers where a fresh state has 0 or infinity."""
    rng = np.random.default_rng(0)
    fresh = helpers.start(learner, 3, 4)
    mu = jax.tree.map(
        lambda x: jnp.array(rng.normal(size=x.shape), x.dtype), fresh.optimiser.actor.mu
    )
    optimiser = fresh.optimiser._replace(actor=fresh.optimiser.actor._replace(mu=mu))
    return fresh._replace(optimiser=optimiser, best_return=jnp.array([0.1, -jnp.inf], jnp.float32))


def key_free(state):
    return jax.tree.map(lambda x: jax.random.key_data(x) if is_key(x) else x, state)


def save_seed(directory, state, update=2):
    one = split_seeds(jax.device_get(key_free(state)), 2)[0]
    save(directory, flatten(one), dataclasses.replace(META, update=update))


@pytest.fixture
def saved(state, tmp_path):
    save_seed(tmp_path / "checkpoint", state)
    return tmp_path / "checkpoint"


# --------------------------------------------------------------------------------------- round trip


def test_a_whole_state_comes_back_bit_for_bit(learner, state, tmp_path):
    for seed, seed_state in enumerate(split_seeds(jax.device_get(key_free(state)), 2)):
        save(tmp_path / str(seed), flatten(seed_state), META)
    back = restore(learner, [load(tmp_path / "0"), load(tmp_path / "1")])
    assert isinstance(back, TrainState)
    assert jax.tree.structure(back) == jax.tree.structure(state)
    num_keys = 0
    for (path, one), other in zip(
        jax.tree_util.tree_leaves_with_path(state), jax.tree.leaves(back), strict=True
    ):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), path
        if is_key(one):
            num_keys += 1
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes(), path
    assert num_keys > 0
    assert back.groups.key.sharding.spec == state.groups.key.sharding.spec
    assert back.best_return.tolist() == [np.float32(0.1), -np.inf]


def test_facts_come_back(saved):
    assert load(saved).meta == META


def test_a_checkpoint_can_be_moved(saved, state, tmp_path):
    moved = tmp_path / "far" / "away"
    shutil.copytree(saved, moved)
    before = load(saved).arrays
    shutil.rmtree(saved)
    after = load(moved).arrays
    assert before.keys() == after.keys()
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_flatten_and_unflatten():
    tree = {
        "a": (jnp.arange(3.0), [jnp.int32(7)]),
        "key": jax.random.key(5),
        "none": jnp.zeros((4, 0)),
    }
    flat = flatten(tree)
    assert flat.keys() == {"a/0", "a/1/0", "key", "none"}
    assert flat["key"].tolist() == jax.random.key_data(jax.random.key(5)).tolist()
    like = jax.eval_shape(lambda: tree)
    del flat["none"]  # only its shape is stored
    back = unflatten(flat, like)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    assert back["a"][0].tolist() == [0.0, 1.0, 2.0]
    assert back["a"][1][0] == 7
    assert back["none"].shape == (4, 0)
    prefixed = unflatten({f"best/{name}": x for name, x in flat.items()}, like, "best/")
    assert prefixed["a"][0].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("arrays", "holds"),
    [
        ({}, "nothing"),
        ({"x": np.zeros((3, 2), np.float32)}, r"float32\[3, 2\]"),
        ({"x": np.zeros((2, 3))}, r"float64\[2, 3\]"),
    ],
)
def test_unflatten_refuses_what_does_not_fit(arrays, holds):
    like = {"x": jax.ShapeDtypeStruct((2, 3), np.float32)}
    with pytest.raises(
        CheckpointError,
        match=rf"'x' should be float32\[2, 3\], but it contains {holds}\. It may come from",
    ):
        unflatten(arrays, like)


def test_restore_refuses_another_task(state, learner, saved):
    other = helpers.make(helpers.Drift(num_agents=3), num_seeds=2)
    found = load(saved)
    before = contents(saved)
    with pytest.raises(
        CheckpointError, match=r"does not match this task and these settings: 'params/.*' should be"
    ):
        restore(other, [found, found])
    larger = helpers.make(num_seeds=2, hidden_size=16)
    with pytest.raises(CheckpointError, match="does not match this task and these settings"):
        restore(larger, [found, found])
    assert contents(saved) == before


def test_restore_refuses_a_part(learner, saved):
    found = load(saved)
    arrays = dict(found.arrays)
    name = next(name for name in arrays if name.startswith("optimiser/"))
    del arrays[name]
    with pytest.raises(CheckpointError, match=f"'{name}' should be .* but it contains nothing"):
        restore(learner, [Checkpoint(arrays, found.meta)] * 2)


# ------------------------------------------------------------------------------------------- damage


def data_files(path):
    """Return the files with array data, largest first."""
    return sorted(
        (p for p in (path / "state").rglob("d/*") if p.is_file()), key=lambda p: -p.stat().st_size
    )


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, lambda p: p.unlink(), lambda p: p.write_bytes(b"")])
@pytest.mark.parametrize(
    "which",
    [
        lambda path: data_files(path)[0],
        lambda path: data_files(path)[-1],
        lambda path: path / checkpoint.META,
        lambda path: path / "state" / "_METADATA",
        lambda path: path / checkpoint.LISTING,
    ],
    ids=["largest", "smallest", "meta", "names", "listing"],
)
def test_damage_is_noticed_and_nothing_is_changed(state, saved, capfd, which, damage):
    path = which(saved / "2")
    damage(path)
    before = contents(saved)
    with pytest.raises(CheckpointError, match=r"The checkpoint '.*2' is damaged \(") as error:
        load(saved)
    assert path.name in str(error.value) or (
        path.name == checkpoint.LISTING and damage is flip
    )  # a wrong name there
    assert "Nothing was changed; start a new run in another directory." in str(error.value)
    assert contents(saved) == before
    assert capfd.readouterr() == ("", "")  # nothing else is printed


def test_the_way_out_of_damage_is_named(state, saved):
    save_seed(saved, state, update=4)
    flip(data_files(saved / "4")[0])
    with pytest.raises(
        CheckpointError, match=r"update 2 is still there: remove '.*4' to resume from it"
    ) as error:
        load(saved)
    assert f"remove '{saved / '4'}'" in str(error.value)
    assert load(saved, 2).meta.update == 2
    shutil.rmtree(saved / "4")
    assert load(saved).meta.update == 2


@pytest.mark.parametrize("files", [None, {}, [], {"meta.json": "0"}, "text", 3])
def test_a_listing_that_lists_nothing_does_not_switch_the_check_off(saved, files):
    listing = {"format": checkpoint.FORMAT, "files": files}
    (saved / "2" / checkpoint.LISTING).write_text(json.dumps(listing))
    with pytest.raises(CheckpointError, match=r"is damaged \(files\.json does not list its files"):
        load(saved)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "needs 'update'"),
        ("[]", "it must be a table of names and values"),
        ('{"update": "2"}', "'update' is '2'; it must be a whole number"),
        ('{"update": 3}', "is of update 3"),
        ("{", "Expecting"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_facts_that_cannot_be(saved, text, message):
    """Even if the checksums have been adjusted."""
    (saved / "2" / checkpoint.META).write_text(text)
    listing = {"format": checkpoint.FORMAT, "files": checkpoint.checksums(saved / "2")}
    (saved / "2" / checkpoint.LISTING).write_text(json.dumps(listing))
    with pytest.raises(CheckpointError, match=rf"is damaged \(meta\.json.*{message}"):
        load(saved)


@pytest.mark.parametrize("name", ["²", "٣", "07", "-1", "1e3", "9" * 30])
def test_what_only_looks_like_a_number_is_no_checkpoint(saved, name):
    (saved / name).mkdir()
    (saved / "5").write_text("a file")
    assert updates(saved) == [2]
    assert load(saved).meta.update == 2


@pytest.fixture
def small_files():
    """Limit files to 2,000 bytes, which looks like a full disk to a library."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("num_arrays", [1, 200])  # with many, some are still being written
def test_a_save_that_fails_says_why_and_leaves_what_was_there(tmp_path, capfd, num_arrays):
    save(tmp_path, {"x": np.zeros(3, np.float32)}, Meta(2))
    before = contents(tmp_path)
    rng = np.random.default_rng(0)
    with pytest.raises(OSError, match=r"^File too large$"):
        save(tmp_path, {str(i): rng.normal(size=1_000) for i in range(num_arrays)}, Meta(4))
    assert contents(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["2"]
    assert capfd.readouterr() == ("", "")  # no traceback of the library


def test_a_directory_that_has_gone_is_not_made_again(tmp_path):
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "moved" / "checkpoint", {"x": np.zeros(3)}, Meta(2))
    assert list(tmp_path.iterdir()) == []


def test_a_planted_link_is_not_followed(tmp_path):
    outside, place = tmp_path / "outside", tmp_path / "checkpoint"
    outside.mkdir()
    (outside / "thesis.tex").write_text("mine")
    place.mkdir()
    (place / ".writing-2").symlink_to(outside)
    save(place, {"x": np.zeros(3)}, Meta(2))
    assert contents(outside) == {"thesis.tex": b"mine"}
    assert [p.name for p in place.iterdir()] == ["2"]


def test_another_format_is_named(saved):
    listing = json.loads((saved / "2" / checkpoint.LISTING).read_text())
    (saved / "2" / checkpoint.LISTING).write_text(json.dumps({**listing, "format": 99}))
    before = contents(saved)
    with pytest.raises(
        CheckpointError, match=r"has format 99; this version of ratiosym reads format 2\. Use the"
    ):
        load(saved)
    assert contents(saved) == before


def test_no_checkpoint(tmp_path):
    with pytest.raises(
        CheckpointError,
        match=r"There is no checkpoint in .*'ratiosym train TASK --out DIR' creates one",
    ):
        load(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


# ------------------------------------------------------------------------------------- housekeeping


def test_the_newest_two_are_kept(state, tmp_path):
    for update in (0, 2, 4, 10):
        save_seed(tmp_path, state, update=update)
    assert updates(tmp_path) == [4, 10]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["10", "4"]
    assert load(tmp_path).meta.update == 10
    assert load(tmp_path, 4).meta.update == 4


@pytest.mark.parametrize(
    "name", [".writing-4", ".writing-4.orbax-checkpoint-tmp", ".writing-0-old"]
)
def test_what_an_interrupted_save_leaves_is_ignored_and_then_removed(state, saved, name):
    (saved / name / "state").mkdir(parents=True)
    (saved / name / "state" / "half").write_text("a file")
    assert updates(saved) == [2]
    assert load(saved).meta.update == 2
    save_seed(saved, state, update=6)
    assert sorted(p.name for p in saved.iterdir()) == ["2", "6"]


def test_saving_an_update_again_replaces_it(state, saved):
    other = state._replace(best_return=state.best_return + 1)
    save_seed(saved, other)
    assert updates(saved) == [2]
    assert load(saved).arrays["best_return"] == np.float32(0.1) + np.float32(1)


@pytest.mark.parametrize("moment", ["before the arrays", "after the arrays"])
def test_a_directory_that_is_moved_while_it_is_written_does_not_reappear(
    tmp_path, state, monkeypatch, moment
):
    run, write = tmp_path / "out", checkpoint._write_state
    run.mkdir()

    def write_state(path, arrays):
        if moment == "after the arrays":
            write(path, arrays)
        run.rename(tmp_path / "moved")
        if moment == "before the arrays":
            write(path, arrays)

    monkeypatch.setattr(checkpoint, "_write_state", write_state)
    with pytest.raises(FileNotFoundError):
        save_seed(run / "checkpoint", state)
    assert not run.exists()


def test_what_somebody_put_in_the_place_of_a_moved_directory_is_kept(tmp_path, state, monkeypatch):
    directory, write = tmp_path / "out" / "checkpoint", checkpoint._write_state
    directory.mkdir(parents=True)

    def write_state(path, arrays):
        directory.parent.rename(tmp_path / "moved")
        directory.mkdir(parents=True)
        (directory / "other").touch()
        write(path, arrays)

    monkeypatch.setattr(checkpoint, "_write_state", write_state)
    with pytest.raises(FileNotFoundError):
        save_seed(directory, state)
    assert [p.name for p in directory.iterdir()] == ["other"]
