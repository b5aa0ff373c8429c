"""Tables in both formats, read back."""

import shutil

import pytest

from ratiosym.report.analysis import analyse
from ratiosym.report.results import load
from ratiosym.report.tables import (
    Cell,
    Row,
    Table,
    improvement_table,
    make_tables,
    scores_table,
    tasks_table,
    to_latex,
    to_markdown,
)
from tests.report.studies import make_plan, write_study

# Two rows of the paper's Table 1.
PAPER = Table(
    "table1",
    "Aggregate performance by environment",
    "IQM & 95% intervals.",
    "Environment",
    {"mappo": "MAPPO", "maspo": "MASPO", "mars": "MARS"},
    (
        Row(
            "AeroJAX",
            "aerojax",
            (
                Cell("0.82", "0.79, 0.85", value=0.82),
                Cell("0.82", "0.79, 0.84", value=0.82),
                Cell("0.91", "0.90, 0.91", is_bold=True, value=0.91),
            ),
        ),
        Row(
            "Connector",
            "connector",
            (
                Cell("0.95", "0.94, 0.95", is_bold=True, has_star=True, value=0.95),
                Cell(),
                Cell("0.95", "", is_bold=True, has_star=True, value=0.95),
            ),
        ),
    ),
)


def test_latex_is_the_papers():
    text = to_latex(PAPER, ("One seed only.",))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "% One seed only."
    assert r"Environment & MAPPO & MASPO & MARS \\" in lines
    assert (
        r"AeroJAX & $0.82_{(0.79,0.85)}$ & $0.82_{(0.79,0.84)}$ & $\mathbf{0.91}_{(0.90,0.91)}$ \\"
        in lines
    )
    assert r"Connector & $\mathbf{0.95}^*_{(0.94,0.95)}$ & -- & $\mathbf{0.95}^*$ \\" in lines
    assert r"\begin{tabular}{lccc}" in lines
    assert r"IQM \& 95\% intervals." in text
    for name in ("table", "tabular"):
        assert text.count(f"\\begin{{{name}}}") == text.count(f"\\end{{{name}}}") == 1
    assert [line for line in lines if line.endswith("rule")] == [
        "\\toprule",
        "\\midrule",
        "\\bottomrule",
    ]


def test_markdown():
    text = to_markdown(PAPER, ("One seed only.",))
    assert text.splitlines()[2:6] == [
        "| Environment | MAPPO | MASPO | MARS |",
        "| --- | ---: | ---: | ---: |",
        "| AeroJAX | 0.82 (0.79, 0.85) | 0.82 (0.79, 0.84) | **0.91** (0.90, 0.91) |",
        "| Connector | **0.95**\\* (0.94, 0.95) | – | **0.95**\\* |",
    ]
    assert text.endswith("\n- One seed only.\n")


def test_names_are_escaped():
    table = Table(
        "tasks",
        "Returns",
        "",
        "Task",
        {"a": "A_1"},
        (Row("smax-3s_vs_5z", "smax", (Cell("1", value=1.0),)),),
    )
    assert r"smax-3s\_vs\_5z & $1$ \\" in to_latex(table)
    assert r"Task & A\_1 \\" in to_latex(table)


def test_scores(analysis):
    table = scores_table(analysis)
    assert list(table.columns) == ["mars", "mappo", "maspo"]  # the plan's order, as everywhere
    assert [row.name for row in table.rows] == ["Connector", "MPE"]  # by name, as in the paper
    mars = table.rows[0].cells[0]
    assert (mars.text, mars.interval, mars.is_bold, mars.has_star) == (
        "0.98",
        "0.96, 1.00",
        True,
        False,
    )
    assert not table.rows[0].cells[1].is_bold


def test_improvement(analysis):
    table = improvement_table(analysis)
    assert table.title == "Probability that MARS is better than the others"
    assert table.columns == {"mappo": "than MAPPO", "maspo": "than MASPO"}
    assert [row.name for row in table.rows] == ["Connector", "MPE", "All tasks"]
    assert all(c.text == "1.00" and c.is_bold for row in table.rows for c in row.cells)


def test_returns_by_task(analysis):
    table = tasks_table(analysis)
    assert [row.name for row in table.rows] == ["mpe-spread-3ag", "connector-5x5x3a"]
    assert [cell.text for cell in table.rows[0].cells] == ["0.92", "0.72", "0.52"]
    assert table.rows[0].cells[0].interval == "0.9, 0.94"


def test_one_algorithm_is_neither_best_nor_better(tmp_path):
    numbers = analyse(load(write_study(tmp_path, make_plan(labels=("mars",)))))
    assert [table.name for table in make_tables(numbers)] == ["table1", "tasks"]
    assert not scores_table(numbers).rows[0].cells[0].is_bold


def test_an_algorithm_without_a_finished_run_has_an_empty_cell(tmp_path):
    write_study(tmp_path, make_plan())
    shutil.rmtree(tmp_path / "runs/mpe-spread-3ag/maspo")
    numbers = analyse(load(tmp_path))
    for table in make_tables(numbers):
        (row,) = [row for row in table.rows if row.suite == "mpe"]
        assert row.cells[list(table.columns).index("maspo")] == pytest.approx(Cell(), nan_ok=True)
        assert "–" in to_markdown(table)
        assert "& --" in to_latex(table)
