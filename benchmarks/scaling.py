"""Cost over agents, environments and widths: steps per second times agents, as a table and figure.

Cost grows linearly where agent steps per second stay level (agents, environments). Over widths it
grows no faster than the products, with the square (dashed), where the share of the
matrix-multiplication peak does not fall.
"""

from pathlib import Path
from typing import NamedTuple

import jax

from benchmarks.learner import flops_per_step, steps_per_second
from benchmarks.timing import peak_gflops
from ratiosym.envs.registry import make
from ratiosym.learning.config import RunShape

AGENTS = {  # tasks by number of agents
    2: "rware-tiny-2ag",
    3: "connector-5x5x3a",
    5: "connector-7x7x5a",
    10: "connector-10x10x10a",
    23: "connector-15x15x23a",
    33: "connector-18x18x33a",
}
ENVIRONMENTS = (16, 64, 256, 1024)
WIDTHS = (32, 64, 128, 256, 512)
TASK = "connector-5x5x3a"
SMALL = {"num_epochs": 1, "num_minibatches": 2}  # the ratio of points is the same for more epochs
FIGURE = Path("scaling.png")


class Point(NamedTuple):
    """One measurement."""

    x: int
    agent_steps: float  # per second
    share: float  # of the peak


def measure(x: int, task: str, shape: RunShape, peak: float) -> Point:
    spec = make(task).spec
    speed = steps_per_second(task, shape, jax.devices())
    return Point(x, speed * spec.num_agents, speed * flops_per_step(spec, shape) / 1e9 / peak)


def shape(num_envs: int = 64, width: int = 128) -> RunShape:
    return RunShape(num_envs=num_envs, actor_hidden_size=width, critic_hidden_size=width, **SMALL)


def measure_all(peak: float) -> dict[str, list[Point]]:
    return {
        "agents": [measure(n, task, shape(), peak) for n, task in AGENTS.items()],
        "environments": [measure(n, TASK, shape(num_envs=n), peak) for n in ENVIRONMENTS],
        "width": [measure(n, TASK, shape(width=n), peak) for n in WIDTHS],
    }


def draw(series: dict[str, list[Point]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    for axes, (name, points) in zip(figure.subplots(1, len(series)), series.items(), strict=True):
        x, y = ([p.x for p in points], [p.agent_steps / 1e3 for p in points])
        axes.plot(x, y, "o-")
        axes.set(xscale="log", xlabel=name, ylabel="thousand agent steps per second")
        if name == "width":  # products grow with its square
            axes.plot(x, [y[-1] * (x[-1] / at) ** 2 for at in x], "--", color="gray")
            axes.set(yscale="log", ylim=(y[-1] / 2, y[0] * 2))
            axes.yaxis.set_major_formatter("{x:g}")
        else:
            axes.set_ylim(0, 1.15 * max(y))
        axes.set_xticks(x, [str(at) for at in x])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> None:
    peak = peak_gflops()
    series = measure_all(peak)
    print(
        f"matrix multiplication: {peak:.0f} GFLOP/s; 64 environments, width 128 and one epoch "
        f"unless varied"
    )
    for name, points in series.items():
        print(f"{name:>12} {'agent steps/s':>14} {'of the peak':>12}")
        for point in points:
            print(f"{point.x:12} {point.agent_steps:14,.0f} {point.share:12.0%}")
    draw(series, FIGURE)
    print(f"figure: {FIGURE}")
