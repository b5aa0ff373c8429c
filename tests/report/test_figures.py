"""Each figure is drawn into a temporary directory, and what is on its axes is read back."""

import matplotlib.image
import numpy as np
import pytest

from ratiosym.objectives import OBJECTIVES
from ratiosym.report import figures
from ratiosym.report.figures import (
    curves_figure,
    objectives_figure,
    ratios_figure,
)
from ratiosym.report.statistics import mean_curve


def labelled(axis):
    """The named lines of an axis, as {name: [(x, y), ...]}."""
    lines = {}
    for line in axis.get_lines():
        if not line.get_label().startswith("_"):
            lines.setdefault(line.get_label(), []).append(line.get_data())
    return lines


def expect_picture(path, least_width=600):
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = matplotlib.image.imread(path)
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > least_width
    assert pixels[..., :3].std() > 0.02  # not blank
    assert [entry.name for entry in path.parent.iterdir()] == [
        path.name
    ]  # nothing unfinished is left


def training(num=20, scale=1.0):
    steps = np.linspace(0, 1e6, num)
    spread = scale * np.linspace(0.1, 1.0, num)
    levels = {"min": -3, "q01": -2, "q25": -0.5, "q50": 0, "q75": 0.5, "q99": 2, "max": 3}
    columns = {f"ratio_{name}": np.exp(level * spread) for name, level in levels.items()}
    return {"steps": steps, "beyond_target": np.linspace(0, 0.2, num), **columns}


def test_every_objective_has_its_own_colour():
    assert len({objective.colour for objective in OBJECTIVES.values()}) == 7


@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_objectives_figure(tmp_path, epsilon):
    figure = objectives_figure(tmp_path / "objectives.png", epsilon)
    expect_picture(tmp_path / "objectives.png", least_width=1200)
    values, gradients = figure.axes[:2], figure.axes[2:]
    for column, (A, target) in enumerate(((1.0, 1 + epsilon), (-1.0, 1 - epsilon))):
        drawn, slopes = labelled(values[column]), labelled(gradients[column])
        assert set(drawn) == set(slopes) == {"MAPPO", "MASPO", "MARS"}
        (r, mars), (_, maspo) = drawn["MARS"][0], drawn["MASPO"][0]
        for curve in (mars, maspo):
            assert abs(r[np.argmax(curve)] - target) < 0.01  # the top is at the target
            np.testing.assert_allclose(np.interp(1.0, r, curve), A, atol=1e-3)
        assert (
            mars[0] < values[column].get_ylim()[0] < maspo[0] < 0
        )  # leaves the panel; stays in it
        np.testing.assert_allclose(maspo[0], -1 / (2 * epsilon), rtol=0.05)
        beyond = r > target + 0.01 if A > 0 else r < target - 0.01
        assert (slopes["MAPPO"][0][1][beyond] == 0).all()
        np.testing.assert_allclose(
            slopes["MAPPO"][0][1][np.abs(r - 1) < 0.9 * epsilon], A, rtol=1e-4
        )
        assert (slopes["MARS"][0][1][beyond] * A < 0).all()
        (shaded,) = gradients[column].patches
        span = shaded.get_x(), shaded.get_x() + shaded.get_width()
        assert span == pytest.approx((target, 2.5) if A > 0 else (0, target))


def test_curves_figure_draws_the_mean_and_its_interval(tmp_path):
    steps = np.linspace(0, 1e6, 11)
    shifts = (0.0, 0.3, 0.9, 0.4, 0.2)
    rows = [np.sin(steps / 3e5) + shift for shift in shifts]
    curves = {"mars": [(steps, row) for row in rows], "maspo": [(steps, rows[0])]}
    figure = curves_figure(tmp_path / "curves.png", {"return": curves}, "a task")
    expect_picture(tmp_path / "curves.png")
    (axis,) = figure.axes
    assert (axis.get_ylabel(), figure.get_suptitle()) == ("return", "a task")
    drawn = labelled(axis)
    np.testing.assert_allclose(drawn["MARS"][0][1], np.mean(rows, axis=0))
    np.testing.assert_allclose(drawn["MASPO"][0][1], rows[0])
    (band,) = axis.collections  # one: a single seed has no interval
    edges = band.get_paths()[0].vertices[:, 1]
    curve = mean_curve({"": np.stack(rows)}, np.random.default_rng(0))  # as everywhere else
    np.testing.assert_allclose(edges.max(), curve.high.max())
    assert np.mean(rows, axis=0).max() < edges.max() < np.max(rows)
    widths = {line.get_label(): line.get_linewidth() for line in axis.get_lines()}
    assert widths["MASPO"] < widths["MARS"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["MARS", "MASPO"]


def test_few_seeds_are_drawn_one_by_one(tmp_path):
    steps = np.linspace(0, 1e6, 11)
    rows = [steps * slope for slope in (1.0, 2.0, 6.0)]
    figure = curves_figure(
        tmp_path / "curves.png", {"return": {"mars": [(steps, row) for row in rows]}}
    )
    (axis,) = figure.axes
    assert not axis.collections
    drawn = [line.get_ydata() for line in axis.get_lines()]
    np.testing.assert_allclose(drawn, [steps * 3, *rows])


def test_curves_of_unequal_seeds_end_where_the_shortest_does(tmp_path):
    long, short = np.linspace(0, 100, 11), np.linspace(5, 50, 4)
    figure = curves_figure(
        tmp_path / "curves.pdf", {"return": {"other": [(long, 2 * long), (short, 4 * short)]}}
    )
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
    x, y = labelled(figure.axes[0])["other"][0]
    np.testing.assert_allclose(x, [10, 20, 30, 40, 50])
    np.testing.assert_allclose(y, 3 * x)


def test_ratios_figure(tmp_path):
    records = {"mars": training(), "maspo-asymmetric": training(scale=3.0)}
    records["maspo-asymmetric"]["ratio_min"][-1] = 0.0  # what float32 makes of a lost action
    records["maspo-asymmetric"]["ratio_max"][-1] = np.inf
    figure = ratios_figure(tmp_path / "ratios.png", records, title="a task")
    expect_picture(tmp_path / "ratios.png", least_width=1200)
    largest, smallest, middle, share = (labelled(axis) for axis in figure.axes)
    mars = records["mars"]
    np.testing.assert_allclose(largest["MARS"][0], (mars["steps"], mars["ratio_max"]))
    np.testing.assert_allclose(smallest["MARS"][0], (mars["steps"], mars["ratio_min"]))
    np.testing.assert_allclose(
        [y for _, y in middle["MARS"]], [mars["ratio_q01"], mars["ratio_q99"]]
    )
    np.testing.assert_allclose(share["MARS"][0], (mars["steps"], mars["beyond_target"]))
    assert [axis.get_yscale() for axis in figure.axes] == ["log", "log", "log", "linear"]
    assert len(figure.axes[2].collections) == 2
    assert largest["MASPO (asymmetric)"][0][1][-1] == 1e12
    assert smallest["MASPO (asymmetric)"][0][1][-1] == 1e-12


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no curves to draw for mars, mappo"):
        curves_figure(tmp_path / "curves.png", {"return": {"mars": [], "mappo": []}})
    with pytest.raises(ValueError, match="no training records to draw"):
        ratios_figure(tmp_path / "ratios.png", {})
    assert not list(tmp_path.iterdir())


def test_a_figure_is_saved_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "new" / "ratios.png"
    ratios_figure(path, {"mars": training()})  # makes the directory
    before = path.read_bytes()

    def broken(self, target, **_):
        target.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figures.Figure, "savefig", broken)
    with pytest.raises(OSError, match="disk full"):
        ratios_figure(path, {"mars": training()})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"saved as \.png or \.pdf, not as '\.jpeg'.*Change the suffix"
    ):
        ratios_figure(tmp_path / "ratios.jpeg", {"mars": training()})
    assert not list(tmp_path.iterdir())
