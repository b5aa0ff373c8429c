"""Pictures and the export to Tacview."""

import jax.numpy as jnp
import numpy as np

from ratiosym.envs.aerojax.combat import SHOT, Locks
from ratiosym.envs.aerojax.env import dogfight
from ratiosym.envs.aerojax.render import acmi
from tests.envs.aerojax.scenes import ENV, scene

PLACES = [[0, 0, 5000], [0, 1500, 6000], [700, 0, 5000], [3000, -2000, 4000]]


def engagement():
    state = scene(PLACES, [0, 45, 0, 180], [0, 40, 0, 0])
    locks = Locks(jnp.array([[0, -1], [-1, -1]], jnp.int32), jnp.array([[1.0, 0.0], [0.0, 0.0]]))
    return state._replace(health=jnp.array([1.0, 0.5, 0.4, 1.0]), locks=locks)


def test_a_picture_shows_everything():
    state = engagement()
    image = ENV.draw(state)
    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert image.shape[2] == 3
    height, width = image.shape[:2]
    assert height > 400
    assert width > 400
    colours = {tuple(c) for c in image.reshape(-1, 3)}
    assert (0, 90, 170) in colours  # ours
    assert (205, 75, 0) in colours  # theirs
    assert (200, 0, 60) in colours  # the lock


def test_pictures_follow_the_state():
    state = engagement()
    image = ENV.draw(state)
    turned = state._replace(flight=state.flight._replace(lift=-state.flight.lift))
    hurt = state._replace(health=state.health.at[0].set(0.2))
    dead = state._replace(fate=state.fate.at[3].set(SHOT))
    free = state._replace(locks=Locks(jnp.full((2, 2), -1, jnp.int32), jnp.zeros((2, 2))))
    for other in (turned, hurt, dead, free):
        assert (ENV.draw(other) != image).any()
    np.testing.assert_array_equal(ENV.draw(state), image)


def test_history_leaves_trails():
    state = engagement()
    earlier = state._replace(
        flight=state.flight._replace(position=state.flight.position - jnp.array([[600.0, 0, 0]]))
    )
    with_trail = ENV.draw(state, history=[earlier])
    changed = (with_trail != ENV.draw(state)).any(axis=-1)
    assert 10 < changed.sum() < 0.02 * changed.size


def test_sixteen_aircraft_fit():
    places = np.random.default_rng(0).uniform(-5000, 5000, (16, 3)) + np.array([0, 0, 6000])
    assert (
        dogfight(8).draw(scene(places, np.arange(16) * 20.0)).shape == ENV.draw(engagement()).shape
    )


def parse(text):
    """Parse the format independently: frames of {id: properties}, removals, events."""
    lines = text.splitlines()
    assert lines[0] == "FileType=text/acmi/tacview"
    assert lines[1] == "FileVersion=2.2"
    time, frames, removed, events = None, {}, [], []
    for line in lines[2:]:
        if line.startswith("#"):
            time = float(line[1:])
            frames[time] = {}
        elif line.startswith("-"):
            removed.append((time, int(line[1:], 16)))
        elif line.startswith("0,"):
            name, value = line[2:].split("=", 1)
            if name == "Event":
                events.append((time, value.split("|")))
        else:
            identity, *properties = line.split(",")
            frames[time][int(identity, 16)] = dict(p.split("=", 1) for p in properties)
    return frames, removed, events


def test_tacview_reads_back_what_was_flown():
    first = engagement()
    moved = first._replace(
        flight=first.flight._replace(position=first.flight.position + jnp.array([[45.0, 0, 0]]))
    )
    died = moved._replace(fate=moved.fate.at[2].set(SHOT))
    frames, removed, events = parse(acmi(ENV, [first, moved, died, died]))
    assert list(frames) == [0.0, 0.2, 0.4, 0.6]
    assert [len(frame) for frame in frames.values()] == [4, 4, 4, 3]
    assert removed == [(0.4, 3)]
    assert events == [(0.4, ["Destroyed", "3", "shot down"])]

    names = [frames[0.0][i]["Coalition"] for i in (1, 2, 3, 4)]
    assert names == ["Allies", "Allies", "Enemies", "Enemies"]
    assert frames[0.0][1]["Type"] == "Air+FixedWing"
    assert frames[0.0][1]["LockedTarget"] == "3"
    assert frames[0.0][2]["LockedTargetMode"] == "0"
    assert float(frames[0.0][3]["Health"]) == np.float32(0.4).round(3)

    longitude, latitude, height, roll, pitch, yaw, x, y, heading = (
        float(v) for v in frames[0.2][2]["T"].split("|")
    )
    np.testing.assert_allclose([x, y, height], [45.0, 1500.0, 6000.0], atol=0.01)
    np.testing.assert_allclose([longitude * 111_320, latitude * 111_320], [x, y], atol=0.05)
    assert abs(roll - 40) < 1.0  # slightly less than the bank about the path
    alpha = np.degrees(float(first.flight.alpha[1]))
    assert 0 < pitch <= alpha
    assert abs(heading - 45) < alpha  # north-east, from north
    assert yaw == heading
