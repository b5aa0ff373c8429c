"""End-to-end tests of ``ratiosym report``."""

import re
import shutil

import pytest

from tests.example_runs import run_command
from tests.report.studies import make_plan, write_study, write_sweep


def test_a_report(ask, here):
    write_study(here / "study", make_plan())
    shutil.rmtree(here / "study/runs/mpe-spread-3ag/mars/seed-2")
    text = ask("report", "study", "--out", "out/page.html")
    assert re.search(
        r"Connector +0\.98 \(0\.96, 1\.00\) +0\.77 \(0\.74, 0\.79\) +0\.55 \(0\.53, 0\.57\)", text
    )
    assert "On Connector MARS is better than MAPPO (P = 1.00" in " ".join(text.split())
    assert "Not finished: runs/mpe-spread-3ag/mars/seed-2: not started" in text
    assert "Note: 1 of 18 planned runs are not part of the comparison" in " ".join(text.split())
    assert (
        "Page: out/page.html\nFigures, tables and numbers: out/page-files/\n  figure2.png\n" in text
    )
    names = re.findall(r"^  (\S+)$", text, re.MULTILINE)
    assert sorted(names) == sorted(p.name for p in (here / "out/page-files").iterdir())
    assert {
        "figure3.pdf",
        "tasks.pdf",
        "profiles.png",
        "table1.tex",
        "table1.md",
        "runs.csv",
        "marl-eval.json",
    } <= set(names)
    assert "…" not in text


def test_five_algorithms_fit_the_terminal(ask, here):
    labels = (
        "mars",
        "mappo-asymmetric",
        "maspo-asymmetric",
        "mars-multiplicative",
        "mars-additive",
    )
    write_study(here / "study", make_plan(tasks=("aerojax-8v8",), labels=labels, seeds=2))
    text = ask("report", "study")
    assert (here / "study" / "report.html").exists()
    assert max(map(len, text.split("Page:")[0].splitlines())) <= 80
    assert "…" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("report", "nowhere"),
            "'nowhere' does not exist. Start one with: ratiosym study run PLAN --out 'nowhere'",
        ),
        (("report", "."), "'.' holds no study: there is no plan.json in it."),
        (
            ("report", ".", "--out", "page.pdf"),
            "--out is 'page.pdf'; its name must end in .html or .htm.",
        ),
    ],
)
def test_wrong_input_is_one_paragraph(ask, here, words, said):
    message = ask(*words, code=2)
    assert message.startswith("ratiosym: ")
    assert message.count("\n") == 1
    assert said in message
    assert list(here.iterdir()) == []


def test_nothing_has_finished(ask, here):
    write_study(here / "study", make_plan(seeds=1))
    for path in (here / "study").rglob("summary.json"):
        path.unlink()
    message = ask("report", "study", code=2)
    assert (
        "None of the 6 runs in 'study' has finished (runs/mpe-spread-3ag/mars/seed-0: not finished "
        "(512 of" in message
    )
    assert "Resume with: ratiosym study run --out 'study'" in message
    assert sorted(p.name for p in (here / "study").iterdir()) == ["plan.json", "runs"]


@pytest.mark.slow
def test_a_study_that_was_really_run(here):
    """From the plan to the page, using only commands."""
    assert run_command("reproduce", "smoke", "--out", "study", cwd=here).returncode == 0
    done = run_command("report", "study", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PaxMen" in done.stdout
    assert "MPE" in done.stdout
    assert "Not finished" not in done.stdout
    assert (here / "study" / "report-files" / "figure2.pdf").exists()


def test_several_studies_and_searches(ask, here):
    """Two directories are one study; what varies the trust region is drawn beside them."""
    write_study(here / "one", make_plan(tasks=("smax-2s3z",), seeds=2))
    write_study(here / "two", make_plan(tasks=("mpe-spread-3ag",), seeds=2))
    write_sweep(here / "sweep")
    text = ask("report", "one", "two", "--searches", "sweep")
    assert (here / "one/report.html").exists()
    assert re.search(r"^SMAX +0\.\d\d", text, re.MULTILINE)
    assert re.search(r"^MPE +0\.\d\d", text, re.MULTILINE)
    assert {"  response.png", "  response.md"} <= set(text.splitlines())
    assert ask("figures", "response", "sweep", "--out", "here.pdf") == "here.pdf\n"
    assert (here / "here.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report",), "Name at least one DIR"),
        (("figures", "response"), "'response' needs at least one DIR"),
    ],
)
def test_a_directory_is_needed(ask, here, words, said):
    assert said in ask(*words, code=2)
