"""An independent PaxMen model written from the rules: slow, on a grid, in plain NumPy."""

import numpy as np

# Hand-drawn maps: side of the hub, offset along it, length of the corridor.
CROSS = [(12, 4, 8, 8), (4, 12, 8, 8), (8, 8, 12, 4), (8, 8, 4, 12)]
HUBS = {4: 3, 5: 5, 6: 7}
LIMITS = {4: 100, 5: 115, 6: 130}
STEPS = {0: (-1, 0), 1: (1, 0), 2: (0, 1), 3: (0, -1), 4: (0, 0)}


def arms_of(num_agents, layout):
    if num_agents == 4:
        return [(side, 0, length) for side, length in zip("NSEW", CROSS[layout], strict=True)]
    if num_agents == 5:
        doubled = "NSEW"[layout]
        return [(doubled, -2, 12), (doubled, 2, 4)] + [
            (side, 0, 8) for side in "NSEW" if side != doubled
        ]
    doubled = ["NS", "EW", "NE", "SW"][layout]
    pairs = [(side, offset, length) for side in doubled for offset, length in ((-2, 12), (2, 8))]
    return pairs + [(side, 0, 4) for side in "NSEW" if side not in doubled]


class Reference:
    """One map: a grid of walls, a grid of dots, agents as rows and columns."""

    def __init__(self, num_agents, layout):
        self.num_agents, self.time_limit = num_agents, LIMITS[num_agents]
        self.hub = HUBS[num_agents]
        self.size = self.hub + 2 * 12 + 2 * (5 + 2)
        self.walls = np.ones((self.size, self.size), bool)
        low, high = 19, 19 + self.hub
        self.walls[low:high, low:high] = False
        self.hub_cells = [(r, c) for r in range(low, high) for c in range(low, high)]
        self.corridors, self.rooms = [], []
        for side, offset, length in arms_of(num_agents, layout):
            corridor, room = self.carve(side, self.size // 2 + offset, length, low, high)
            self.corridors.append(corridor)
            self.rooms.append(room)
        self.critic_cells = list(self.hub_cells)
        for corridor, room in zip(self.corridors, self.rooms, strict=True):
            self.critic_cells += corridor + room

    def carve(self, side, line, length, low, high):
        """Cut a corridor and its room out of the walls, and return their slices."""
        if side in "NW":
            along, beyond = slice(low - length, low), slice(low - length - 5, low - length)
        else:
            along, beyond = slice(high, high + length), slice(high + length, high + length + 5)
        across, wide = slice(line, line + 1), slice(line - 1, line + 2)
        corridor, room = (
            ((along, across), (beyond, wide)) if side in "NS" else ((across, along), (wide, beyond))
        )
        cells = []
        for part in (corridor, room):
            self.walls[part] = False
            rows, columns = (range(p.start, p.stop) for p in part)
            cells.append([(r, c) for r in rows for c in columns])
        return cells

    def start(self, agents, dots):
        """Start with agents and dots at given (row, column) positions."""
        self.agents, self.time = [tuple(a) for a in agents], 0
        self.lay(dots)
        self.num_dots = self.num_eaters = self.num_rounds = self.num_alone = self.num_sharing = 0
        self.first_clear = self.time_limit
        self.visited, self.cleared = set(), set()

    def start_anywhere(self, rng):
        agents = [
            self.hub_cells[i]
            for i in rng.choice(len(self.hub_cells), self.num_agents, replace=False)
        ]
        self.start(agents, self.draw(rng))

    def draw(self, rng):
        return [room[i] for room in self.rooms for i in rng.choice(15, 3, replace=False)]

    def lay(self, dots):
        self.dots = np.zeros((self.size, self.size), bool)
        for cell in dots:
            assert not self.dots[cell]
            self.dots[cell] = True

    def step(self, actions, new_dots):
        """Take a step and return the shared reward; place ``new_dots`` if the last dot is eaten."""
        moved = []
        for (row, column), action in zip(self.agents, actions, strict=True):
            y, x = STEPS[int(action)]
            moved.append(
                (row, column) if self.walls[row + y, column + x] else (row + y, column + x)
            )
        self.agents = moved
        eaters = {}  # by dot
        for cell, action in zip(self.agents, actions, strict=True):
            if action == 4 and self.dots[cell]:
                eaters[cell] = eaters.get(cell, 0) + 1
        num_eaters = sum(eaters.values())
        reward = sum(k * (1 / k) for k in eaters.values()) - 0.025 * (self.num_agents - num_eaters)
        for cell in eaters:
            self.dots[cell] = False
        self.time += 1
        self.record(len(eaters), num_eaters)
        if not self.dots.any():
            self.lay(new_dots)
        return reward

    def record(self, num_dots, num_eaters):
        self.num_dots += num_dots
        self.num_eaters += num_eaters
        if not self.dots.any():
            self.num_rounds += 1
            self.first_clear = min(self.first_clear, self.time)
        for index, (corridor, room) in enumerate(zip(self.corridors, self.rooms, strict=True)):
            inside = sum(cell in corridor or cell in room for cell in self.agents)
            self.num_alone += inside == 1
            self.num_sharing += inside if inside > 1 else 0
            if any(cell in room for cell in self.agents):
                self.visited.add(index)
            if not any(self.dots[cell] for cell in room):
                self.cleared.add(index)

    def view(self, agent):
        """Return the 25 numbers that an agent observes."""
        row, column = self.agents[agent]
        window = slice(row - 2, row + 3), slice(column - 2, column + 3)
        seen = np.where(self.walls[window], -1.0, self.dots[window])
        for other, (r, c) in enumerate(self.agents):
            if other != agent and abs(r - row) <= 2 and abs(c - column) <= 2:
                seen[r - row + 2, c - column + 2] = 0.1
        return seen.reshape(-1)

    def whole(self):
        """Return the critic's state."""
        return np.array(
            [0.1 if cell in self.agents else float(self.dots[cell]) for cell in self.critic_cells]
        )

    def metrics(self, low, high):
        turns = self.num_agents * self.time
        episode_return = self.num_dots - 0.025 * (turns - self.num_eaters)
        return {
            "normalised_score": (episode_return - low) / (high - low),
            "rooms_visited": len(self.visited),
            "rooms_cleared": len(self.cleared),
            "rounds_cleared": self.num_rounds,
            "dots_eaten": self.num_dots,
            "alone_in_corridor": self.num_alone / turns,
            "corridor_sharing": self.num_sharing / turns,
            "time_to_first_clear": self.first_clear,
        }
