"""Figures of a study: what is on their axes is what was computed."""

import matplotlib.image
import numpy as np

from ratiosym.objectives import OBJECTIVES
from ratiosym.report.analysis import analyse
from ratiosym.report.paper import ablation_figure, profiles_figure, suites_figure, tasks_figure
from ratiosym.report.results import load
from ratiosym.report.style import line_styles
from tests.report.studies import make_plan, write_study
from tests.report.test_figures import labelled


def expect_files(stem):
    assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert matplotlib.image.imread(stem.with_suffix(".png"))[..., :3].std() > 0.02  # not blank
    assert sorted(p.name for p in stem.parent.iterdir()) == [f"{stem.name}.pdf", f"{stem.name}.png"]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_suites_with_their_insets(analysis, tmp_path):
    figure = suites_figure(analysis, tmp_path / "figure2")
    expect_files(tmp_path / "figure2")
    assert [axis.get_title() for axis in figure.axes] == ["(a) MPE", "(b) Connector"]
    assert legend(figure) == ["MARS", "MAPPO", "MASPO"]
    for axis, suite in zip(figure.axes, analysis.suites.values(), strict=True):
        drawn = labelled(axis)
        for label, title in analysis.titles.items():
            np.testing.assert_allclose(
                drawn[title][0], (suite.returns[label].steps, suite.returns[label].curve.value)
            )
        assert len(axis.collections) == 3  # intervals
        (inset,) = axis.child_axes
        assert inset.get_title() == "P(MARS better)"
        assert [tick.get_text() for tick in inset.get_yticklabels()] == ["MAPPO", "MASPO"]
        assert [tuple(line.get_xdata()) for line in inset.get_lines()] == [
            (0.5, 0.5),
            (1, 1),
            (1,),
            (1, 1),
            (1,),
        ]


def test_the_ablations_have_the_papers_rows(tmp_path):
    """Returns, largest and smallest ratio of five variants on two tasks."""
    variants = (
        "mars",
        "mappo-asymmetric",
        "maspo-asymmetric",
        "mars-multiplicative",
        "mars-additive",
    )
    tasks = ("smax-2s3z", "jaxnav-11x11x4a", "aerojax-8v8")
    analysis = analyse(
        load(write_study(tmp_path / "study", make_plan(tasks=tasks, labels=variants, seeds=2)))
    )
    figure = ablation_figure(analysis, tmp_path / "drawn" / "figure3")
    expect_files(tmp_path / "drawn" / "figure3")
    panels = ("returns", "max ratios", "min ratios")
    expected = [
        f"{task}: {panel}" for task in ("aerojax-8v8", "jaxnav-11x11x4a") for panel in panels
    ]
    assert [axis.get_title() for axis in figure.axes] == expected
    assert [axis.get_yscale() for axis in figure.axes] == ["linear", "log", "log"] * 2
    largest = labelled(figure.axes[1])
    assert len(largest) == 5
    np.testing.assert_allclose(largest["MARS"][0][1], 1 + 0.1 * np.arange(1, 25))
    assert largest.keys() == set(legend(figure))


def test_ratios_of_other_tasks(analysis, tmp_path):
    figure = ablation_figure(analysis, tmp_path / "figure3")
    assert figure.axes[0].get_title() == "mpe-spread-3ag: returns"
    assert len(figure.axes) == 6


def test_every_task_has_a_panel(tmp_path):
    tasks = ("rware-tiny-2ag", "smax-2s3z", "smax-3s5z", "paxmen-4a", "paxmen-5a", "mpe-spread-3ag")
    analysis = analyse(load(write_study(tmp_path / "study", make_plan(tasks=tasks, seeds=2))))
    figure = tasks_figure(analysis, tmp_path / "drawn" / "tasks")
    expect_files(tmp_path / "drawn" / "tasks")
    assert [axis.get_title() for axis in figure.axes if axis.axison] == list(analysis.tasks)
    assert sorted(analysis.tasks) == sorted(tasks)
    task = analysis.tasks["paxmen-4a"]
    drawn = labelled(figure.axes[list(analysis.tasks).index("paxmen-4a")])
    np.testing.assert_allclose(
        drawn["MARS"][0][1], (task.returns["mars"].curve.value - task.low) / (task.high - task.low)
    )


def test_profiles(analysis, tmp_path):
    figure = profiles_figure(analysis, tmp_path / "profiles")
    expect_files(tmp_path / "profiles")
    x, y = labelled(figure.axes[0])["MAPPO"][0]
    np.testing.assert_allclose((x[0], x[-1]), (0, 1))
    np.testing.assert_allclose(y, analysis.profile["mappo"].value)


def test_one_seed_has_curves_without_intervals(tmp_path):
    analysis = analyse(load(write_study(tmp_path / "study", make_plan(seeds=1))))
    figure = suites_figure(analysis, tmp_path / "drawn" / "figure2")
    assert not figure.axes[0].collections
    assert len(figure.axes[0].child_axes[0].get_lines()) == 3  # the middle, and a point each


def test_styles_are_the_objectives_own_or_free():
    found = line_styles({"mars": "MARS", "wide": "wide", "mappo": "MAPPO", "narrow": "narrow"})
    assert found["mars"] == ("MARS", OBJECTIVES["mars"].colour, ())
    assert len({look.colour for look in found.values()}) == 4
    assert found["wide"].dashes != found["narrow"].dashes
    many = line_styles({f"variant-{i}": f"variant {i}" for i in range(12)})
    assert len({look.colour for look in many.values()}) == 8
