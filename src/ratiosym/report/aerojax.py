"""Figures of the aircraft's performance: simulated flight against the balance of forces.

Lines are solved from the equations; marks are measured by flying ``dynamics.substep``. ``draw_all``
draws all figures.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from ratiosym.envs.aerojax.config import GRAVITY, Config
from ratiosym.envs.aerojax.dynamics import (
    Controls,
    Flight,
    air,
    alpha_limits,
    drag_coefficient,
    lift_coefficient,
    substep,
)
from ratiosym.report.style import STYLE, WIDTH, save_figure

Numbers = Float[np.ndarray, "N"]
HEIGHTS = (0.0, 5000.0, 10e3)  # m
_COLOURS = ("#0072B2", "#D55E00", "#009E73")
_CONFIG = Config()
_FIGHTER = _CONFIG.airframes[0]
_DT = _CONFIG.substep


def draw_all(path: Path) -> list[Path]:
    """Draw all figures of ``docs/environments/aerojax.md``: aerojax-turns.png and so on."""
    drawn = {
        "turns": turn_figure,
        "energy": energy_figure,
        "glide": glide_figure,
        "stall": stall_figure,
    }
    paths = [path.with_name(f"{path.stem}-{name}{path.suffix}") for name in drawn]
    for place, figure in zip(paths, drawn.values(), strict=True):
        figure(place)
    return paths


def turn_figure(path: str | os.PathLike[str]) -> Figure:
    """Draw turn rate over speed at three heights: the limiter's maximum, and the sustained one."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        axis = figure.subplots()
        for height, colour in zip(HEIGHTS, _COLOURS, strict=True):
            speeds = np.linspace(60, 420, 361)
            label = f"{height / 1000:g} km"
            axis.plot(
                speeds,
                _rate(_most_load(height, speeds), speeds),
                color=colour,
                linestyle="--",
                linewidth=1,
            )
            held = np.minimum(_sustained(height, speeds)[0], _most_load(height, speeds))
            axis.plot(speeds, _rate(held, speeds), color=colour, label=label)
            marks = np.linspace(120, 400, 15)
            load, alpha = _sustained(height, marks)
            # only where thrust is the limit, not the limiter or the stall
            flies = (load > 1.05) & (load < _most_load(height, marks)) & (alpha < np.radians(21.5))
            axis.plot(
                marks[flies],
                _flown_rate(height, marks, alpha, load)[flies],
                "o",
                color=colour,
                markersize=4,
            )
        axis.set(xlabel="speed (m/s)", ylabel="turn rate (°/s)", ylim=(0, 30), xlim=(50, 420))
        axis.legend(
            title="sustained (line: solved, dots: flown)\nlimit (dashed)", loc="upper right"
        )
        save_figure(figure, path)
    return figure


def energy_figure(path: str | os.PathLike[str]) -> Figure:
    """Draw a minute of aerobatics: energy without thrust and drag, and with both against work."""
    time, height, kept, gained, worked = _wild_flight()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(time, kept, color=_COLOURS[0])
        left.set(
            xlabel="time (s)",
            ylabel="relative change of energy",
            title="no thrust, no drag (float32)",
        )
        right.plot(time, gained / 1000, color=_COLOURS[0], label="energy gained")
        right.plot(
            time,
            worked / 1000,
            color=_COLOURS[1],
            linestyle=(0, (4, 3)),
            label="∫ V (T cos α − D) / m dt",
        )
        right.plot(
            time,
            (height - height[0]) * GRAVITY / 1000,
            color="#999999",
            linewidth=0.8,
            label="potential energy",
        )
        right.set(xlabel="time (s)", ylabel="kJ/kg", title="thrust and drag")
        right.legend()
        save_figure(figure, path)
    return figure


def glide_figure(path: str | os.PathLike[str]) -> Figure:
    """Draw lift over drag against the angle of attack: from coefficients and from glides."""
    alpha = np.radians(np.linspace(1, 20, 200))
    marks = np.radians(np.linspace(3, 18, 11))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH / 2, 2.8), layout="constrained")
        axis = figure.subplots()
        axis.plot(np.degrees(alpha), _lift(alpha) / _drag(alpha), color=_COLOURS[0], label="solved")
        axis.plot(
            np.degrees(marks),
            _flown_glide(marks),
            "o",
            color=_COLOURS[1],
            markersize=4,
            label="flown",
        )
        axis.set(
            xlabel="angle of attack (°)", ylabel="distance / energy height", title="glide, 5 km"
        )
        axis.legend()
        save_figure(figure, path)
    return figure


def stall_figure(path: str | os.PathLike[str]) -> Figure:
    """Draw the coefficients through the stall, and a full pull from level flight into it."""
    alpha = np.radians(np.linspace(-10, 28, 300))
    time, angle, speed, load = _pull()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(np.degrees(alpha), _lift(alpha), color=_COLOURS[0], label="lift")
        left.plot(np.degrees(alpha), _drag(alpha), color=_COLOURS[1], label="drag")
        left.set(xlabel="angle of attack (°)", ylabel="coefficient")
        left.legend()
        right.plot(time, np.degrees(angle), color=_COLOURS[0], label="angle of attack (°)")
        right.plot(time, speed / 10, color=_COLOURS[1], label="speed (10 m/s)")
        right.plot(time, load, color=_COLOURS[2], label="load (g)")
        right.set(xlabel="time (s)", title="full pull from level flight, no thrust, 5 km")
        right.legend()
        save_figure(figure, path)
    return figure


def _rate(load: Numbers, speed: Numbers) -> Numbers:
    """Return the rate of a level turn in degrees per second; NaN if lift is below the weight."""
    return np.degrees(
        np.where(load > 1, GRAVITY * np.sqrt(np.maximum(load**2 - 1, 0)) / speed, np.nan)
    )


def _lift(alpha: Numbers) -> Numbers:
    return np.asarray(lift_coefficient(_CONFIG, _FIGHTER, jnp.asarray(alpha)))


def _drag(alpha: Numbers, mach: Numbers | float = 0.3) -> Numbers:
    return np.asarray(
        drag_coefficient(_CONFIG, _FIGHTER, jnp.asarray(alpha), jnp.asarray(mach) + 0 * alpha)
    )


def _forces(
    height: float, speed: Numbers, alpha: Numbers, throttle: float
) -> tuple[Numbers, Numbers, Numbers]:
    """Return normal force, drag and thrust along the path, in g."""
    around = air(_CONFIG, jnp.full(len(speed), height), jnp.asarray(speed))
    pressure = np.asarray(around.pressure) * _FIGHTER.wing_area
    thrust = throttle * _FIGHTER.thrust * np.asarray(around.thrust_share)
    weight = _FIGHTER.mass * GRAVITY
    normal = pressure * _lift(alpha) + thrust * np.sin(alpha)
    return (
        normal / weight,
        pressure * _drag(alpha, np.asarray(around.mach)) / weight,
        thrust * np.cos(alpha) / weight,
    )


def _most_load(height: float, speed: Numbers) -> Numbers:
    """Return the maximum load at full throttle, set by the limiter or by the wing."""
    around = air(_CONFIG, jnp.full(len(speed), height), jnp.asarray(speed))
    _, high = alpha_limits(
        _CONFIG, _FIGHTER, around.pressure, _FIGHTER.thrust * around.thrust_share
    )
    best = np.radians(22.36)  # angle of maximum lift
    return _forces(height, speed, np.minimum(np.asarray(high), best), 1.0)[0]


def _sustained(height: float, speed: Numbers) -> tuple[Numbers, Numbers]:
    """Find load and angle of attack at which full thrust balances drag, by bisection."""
    low, high = np.zeros(len(speed)), np.full(len(speed), np.radians(22.0))
    for _ in range(50):
        middle = 0.5 * (low + high)
        _, drag, thrust = _forces(height, speed, middle, 1.0)
        low, high = np.where(drag < thrust, middle, low), np.where(drag < thrust, high, middle)
    return _forces(height, speed, low, 1.0)[0], low


@cache
def _program(has_forces: bool = True) -> Callable[..., Any]:
    frame = _FIGHTER
    if not has_forces:
        frame = type(frame)(thrust=0.0, drag=0.0, induced_drag=0.0, wave_drag=0.0, stalled_drag=0.0)

    @jax.jit
    def run(flight: Flight, controls: Controls) -> Flight:
        def body(flight: Flight, controls: Controls) -> tuple[Flight, Flight]:
            flight = substep(_CONFIG, frame, flight, controls, _DT)
            return flight, flight

        return jax.lax.scan(body, flight, controls)[1]

    return run


def _fly(
    flight: Flight,
    seconds: float,
    aileron: Any = 0.0,
    elevator: Any = 0.0,
    throttle: Any = 0.0,
    has_forces: bool = True,
) -> Any:
    """Return the flights after every substep, [time, aircraft]."""
    shape = (round(seconds / _DT), flight.alpha.shape[0])
    controls = Controls(
        *(
            jnp.asarray(np.broadcast_to(c, shape), jnp.float32)
            for c in (aileron, elevator, throttle)
        )
    )
    return jax.tree.map(np.asarray, _program(has_forces)(flight, controls))


def _level(height: float, speed: Any, alpha: Any, bank: Any = 0.0, slope: Any = 0.0) -> Flight:
    """Return a flight to the east, banked to the right, climbing at an angle."""
    speed, alpha, bank, slope = np.broadcast_arrays(
        *(np.atleast_1d(x) for x in (speed, alpha, bank, slope))
    )
    zero = np.zeros(len(speed))
    vh = np.stack([np.cos(slope), zero, np.sin(slope)], -1)
    top = np.stack([-np.sin(slope), zero, np.cos(slope)], -1)
    lift = np.cos(bank)[:, None] * top + np.sin(bank)[:, None] * np.array([[0.0, -1.0, 0.0]])
    place = np.stack([zero, zero, zero + height], -1)
    return Flight(
        *(jnp.asarray(x, jnp.float32) for x in (place, speed[:, None] * vh, lift, alpha, zero))
    )


def _flown_rate(height: float, speed: Numbers, alpha: Numbers, load: Numbers) -> Numbers:
    """Measure degrees per second over five seconds of a balanced turn at full throttle."""
    bank = np.arccos(1 / np.maximum(load, 1.0))
    flights = _fly(_level(height, speed, alpha, bank), 5.0, throttle=1.0)
    course = np.unwrap(np.arctan2(flights.velocity[..., 1], flights.velocity[..., 0]), axis=0)
    return -np.degrees(course[-1] - course[0]) / (5.0 - _DT)


def _flown_glide(alpha: Numbers) -> Numbers:
    """Measure distance over energy height lost in a minute of gliding at an angle of attack.

    The energy height V²/2g + z includes speed, as a glider slows down in denser air.
    """
    ratio = _lift(alpha) / _drag(alpha)
    slope = -np.arctan(1 / ratio)
    density = _CONFIG.density * np.exp(-5000.0 / _CONFIG.scale_height)
    speed = np.sqrt(
        2 * _FIGHTER.mass * GRAVITY * np.cos(slope) / (density * _FIGHTER.wing_area * _lift(alpha))
    )
    flights = _fly(_level(5000.0, speed, alpha, slope=slope), 60.0)
    way = flights.position[-1, :, 0] - flights.position[0, :, 0]
    spent = [
        _energy(jax.tree.map(lambda leaf, i=i: leaf[:, i : i + 1], flights))
        for i in range(len(alpha))
    ]
    return np.array([w * GRAVITY / (e[0] - e[-1]) for w, e in zip(way, spent, strict=True)])


def _wild_flight() -> tuple[Numbers, Numbers, Numbers, Numbers, Numbers]:
    """Return time, height, energy drift without forces, and energy and work with forces."""
    rng = np.random.default_rng(0)
    aileron, elevator = rng.uniform(-1, 1, (2, 600, 1))
    start = _level(6000.0, 250.0, 0.05)
    free = _fly(start, 60.0, aileron, elevator, 0.0, has_forces=False)
    flights = _fly(start, 60.0, aileron, 0.4 * elevator, 0.7)
    speed = np.linalg.norm(flights.velocity[:, 0], axis=-1).astype(float)
    power = np.zeros(len(speed))
    for i in range(len(speed)):
        height, alpha = float(flights.position[i, 0, 2]), np.atleast_1d(flights.alpha[i, 0])
        _, drag, thrust = _forces(height, np.atleast_1d(speed[i]), alpha, 0.7)
        power[i] = speed[i] * GRAVITY * (thrust - drag)[0]
    worked = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * _DT)])
    energy = _energy(flights)
    kept = _energy(free)
    time = _DT * np.arange(1, 601)
    return time, flights.position[:, 0, 2], kept / kept[0] - 1, energy - energy[0], worked


def _energy(flights: Flight) -> Numbers:
    velocity, height = (
        np.asarray(flights.velocity, float)[:, 0],
        np.asarray(flights.position, float)[:, 0, 2],
    )
    return 0.5 * (velocity**2).sum(-1) + GRAVITY * height


def _pull() -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return time, angle of attack, speed and load of a full pull without thrust."""
    flights = _fly(_level(5000.0, 160.0, 0.1), 8.0, elevator=1.0)
    speed = np.linalg.norm(flights.velocity[:, 0], axis=-1)
    around = air(_CONFIG, jnp.asarray(flights.position[:, 0, 2]), jnp.asarray(speed))
    load = (
        np.asarray(around.pressure)
        * _FIGHTER.wing_area
        * _lift(flights.alpha[:, 0])
        / (_FIGHTER.mass * GRAVITY)
    )
    return _DT * np.arange(1, len(speed) + 1), flights.alpha[:, 0], speed, load
