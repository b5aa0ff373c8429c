"""Animations of episodes: the environment's own pictures with team, step and return."""

import os
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from ratiosym.errors import InputError
from ratiosym.learning.evaluate import Moment
from ratiosym.runs.files import write_whole

Picture = UInt8[np.ndarray, "H W 3"]

MAX_PICTURES = 200  # longer episodes skip steps
SECONDS = 0.1  # per picture
LAST_SECONDS = 2.0  # for the last picture
PAUSE = 12  # pictures between two episodes of a comparison
FONT_SIZE = 16  # of captions, where they fit
GAP = 16  # pixels between pictures side by side


def draw_film(env: Any, moments: Sequence[Moment], path: Path, title: str) -> None:
    """Save an episode as a GIF, or as a Tacview file if the environment supports it.

    ``env.draw`` also receives the previous states if it has a parameter ``history``.
    """
    check_film(env, path)
    if path.suffix == ".acmi":
        write_whole(path, env.acmi([moment.env_state for moment in moments]))
        return
    save_gif(make_pictures(env, moments, title), path)


def draw_comparison(
    env: Any, episodes: Sequence[Sequence[Sequence[Moment]]], titles: Sequence[str], path: Path
) -> None:
    """Save episodes one after another as a GIF, each played by several teams side by side.

    ``episodes`` has for each episode the moments of every team, in the order of ``titles``.
    """
    check_film(env, path)
    scenes = []
    for moments in episodes:
        teams = [make_pictures(env, m, t) for m, t in zip(moments, titles, strict=True)]
        num_pictures = max(map(len, teams))
        for i in range(num_pictures + PAUSE):  # those who have finished wait for the others
            scenes.append(beside([team[min(i, len(team) - 1)] for team in teams]))
    save_gif(scenes, path)


def make_pictures(env: Any, moments: Sequence[Moment], title: str) -> list[Picture]:
    """Draw an episode, with a caption above each picture."""
    stride = -(-len(moments) // MAX_PICTURES)
    shown = sorted({*range(0, len(moments), stride), len(moments) - 1})
    states = [moment.env_state for moment in moments]
    has_history = "history" in signature(env.draw).parameters
    pictures = []
    for index in shown:
        so_far = float(moments[index].so_far.returns)
        text = f"{title}   step {index} of {len(moments) - 1}   return {so_far:.2f}"
        past = {"history": states[:index]} if has_history else {}
        pictures.append(with_caption(env.draw(states[index], **past), text))
    return pictures


def beside(pictures: Sequence[Picture]) -> UInt8[np.ndarray, "H wider 3"]:
    """Put pictures of equal height next to each other."""
    gap = np.full((pictures[0].shape[0], GAP, 3), 255, np.uint8)
    parts = [part for picture in pictures for part in (gap, picture)]
    return np.concatenate(parts[1:], axis=1)


def save_gif(pictures: Sequence[Picture], path: Path) -> None:
    """Save pictures as an animation that repeats."""
    images = [Image.fromarray(picture) for picture in pictures]
    durations = [int(1000 * SECONDS)] * (len(images) - 1) + [int(1000 * LAST_SECONDS)]
    few_colours = [image.quantize(128, dither=Image.Dither.NONE) for image in images]
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}.gif")
    try:
        few_colours[0].save(
            unfinished,
            save_all=True,
            append_images=few_colours[1:],
            duration=durations,
            loop=0,
            optimize=True,
        )
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def check_film(env: Any, path: Path) -> None:
    """Raise unless the environment can be drawn to a file with this suffix."""
    suffixes = (".gif", ".acmi") if hasattr(env, "acmi") else (".gif",)
    if path.suffix not in suffixes:
        raise InputError(
            f"A film is saved as {' or '.join(suffixes)}, not as '{path.suffix}' ({path}). Change "
            f"the suffix."
        )
    if not hasattr(env, "draw"):
        raise InputError(
            f"Task {env.spec.name!r} cannot be rendered: its environment has no method 'draw'."
        )


def with_caption(picture: Picture, text: str) -> UInt8[np.ndarray, "taller W 3"]:
    """Add a line of text above a picture, as large as fits."""
    width = picture.shape[1]
    size = FONT_SIZE
    font = ImageFont.load_default(size)
    while size > 7 and font.getlength(text) > width - 8:
        size -= 1
        font = ImageFont.load_default(size)
    # As high for small letters, so that all pictures of a film have one size.
    strip = Image.new("RGB", (width, FONT_SIZE + 10), "white")
    ImageDraw.Draw(strip).text((4, 4), text, fill=(20, 20, 20), font=font)
    return np.concatenate([np.asarray(strip), picture])
