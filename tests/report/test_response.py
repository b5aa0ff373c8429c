"""Return against the width of the trust region, from studies and from searches."""

import csv
import math

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.tuning.seeds import final_return
from ratiosym.report.analysis import analyse
from ratiosym.report.response import (
    is_line,
    late_return,
    read_response,
    response_figure,
    response_of,
)
from ratiosym.report.results import load
from ratiosym.report.tables import response_table
from ratiosym.runs.files import write_json
from tests.report.studies import make_plan, write_study, write_sweep

TASK = "mpe-spread-3ag"


def write_search(directory, objective="mars", space=("b_upper", "b_lower"), extra=()):
    """A search as 'ratiosym reproduce' leaves it: three points, one of them pruned."""
    settings = {
        "run": {"task": TASK, "objective": objective},
        "space": {name: [] for name in space},
    }
    write_json(directory / "search.json", {"settings": settings})
    points = [(1.2, 0.8, "complete", (1.0, 3.0)), (4.0, 0.3, "complete", (5.0, 7.0))]
    points += [(10.0, 0.1, "pruned", (9.0, ""))]
    with open(directory / "trials.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("trial", "state", "value", *space, *extra, "seed-1000", "seed-1001"))
        for trial, (upper, lower, state, seeds) in enumerate(points):
            own = {"b_upper": upper, "b_lower": lower, "epsilon": upper - 1}
            numbers = [own.get(name, 4) for name in (*space, *extra)]
            writer.writerow((trial, state, "", *numbers, *seeds))
    return directory


def test_a_study_that_varies_the_region(tmp_path):
    regions = read_response([write_sweep(tmp_path)])
    assert [(r.objective, *map(float, r.bounds)) for r in regions] == [
        ("mars", 0.8, 1.2),
        ("mars", 0.5, 2.0),
        ("mappo", 0.8, 1.2),
    ]
    assert [r.task for r in regions] == [TASK] * 3
    assert regions[0].width == regions[2].width == pytest.approx(math.log(1.2 / 0.8))
    assert regions[1].width == pytest.approx(math.log(4))
    assert regions[1].words == "0.5 to 2"
    # Returns rise to 0.9 and 1.0 in ten evaluations; the last two are 90% and 100% of that.
    assert regions[1].seeds == pytest.approx({0: 0.9 * 0.95, 1: 1.0 * 0.95})
    assert regions[1].estimate == pytest.approx((0.95 * 0.95, 0.9 * 0.95, 0.95))  # both points


def test_a_seeds_value_is_that_of_a_search():
    for num in (1, 2, 5, 6, 20, 21, 122):
        returns = np.random.default_rng(num).normal(size=num + 1)
        rows = [{"mean_return": float(x)} for x in returns]
        assert late_return(returns) == pytest.approx(final_return(rows))


def test_searches_of_the_region_alone(tmp_path):
    """Complete trials of any directory: a search, a tree of them, a study with its searches."""
    write_search(tmp_path / "tuning" / TASK / "mars")
    for place in (tmp_path / "tuning" / TASK / "mars", tmp_path / "tuning"):
        regions = read_response([place])
        assert [tuple(map(float, r.bounds)) for r in regions] == [(0.8, 1.2), (0.3, 4.0)]
        assert [r.seeds for r in regions] == [{1000: 1.0, 1001: 3.0}, {1000: 5.0, 1001: 7.0}]
        assert [r.estimate for r in regions] == [(2, 1, 3), (6, 5, 7)]
    write_study(tmp_path, make_plan(tasks=(TASK,), seeds=1))
    assert read_response([tmp_path]) == regions
    assert analyse(load(tmp_path)).response == regions


def test_objectives_have_the_plans_order(tmp_path):
    """Not that of the directories' names."""
    write_study(tmp_path, make_plan(tasks=(TASK,), labels=("mars", "mappo"), seeds=1))
    write_search(tmp_path / "tuning" / TASK / "mappo", "mappo", ("epsilon",))
    write_search(tmp_path / "tuning" / TASK / "mars")
    (tmp_path / "tuning" / TASK / "mappo" / "trials.csv").write_text(
        "trial,state,epsilon,seed-1000\n0,complete,0.1,1.0\n1,complete,0.2,2.0\n"
    )
    found = [region.objective for region in analyse(load(tmp_path)).response]
    assert found == ["mars", "mars", "mappo", "mappo"]
    # Without a plan, that of the list of objectives.
    found = [region.objective for region in read_response([tmp_path / "tuning"])]
    assert found == ["mars", "mars", "mappo", "mappo"]


def test_other_searches_say_nothing_of_the_region(tmp_path):
    """With other settings for every trial, return against width would compare those."""
    write_search(tmp_path / "wide", space=("b_upper", "b_lower", "num_epochs"))
    with pytest.raises(InputError, match=r"wide' varies no trust region\. Name the directory"):
        read_response([tmp_path / "wide"])


def test_studies_that_vary_something_else_say_nothing_of_it(study, tmp_path):
    assert analyse(load(study)).response == ()  # one region for each objective
    with pytest.raises(InputError, match="varies no trust region"):
        read_response([study])
    write_sweep(tmp_path / "mixed")
    plan = load(tmp_path / "mixed").studies[0].plan
    options = {"b_lower": 0.5, "b_upper": 2.0, "actor_learning_rate": 1e-3}
    changed = (*plan.algorithms[:2], type(plan.algorithms[0])("other", "mars", options))
    mixed = make_plan(tasks=(TASK,), seeds=2, algorithms=changed)
    assert analyse(load(write_study(tmp_path / "other", mixed))).response == ()


def test_searches_are_drawn_beside_a_study_and_not_compared(study, tmp_path):
    numbers = analyse(load(study), searches=[write_sweep(tmp_path)])
    assert list(numbers.titles) == ["mars", "mappo", "maspo"]
    assert len(numbers.response) == 3
    table = response_table(numbers)
    assert [cell.text for cell in table.rows[1].cells] == [
        "MARS",
        "0.5 to 2",
        "1.39",
        "0.9025",
        "0.855, 0.95",
    ]
    assert table.rows[1].cells[3].interval == "0.855, 0.95"


def test_the_figure_shows_every_point(tmp_path):
    regions = response_of(load(write_sweep(tmp_path / "study")), (), 0)
    figure = response_figure(regions, tmp_path / "response.png", tmp_path / "response.pdf")
    assert (tmp_path / "response.pdf").read_bytes().startswith(b"%PDF")
    (axis,) = figure.axes
    assert axis.get_title() == TASK
    assert axis.get_xscale() == "log"
    lines = {line.get_label(): line for line in axis.get_lines() if line.get_label()[0] != "_"}
    assert set(lines) == {"MAPPO", "MARS"}
    np.testing.assert_allclose(
        lines["MARS"].get_xydata(), [(r.width, r.estimate.value) for r in regions[1:]]
    )
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["0.8–1.2", "0.5–2"]
    drawn = [tuple(line.get_ydata()) for line in axis.get_lines()]
    assert drawn.count(tuple(regions[1].seeds.values())) == 2  # both seeds, and the interval


def test_a_whole_grid_is_no_line(tmp_path):
    """Many regions of about one width: points, and the target ratios at the best one."""
    uppers, lowers = (1.05, 1.2, 2.0, 4.0), (0.9, 0.7, 0.5, 0.1)
    header = ("trial", "state", "b_upper", "b_lower", "seed-1000")
    settings = {"run": {"task": TASK, "objective": "mars"}, "space": {"b_upper": [], "b_lower": []}}
    write_json(tmp_path / "search.json", {"settings": settings})
    with open(tmp_path / "trials.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for k, (u, low) in enumerate((u, low) for u in uppers for low in lowers):
            writer.writerow((k, "complete", u, low, -abs(u - 2) - abs(low - 0.5)))
    regions = read_response([tmp_path])
    assert len(regions) == 16
    assert not is_line(regions)
    assert is_line(regions[:1])
    figure = response_figure(regions, tmp_path / "grid.png")
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.texts] == ["0.5–2"]
    assert axis.get_lines()[0].get_linestyle() == "None"


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(InputError, match="There are no trust regions to draw"):
        response_figure((), tmp_path / "none.png")
