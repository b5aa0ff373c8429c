"""Figures of a search show its trials, and the same numbers give the same picture."""

import json
from dataclasses import replace

import matplotlib.image
import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.search_spaces import search_space
from ratiosym.report.search import (
    draw_search,
    hyperparameters_figure,
    importance_figure,
    read_trials,
    values_figure,
)

SPACE = {name: list(choices) for name, choices in search_space("mappo").items()}
STATES = ["complete", "pruned", "complete", "diverged", "complete", "waiting", "complete"]


@pytest.fixture
def search(tmp_path):
    """A search as it lies on disk: seven trials of two seeds."""
    rows = [["trial", "state", "value", *SPACE, "seed-1000", "seed-1001"]]
    for number, state in enumerate(STATES):
        params = [choices[number % len(choices)] for choices in SPACE.values()]
        seeds = {"complete": [number, number + 1.0], "pruned": [-3.0, ""]}.get(state, ["", ""])
        value = number + 0.5 if state == "complete" else ""
        rows.append(
            [number, state, value, *(params if state != "waiting" else [""] * len(SPACE)), *seeds]
        )
    (tmp_path / "trials.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    settings = {"run": {"task": "mpe-spread-3ag", "objective": "mappo"}, "space": SPACE}
    (tmp_path / "search.json").write_text(json.dumps({"settings": settings}))
    importance = {name: 1 / len(SPACE) for name in SPACE}
    (tmp_path / "importance.json").write_text(json.dumps({"main_effects": importance}))
    return tmp_path


def test_trials_are_read(search):
    points = read_trials(search / "trials.csv", list(SPACE))
    assert [(p.trial, p.is_complete, p.value) for p in points] == [
        (0, True, 0.5),
        (1, False, -3.0),
        (2, True, 2.5),
        (4, True, 4.5),
        (6, True, 6.5),
    ]
    assert points[1].params["actor_learning_rate"] == 2.5e-4


def test_all_figures(search):
    paths = draw_search(search)
    assert [path.name for path in paths] == ["values.png", "hyperparameters.png", "importance.png"]
    for path in paths:
        assert matplotlib.image.imread(path)[..., :3].std() > 0.02  # not blank


def test_values_and_the_best_so_far(search, tmp_path):
    points = read_trials(search / "trials.csv", list(SPACE))
    points[3] = replace(points[3], value=1.5)  # worse than the one before
    figure = values_figure(tmp_path / "v.png", points, "a title", "#D55E00")
    pruned, complete, best = figure.axes[0].lines
    assert pruned.get_xydata().tolist() == [[1, -3]]
    assert complete.get_ydata().tolist() == [0.5, 2.5, 1.5, 6.5]
    assert best.get_ydata().tolist() == [0.5, 2.5, 2.5, 6.5]
    assert figure.axes[0].get_title() == "a title"


def test_values_by_hyperparameter(search, tmp_path):
    points = read_trials(search / "trials.csv", list(SPACE))
    figure = hyperparameters_figure(tmp_path / "h.png", points, SPACE, "a title", "#D55E00")
    panels = {axis.get_title(): axis for axis in figure.axes if axis.get_title()}
    assert list(panels) == [name.replace("_", " ") for name in SPACE]
    panel = panels["num epochs"]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["2", "4", "8"]
    marks = {(round(line.get_xdata()[0]), line.get_ydata()[0]) for line in panel.lines}
    assert marks == {(0, 0.5), (1, -3.0), (2, 2.5), (1, 4.5), (0, 6.5)}
    bars = [bar.get_segments()[0][0, 1] for bar in panel.collections]
    assert bars == [3.5, 4.5, 2.5]  # of complete trials


def test_importance(tmp_path):
    figure = importance_figure(
        tmp_path / "i.png", {"b_upper": 0.75, "value_clip": 0.25}, "a title", "#D55E00"
    )
    axis = figure.axes[0]
    assert [patch.get_width() for patch in axis.patches] == [0.25, 0.75]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["value clip", "b upper"]


def test_few_trials_have_no_importance_and_none_no_figure(search):
    (search / "importance.json").write_text('{"main_effects": {}}')
    assert [path.name for path in draw_search(search)] == ["values.png", "hyperparameters.png"]
    lines = (search / "trials.csv").read_text().splitlines()
    (search / "trials.csv").write_text(
        "\n".join([lines[0], *(x for x in lines if ",pruned," in x)]) + "\n"
    )
    assert draw_search(search) == []


def test_a_search_that_has_not_ended(search):
    (search / "trials.csv").unlink()
    with pytest.raises(InputError, match=r"There is no '.*trials\.csv': 'ratiosym tune' writes it"):
        draw_search(search)
