"""A terminal game: the user controls one agent, and a scripted team the others."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import numpy as np
from rich.color import Color
from rich.control import Control
from rich.style import Style
from rich.text import Text

from ratiosym.cli.display import console
from ratiosym.envs.paxmen import PaxMen
from ratiosym.envs.paxmen.layouts import EAT
from ratiosym.envs.paxmen.render import AGENTS, CELL
from ratiosym.envs.registry import make
from ratiosym.envs.teams import get_team, teams_of
from ratiosym.errors import InputError

WORDS = {"w": "up", "s": "down", "a": "left", "d": "right", " ": "space", "q": "quit"}
ARROWS = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
}  # the last letter of what a terminal sends
ACTIONS = {
    "up": 0,
    "down": 1,
    "right": 2,
    "left": 3,
    "space": EAT,
}  # any other key also eats, which without a dot means to wait
HELP = "arrows or w a s d: move   space: eat, or wait   q: quit"


def play_episode(task: str, agent: int, team: str | None, seed: int) -> float:
    """Play one episode and return its return."""
    env = make(task, agent_ids=False)
    if not isinstance(env, PaxMen):
        raise InputError(
            f"Task {task!r} cannot be played by hand; only PaxMen's can, such as 'paxmen-4a'."
        )
    if not 0 <= agent < env.spec.num_agents:
        raise InputError(f"`agent` is {agent}; {task!r} has agents 0 to {env.spec.num_agents - 1}.")
    script = get_team(env, team or next(reversed(teams_of(env))))
    key = jax.random.key(seed)
    state, observation = jax.jit(env.reset)(jax.random.fold_in(key, 0))
    memory = script.start(jax.random.fold_in(key, 1), state)

    @jax.jit
    def step(time: int, state: Any, observation: Any, memory: Any, own: int) -> Any:
        act_key, env_key = jax.random.split(jax.random.fold_in(key, time + 2))
        action, memory = script.act(act_key, state, observation, memory)
        state, outcome = env.step(env_key, state, action.at[agent].set(own))
        return state, memory, outcome

    total, time, is_over = 0.0, 0, False
    with (
        keyboard() as read,
        console.screen(hide_cursor=True) if console.is_terminal else nullcontext(),
    ):
        while not is_over:
            draw_screen(
                env,
                state,
                agent,
                f"{task}   step {time} of {env.spec.time_limit}   return {total:.2f}",
            )
            word = read()
            if word == "quit":
                break
            state, memory, outcome = step(time, state, observation, memory, ACTIONS.get(word, EAT))
            observation = outcome.observation
            total, time = total + float(outcome.reward.mean()), time + 1
            is_over = bool(outcome.terminated | outcome.truncated)
    console.print(f"{task}: return {total:.2f} after {time} of {env.spec.time_limit} steps")
    return total


def draw_screen(env: PaxMen, state: Any, agent: int, line: str) -> None:
    """Draw the map on a terminal, with two cells per character; elsewhere print only the line."""
    if not console.is_terminal:
        console.print(line)
        return
    console.control(Control.home())
    console.print(
        line, Text("   you", Style(color=Color.from_rgb(*AGENTS[agent]), bold=True)), sep=""
    )
    console.print(half_blocks(cells_of(env.draw(state))), no_wrap=True, crop=True)
    console.print(HELP)


def cells_of(pixels: np.ndarray) -> np.ndarray:
    """Return the colour at the centre of each cell."""
    return pixels[CELL // 2 :: CELL, CELL // 2 :: CELL]


def half_blocks(cells: np.ndarray) -> Text:
    """Draw with half blocks: foreground for the upper cell, background for the lower one."""
    if len(cells) % 2:
        cells = np.concatenate([cells, np.zeros_like(cells[:1])])
    text = Text()
    for upper, lower in zip(cells[::2], cells[1::2], strict=True):
        for one, other in zip(upper, lower, strict=True):
            text.append("▀", Style(color=Color.from_rgb(*one), bgcolor=Color.from_rgb(*other)))
        text.append("\n")
    return text


@contextmanager
def keyboard() -> Iterator[Callable[[], str]]:
    """Yield a function that waits for a key and returns its name.

    Without a terminal, each character of standard input is a key.
    """

    def read() -> str:
        letter = sys.stdin.read(1)
        if letter == "":
            return "quit"
        if letter == "\x1b":
            sys.stdin.read(1)
            return ARROWS.get(sys.stdin.read(1), "other")
        return WORDS.get(letter, "other")

    if not sys.stdin.isatty():
        yield read
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield read
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
