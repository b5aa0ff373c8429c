"""Pictures of an engagement and its export to Tacview, with NumPy and Pillow only."""

from collections.abc import Sequence
from itertools import pairwise
from math import radians, tan
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw

from ratiosym.envs.aerojax.combat import ALIVE, COLLIDED, CRASHED, LEFT, SHOT
from ratiosym.envs.aerojax.config import Cone, Config
from ratiosym.envs.aerojax.dynamics import angles, axes
from ratiosym.envs.aerojax.state import AeroState

_WIDTH, _TOP, _SIDE = (
    560,
    560,
    240,
)  # pixels: width, and heights of the views from above and from the south
_ROSTER = 180  # width of the list of aircraft
_INK, _PAPER, _LINE, _DEAD = (40, 44, 52), (250, 250, 247), (205, 208, 212), (170, 170, 170)
_TEAMS = ((0, 90, 170), (205, 75, 0))  # ours and theirs, distinguishable for colour-blind readers
_TRAIL = 40  # earlier states shown
_GLYPH = 350.0  # m, half the drawn length of an aircraft, far larger than to scale
_FATES = {
    ALIVE: "",
    SHOT: "shot down",
    CRASHED: "hit the ground",
    LEFT: "left the arena",
    COLLIDED: "collided",
}

Points = Float[np.ndarray, "points 3"]
Direction = Float[np.ndarray, "3"]


@runtime_checkable
class Scene(Protocol):
    """Attributes of an environment that a picture needs."""

    @property
    def config(self) -> Config:
        """Its constants."""

    @property
    def types(self) -> tuple[str, ...]:
        """Type of every aircraft."""


class _View(NamedTuple):
    """A projection: the world axes that point right and up, and their mapping to pixels."""

    across: int
    up: int
    origin: tuple[float, float]  # pixel of the world's origin
    scale: float  # pixels per metre

    def pixels(self, points: Points) -> list[tuple[float, float]]:
        x = self.origin[0] + self.scale * points[:, self.across]
        y = self.origin[1] - self.scale * points[:, self.up]
        return list(zip(x.tolist(), y.tolist(), strict=True))


def draw(
    env: Scene, state: AeroState, history: Sequence[AeroState] = ()
) -> UInt8[np.ndarray, "height width 3"]:
    """Draw the view from above, below it the view from the south, and beside them a roster."""
    config, state = env.config, jax.tree.map(np.asarray, state)
    margin = 12
    scale = (_WIDTH - 2 * margin) / (2 * config.radius)
    top = _View(0, 1, (_WIDTH / 2, _TOP / 2), scale)
    side = _View(
        0, 2, (_WIDTH / 2, _SIDE - margin), min(scale, (_SIDE - 2 * margin) / config.ceiling)
    )
    whole = Image.new("RGB", (_WIDTH + _ROSTER, _TOP + _SIDE), _PAPER)
    for view, height, above in ((top, _TOP, 0), (side, _SIDE, _TOP)):
        image = Image.new("RGB", (_WIDTH, height), _PAPER)
        _draw_arena(image, config, view)
        _draw_cones(image, config, view, state)
        _draw_trails(image, view, [*history[-_TRAIL:], state])
        _draw_locks(image, view, state)
        _draw_aircraft(image, view, state)
        whole.paste(image, (0, above))
    _draw_roster(whole, env.types, state)
    return np.asarray(whole)


def _body(state: AeroState) -> tuple[Points, Points, Points]:
    """Return the nose, right and up vectors of every aircraft."""
    nose, right, up = (
        np.asarray(axis.array()) for axis in axes(jax.tree.map(jnp.asarray, state.flight))
    )
    return nose, right, up


def _colour(state: AeroState, index: Any) -> tuple[int, int, int]:
    return _TEAMS[int(index >= len(state.skill))] if state.fate[index] == ALIVE else _DEAD


def _draw_arena(image: Image.Image, config: Config, view: _View) -> None:
    pen = ImageDraw.Draw(image)
    r, z = config.radius, config.ceiling
    if view.up == 1:
        pen.ellipse(
            [*view.pixels(np.array([[-r, r, 0]]))[0], *view.pixels(np.array([[r, -r, 0]]))[0]],
            outline=_LINE,
        )
        pen.text((8, 6), "from above", fill=_INK)
    else:
        (left, high), (right, low) = view.pixels(np.array([[-r, 0, z], [r, 0, 0]]))
        pen.rectangle([left, high, right, low], outline=_LINE)
        pen.text((left + 4, high + 2), "from the south", fill=_INK)


def _draw_cones(image: Image.Image, config: Config, view: _View, state: AeroState) -> None:
    """Draw projections of the view cones (pale) and weapon cones (stronger) of the living."""
    pen = ImageDraw.Draw(image, "RGBA")  # for alpha blending
    frames = _body(state)
    for cone, opacity in ((config.view, 10), (config.weapon, 90)):
        for index in np.flatnonzero(state.fate == ALIVE):
            place = state.flight.position[index : index + 1]
            rim = _rim(cone, *(axis[index] for axis in frames)) + place
            pen.polygon(
                _hull(view.pixels(np.vstack([place, rim]))), fill=(*_colour(state, index), opacity)
            )


def _rim(cone: Cone, nose: Direction, right: Direction, up: Direction) -> Points:
    """Return points on the edge and on the far cap of a cone."""
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)[:, None]
    points = []
    for share in (1.0, 0.6, 0.25):
        aside = share * tan(radians(cone.width / 2)) * np.cos(turn) * right
        above = share * tan(radians(cone.height / 2)) * np.sin(turn) * up
        ray = nose + aside + above
        points.append(cone.depth * ray / np.linalg.norm(ray, axis=1, keepdims=True))
    return np.vstack(points)


def _hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Compute the convex hull by Andrew's monotone chain."""
    ordered = sorted(set(points))

    def chain(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for x, y in points:
            while len(kept) > 1 and (kept[-1][0] - kept[-2][0]) * (y - kept[-2][1]) <= (
                kept[-1][1] - kept[-2][1]
            ) * (x - kept[-2][0]):
                kept.pop()
            kept.append((x, y))
        return kept[:-1]

    return chain(ordered) + chain(ordered[::-1])


def _draw_trails(image: Image.Image, view: _View, states: Sequence[AeroState]) -> None:
    pen = ImageDraw.Draw(image)
    places = np.stack([np.asarray(state.flight.position) for state in states])  # [time, N, 3]
    for index in range(places.shape[1]):
        colour = np.array(_colour(states[-1], index))
        dots = view.pixels(places[:, index])
        for age, (start, end) in enumerate(pairwise(dots)):
            fade = 0.25 + 0.5 * age / len(dots)
            mixed = tuple(int(c) for c in fade * colour + (1 - fade) * np.array(_PAPER))
            pen.line([start, end], fill=mixed, width=1)


def _draw_locks(image: Image.Image, view: _View, state: AeroState) -> None:
    """Draw a line from each shooter to its target, thicker once it does damage."""
    pen = ImageDraw.Draw(image)
    n = len(state.skill)
    for team in (0, 1):
        for shooter in range(n):
            target = int(state.locks.target[team, shooter])
            if target >= 0:
                ends = state.flight.position[[team * n + shooter, (1 - team) * n + target]]
                pen.line(
                    view.pixels(np.asarray(ends)),
                    fill=(200, 0, 60),
                    width=1 if state.locks.time[team, shooter] < 0.4 else 3,
                )


def _draw_aircraft(image: Image.Image, view: _View, state: AeroState) -> None:
    """Draw each aircraft as a projected arrowhead: a full delta from above, a line edge-on."""
    pen = ImageDraw.Draw(image)
    nose, right, up = _body(state)
    for index, place in enumerate(state.flight.position):
        colour = _colour(state, index)
        tips = np.array(
            [1.0 * nose[index], -0.7 * nose[index] + 0.7 * right[index], -0.35 * nose[index]]
        )
        tips = np.vstack([tips, -0.7 * nose[index] - 0.7 * right[index]])
        pen.polygon(view.pixels(place + _GLYPH * tips), fill=colour)
        if state.fate[index] == ALIVE:
            pen.line(
                view.pixels(place + _GLYPH * np.array([[0, 0, 0], 0.8 * up[index]])),
                fill=_INK,
                width=1,
            )  # the fin
            _bar(pen, *view.pixels(place[None])[0], 16, float(state.health[index]), colour)


def _bar(
    pen: Any, x: float, y: float, width: int, share: float, colour: tuple[int, int, int]
) -> None:
    """Draw a health bar above the point."""
    left, high = x - width / 2, y - 18
    pen.rectangle([left, high, left + width, high + 3], outline=_LINE, fill=_PAPER)
    if share > 0:
        pen.rectangle([left, high, left + width * share, high + 3], fill=colour)


def _draw_roster(image: Image.Image, types: Sequence[str], state: AeroState) -> None:
    pen = ImageDraw.Draw(image)
    n = len(state.skill)
    speed = np.linalg.norm(state.flight.velocity, axis=1)
    row = min(40, (_TOP + _SIDE - 30) // (2 * n + 1))
    for index in range(2 * n):
        x, y = _WIDTH + 8, 10 + row * (index + (index >= n))
        side = "ally" if index < n else "foe"
        pen.text((x, y), f"{side} {index % n + 1} {types[index]}", fill=_colour(state, index))
        fate = _FATES[int(state.fate[index])]
        about = fate or f"{speed[index]:.0f} m/s  {state.flight.position[index, 2]:.0f} m"
        pen.text((x, y + 12), about, fill=_INK)
        _bar(
            pen,
            x + 145,
            y + 22,
            40,
            float(state.health[index]) if not fate else 0.0,
            _colour(state, index),
        )


_METRES_PER_DEGREE = (
    111_320.0  # of latitude, and of longitude at the equator, where the map is centred
)


def acmi(env: Scene, states: Sequence[AeroState]) -> str:
    """Export an episode in Tacview's text format (ACMI 2.2)."""
    lines = [
        "FileType=text/acmi/tacview",
        "FileVersion=2.2",
        "0,ReferenceTime=2000-01-01T12:00:00Z",
    ]
    lines += ["0,ReferenceLongitude=0", "0,ReferenceLatitude=0", "0,Title=AeroJAX"]
    gone: set[int] = set()
    states = [jax.tree.map(np.asarray, state) for state in states]
    attitudes = _attitudes(states)
    for step, state in enumerate(states):
        lines.append(f"#{step * env.config.decision:.2f}")
        for index in range(len(env.types)):
            if index in gone:
                continue
            lines.append(
                _acmi_object(env.types, state, attitudes[step, index], index, with_name=step == 0)
            )
            if state.fate[index] != ALIVE:
                lines += [
                    f"0,Event=Destroyed|{index + 1:x}|{_FATES[int(state.fate[index])]}",
                    f"-{index + 1:x}",
                ]
                gone.add(index)
    return "\n".join(lines) + "\n"


def _attitudes(states: Sequence[AeroState]) -> Float[np.ndarray, "T N 3"]:
    """Return roll, pitch and yaw of all aircraft in degrees; yaw is clockwise from north."""
    flights = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(state.flight for state in states)
    )  # [T, N, ...]
    roll, pitch, _ = angles(flights)
    nose = axes(flights).nose
    return np.degrees(np.stack([roll, pitch, np.arctan2(nose.x, nose.y) % (2 * np.pi)], axis=-1))


def _acmi_object(
    types: Sequence[str],
    state: AeroState,
    attitude: Float[np.ndarray, "3"],
    index: int,
    with_name: bool,
) -> str:
    """Format an aircraft: longitude, latitude, height, roll, pitch, yaw, x, y and heading."""
    n = len(state.skill)
    x, y, z = (float(c) for c in state.flight.position[index])
    roll, pitch, yaw = map(float, attitude)
    places = f"{x / _METRES_PER_DEGREE:.7f}|{y / _METRES_PER_DEGREE:.7f}|{z:.2f}"
    line = f"{index + 1:x},T={places}|{roll:.2f}|{pitch:.2f}|{yaw:.2f}|{x:.2f}|{y:.2f}|{yaw:.2f}"
    target = int(state.locks.target[index // n, index % n])
    locked = f"{(1 - index // n) * n + target + 1:x}" if target >= 0 else "0"
    line += f",Health={float(state.health[index]):.3f}"
    line += f",LockedTargetMode={int(target >= 0)},LockedTarget={locked}"
    if with_name:
        side = ("Allies", "Blue") if index < n else ("Enemies", "Orange")
        line += f",Name={types[index]},Type=Air+FixedWing,Coalition={side[0]},Color={side[1]}"
    return line
