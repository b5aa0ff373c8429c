"""The aircraft's figures: dots, which were flown, lie on the lines, which were solved."""

import numpy as np

from ratiosym.report.aerojax import HEIGHTS, energy_figure, glide_figure, stall_figure, turn_figure


def lines_and_dots(axis):
    drawn = [line for line in axis.get_lines() if len(line.get_xdata()) > 1]
    dots = [line for line in drawn if line.get_marker() == "o"]
    return [line for line in drawn if line not in dots and line.get_linestyle() == "-"], dots


def test_flown_turns_lie_on_the_solved_ones(tmp_path):
    lines, dots = lines_and_dots(turn_figure(tmp_path / "turns.png").axes[0])
    assert len(lines) == len(dots) == len(HEIGHTS)
    for line, dot in zip(lines, dots, strict=True):
        assert len(dot.get_xdata()) >= 7
        solved = np.interp(dot.get_xdata(), *line.get_data())
        np.testing.assert_allclose(dot.get_ydata(), solved, rtol=0.02, atol=0.1)


def test_flown_glides_lie_on_the_solved_ones(tmp_path):
    lines, dots = lines_and_dots(glide_figure(tmp_path / "glide.png").axes[0])
    solved = np.interp(dots[0].get_xdata(), *lines[0].get_data())
    np.testing.assert_allclose(dots[0].get_ydata(), solved, rtol=0.02)


def test_energy_gained_is_the_work_done(tmp_path):
    kept, both = energy_figure(tmp_path / "energy.png").axes
    assert np.abs(kept.get_lines()[0].get_ydata()).max() < 1e-4  # float32
    gained, worked = (line.get_ydata() for line in both.get_lines()[:2])
    assert np.abs(gained - worked).max() < 0.02 * np.ptp(gained)


def test_a_full_pull_runs_into_the_stall(tmp_path):
    _, pull = stall_figure(tmp_path / "stall.png").axes
    angle, speed, load = (line.get_ydata() for line in pull.get_lines())
    assert angle[-1] > 27.9
    assert speed[-1] < 0.6 * speed[0]
    assert 0 < load.argmax() < 15  # the most before the flow separates
