"""Pictures of states, drawn with Pillow.

The library's own visualisers need matplotlib, which environments do not import (see
``pyproject.toml``).
"""

from collections.abc import Iterable
from typing import Any, SupportsFloat

import numpy as np
from jaxtyping import Float, UInt8

from ratiosym.types import State

Picture = UInt8[np.ndarray, "H W 3"]
Point = Iterable[SupportsFloat]

SIDE = 320  # pixels
SMOOTHING = 3  # factor by which pictures are drawn larger, then downsampled

WHITE, GREY, BLACK = (255, 255, 255), (190, 190, 190), (40, 40, 40)
BLUE, RED, GREEN = (49, 104, 180), (196, 63, 54), (60, 150, 80)
ROBOTS = (BLUE, RED, GREEN, (222, 150, 40), (130, 80, 160))


class Plane:
    """A square canvas over a part of the plane, with y pointing up."""

    def __init__(self, low: float, high: float) -> None:
        from PIL import Image, ImageDraw

        self.low = low
        self.scale = SIDE * SMOOTHING / (high - low)  # pixels per unit
        self.image = Image.new("RGB", (SIDE * SMOOTHING,) * 2, WHITE)
        self.pen = ImageDraw.Draw(self.image)

    def disc(self, centre: Point, radius: float, colour: tuple[int, int, int]) -> None:
        """Draw a filled circle."""
        self.pen.circle(self._pixel(centre), radius * self.scale, fill=colour)

    def ring(self, centre: Point, radius: float, colour: tuple[int, int, int]) -> None:
        """Draw a circle that is not filled."""
        self.pen.circle(
            self._pixel(centre), radius * self.scale, outline=colour, width=2 * SMOOTHING
        )

    def line(self, start: Point, end: Point, colour: tuple[int, int, int]) -> None:
        """Draw a straight line."""
        self.pen.line([self._pixel(start), self._pixel(end)], fill=colour, width=SMOOTHING)

    def polygon(self, corners: Iterable[Point], colour: tuple[int, int, int]) -> None:
        """Draw a filled polygon."""
        self.pen.polygon([self._pixel(corner) for corner in corners], fill=colour)

    def picture(self) -> Picture:
        """Return what has been drawn."""
        return np.asarray(self.image.reduce(SMOOTHING))

    def _pixel(self, point: Point) -> tuple[float, float]:
        x, y = ((float(value) - self.low) * self.scale for value in point)
        return x, SIDE * SMOOTHING - y


def draw_spread(library: Any, world: State) -> Picture:
    """Draw agents (discs) and landmarks (small, black)."""
    places = np.asarray(world.p_pos)
    plane = Plane(-1.6, 1.6)
    for agent, radius in zip(places[: library.num_agents], np.asarray(library.rad), strict=False):
        plane.disc(agent, float(radius), BLUE)
    for landmark in places[library.num_agents :]:
        plane.disc(landmark, 0.05, BLACK)
    return plane.picture()


def draw_battle(library: Any, world: State) -> Picture:
    """Draw allies in blue, enemies in red, lost health in white, and attacks as lines."""
    places, is_alive = np.asarray(world.unit_positions), np.asarray(world.unit_alive)
    types = np.asarray(world.unit_types)
    radii = np.asarray(library.unit_type_radiuses)[types]
    health = np.asarray(world.unit_health) / np.asarray(library.unit_type_health)[types]
    plane = Plane(0.0, float(library.map_width))
    for unit, target in _attacks(library, np.asarray(world.prev_attack_actions)):
        if is_alive[unit] and is_alive[target]:
            plane.line(places[unit], places[target], GREY)
    for unit in np.flatnonzero(is_alive).tolist():
        plane.disc(places[unit], radii[unit], BLUE if unit < library.num_allies else RED)
        plane.disc(places[unit], 0.8 * radii[unit] * np.sqrt(1 - health[unit]), WHITE)
    return plane.picture()


def _attacks(library: Any, actions: np.ndarray) -> Iterable[tuple[int, int]]:
    """Yield pairs of attacker and target. Enemies number their targets backwards."""
    num_allies, num_moves = library.num_allies, library.num_movement_actions
    for unit, action in enumerate(actions.tolist()):
        if action >= num_moves:
            is_ally = unit < num_allies
            yield (
                unit,
                num_allies + action - num_moves
                if is_ally
                else num_allies - 1 - (action - num_moves),
            )


def draw_robots(library: Any, state: State, readings: Float[np.ndarray, "A B"]) -> Picture:
    """Draw walls, robots with headings (pale once collided), goals as rings, readings as dots."""
    places, headings = np.asarray(state.pos), np.asarray(state.theta)
    has_collided, goals = np.asarray(state.move_term), np.asarray(state.goal)
    plane = Plane(0.0, float(library.map_obj.width))
    for y, x in np.argwhere(np.asarray(state.map_data)):
        plane.polygon([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)], BLACK)
    corners = np.asarray(library.map_obj.agent_coords)
    for robot, (place, heading, distances) in enumerate(
        zip(places, headings, readings, strict=True)
    ):
        colour = ROBOTS[robot % len(ROBOTS)]
        angles = np.asarray(library.lidar_angles) + heading
        for distance, angle in zip(distances, angles, strict=True):
            plane.disc(place + distance * np.array([np.cos(angle), np.sin(angle)]), 0.03, colour)
        forward = np.array([np.cos(heading), np.sin(heading)])
        left = np.array([-forward[1], forward[0]])
        plane.polygon(
            place + corners @ np.stack([forward, left]), GREY if has_collided[robot] else colour
        )
        plane.line(place, place + 0.25 * forward, WHITE)
        plane.ring(goals[robot], library.goal_radius, colour)
    return plane.picture()
