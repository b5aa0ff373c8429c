"""The page as a file: whole, self-contained, escaped, the same bytes again. ``test_browser.py``
opens it.
"""

import base64
import json
import re
import shutil
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.experiments.plans import Algorithm
from ratiosym.report import page as page_module
from ratiosym.report.analysis import analyse
from ratiosym.report.page import make_page
from ratiosym.report.results import load
from ratiosym.report.write import write_report
from tests.example_runs import contents
from tests.report.studies import make_plan, write_study

VOID = {"meta", "link", "input", "br", "img"}


class Reader(HTMLParser):
    """Elements with their attributes; complains of tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def report(study, tmp_path_factory):
    """A report beside its study."""
    place = shutil.copytree(study, tmp_path_factory.mktemp("report") / "a study")
    write_report(place, place / "report.html")
    return place


def read(page):
    return Reader(page.read_text())


def page_of(study, **options):
    """The page alone."""
    return make_page(analyse(load(study), **options), study / "report.html")


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_it_needs_nothing_from_elsewhere(report):
    page = read(report / "report.html")
    addresses = [a.get(k) for _, a in page.elements for k in ("href", "src", "action") if a.get(k)]
    assert addresses
    assert not [a for a in addresses if re.match(r"(?!data:)[a-z]+:|//", a)]
    assert all("src" not in a for a in page.all("script"))
    assert "url(" not in (report / "report.html").read_text()
    policy = next(
        a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")


def test_links_lead_to_every_runs_record(report):
    hrefs = [unquote(a["href"]) for a in read(report / "report.html").all("a")]
    names = (
        "config.json",
        "evaluations.csv",
        "training.csv",
        "absolute_metric.csv",
        "summary.json",
    )
    for name in names:
        assert sum(href.endswith(f"/{name}") for href in hrefs) == 18
    for href in hrefs:
        assert href.startswith("#") or (report / href).is_file(), href


def test_links_lead_there_from_elsewhere(report):
    (report.parent / "pages" / "deep").mkdir(parents=True)
    page = report.parent / "pages" / "deep" / "results.html"
    text = make_page(analyse(load(report)), page, list((report / "report-files").iterdir()))
    for href in (unquote(a["href"]) for a in Reader(text).all("a")):
        assert href.startswith("#") or (page.parent / href).is_file(), href


def test_sections_are_reached_by_links(report):
    page = read(report / "report.html")
    ids = {a["id"] for _, a in page.elements if "id" in a}
    inner = {a["href"][1:] for a in page.all("a") if a["href"].startswith("#")}
    assert inner <= ids
    assert {
        "verdicts",
        "scores",
        "improvement",
        "signs",
        "figures",
        "published",
        "settings",
        "environments",
        "profile",
        "curves",
        "tasks",
        "runs",
        "files",
        "plan",
    } <= inner


def test_curves_are_in_it(report, analysis):
    data = data_of((report / "report.html").read_text())
    assert [a["title"] for a in data["algorithms"]] == ["MARS", "MAPPO", "MASPO"]
    kinds = [chart["kind"] for chart in data["charts"]]
    assert kinds == ["suite", "suite", *["task", "ratio", "ratio"] * 2, "profile"]
    line = data["charts"][2]["lines"]["return"]["mappo"]
    assert (
        data["steps"][line["x"]] == analysis.tasks["mpe-spread-3ag"].returns["mappo"].steps.tolist()
    )
    assert line["y"][-1] == 0.72
    assert line["low"][-1] == 0.7
    assert [set(data["charts"][i]["lines"]) for i in (3, 4)] == [{"ratio_max"}, {"ratio_min"}]
    figures = [a for a in read(report / "report.html").all("figure") if "data-chart" in a]
    assert [a["data-chart"] for a in figures] == [str(i) for i in range(9)]


def test_one_verdict_per_environment(report):
    text = " ".join(" ".join(read(report / "report.html").texts).split())
    for suite in ("MPE", "Connector"):
        assert (
            f"On {suite} MARS is better than MAPPO (P = 1.00, 95% interval 1.00 to 1.00) and is "
            f"better than MASPO (P = 1.00, 95% interval 1.00 to 1.00)."
        ) in text


def test_figures_2_and_3_are_in_it(report):
    """As they are in the files, byte by byte."""
    images = {a["alt"][:8]: a["src"] for a in read(report / "report.html").all("img")}
    assert set(images) == {"Figure 2", "Figure 3"}
    for name, address in (("figure2", images["Figure 2"]), ("figure3", images["Figure 3"])):
        kind, _, data = address.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data) == (report / "report-files" / f"{name}.png").read_bytes()


def test_films_are_shown_small_ones_in_the_page(study, tmp_path, monkeypatch):
    place = shutil.copytree(study, tmp_path / "study")
    assert 'id="films"' not in page_of(place)
    film = place / "runs/mpe-spread-3ag/mars/seed-0/episode.gif"
    film.write_bytes(b"GIF89a film")
    (image,) = Reader(page_of(place)).all("img")
    assert image["alt"] == "MARS on mpe-spread-3ag, seed 0"
    assert base64.b64decode(image["src"].partition(",")[2]) == film.read_bytes()
    monkeypatch.setattr(page_module, "LARGEST_FILM", 5)
    linked = Reader(page_of(place))
    assert linked.all("img") == []
    assert "runs/mpe-spread-3ag/mars/seed-0/episode.gif" in [a["href"] for a in linked.all("a")]


def test_several_studies_on_one_page(study, tmp_path):
    """Links lead into each directory, and both plans are shown."""
    plan = make_plan(tasks=("smax-2s3z",), labels=("mars",), seeds=2, name="second")
    other = write_study(tmp_path / "other", plan)
    numbers = analyse(load(study, other))
    reader = Reader(make_page(numbers, tmp_path / "page.html"))
    hrefs = [unquote(a["href"]) for a in reader.all("a") if not a["href"].startswith("#")]
    assert len(hrefs) == 5 * (18 + 2)
    assert all((tmp_path / href).is_file() for href in hrefs)
    assert "Study tiny + second" in reader.texts
    assert {"The whole plan tiny", "The whole plan second"} <= set(reader.texts)


def test_plan_and_versions_are_in_it(report):
    text = " ".join(read(report / "report.html").texts)
    for fact in ("0123abc", "A processor", "0.10.2", '"preset": "smoke"', "18 of 18 runs finished"):
        assert fact in text
    assert "Intervals of fewer than 5 runs (here 3) are rough" in text
    assert "Runs of 512 environment steps prove nothing about an algorithm" in text


def test_absent_runs_are_listed(study, tmp_path):
    place = shutil.copytree(study, tmp_path / "study")
    shutil.rmtree(place / "runs/mpe-spread-3ag/mars/seed-1")
    text = " ".join(Reader(page_of(place)).texts)
    assert "1 run not finished or not usable" in text
    assert "runs/mpe-spread-3ag/mars/seed-1: not started" in text
    assert "17 of 18 runs finished" in text


def test_text_is_escaped(tmp_path):
    plan = make_plan(seeds=1, name="<b>a & b", about="</script><script>alert(1)</script>")
    write_study(tmp_path, plan)
    (tmp_path / "runs/mpe-spread-3ag/mars/seed-0/summary.json").unlink()
    (tmp_path / "runs/mpe-spread-3ag/mars/seed-0/failure.txt").write_text(
        "<script>alert(2)</script>"
    )
    page = page_of(tmp_path)
    assert "alert(1)</script>" not in page
    assert "<script>alert" not in page
    assert "Study &lt;b&gt;a &amp; b" in page
    assert len(Reader(page).all("script")) == 2


def test_labels_of_ones_own(tmp_path):
    plan = make_plan(labels=("mars", ("mars-b2", "mars"), ("x+y", "mappo")), seeds=2)
    assert Algorithm("x+y", "mappo") in plan.algorithms
    page = page_of(write_study(tmp_path, plan))
    assert [a["title"] for a in data_of(page)["algorithms"]] == ["MARS", "mars-b2", "x+y"]


def test_the_same_study_gives_the_same_bytes(report):
    """Every file, and nothing that is half written is left."""
    names = {name for name in contents(report) if name.startswith("report")}
    assert {
        "report.html",
        "report-files/table1.tex",
        "report-files/figure2.pdf",
        "report-files/tasks.png",
    } <= names
    before = contents(report)
    write_report(report)
    assert contents(report) == before


def test_another_seed_gives_other_intervals(tmp_path):
    def noisy(task, label, seed):
        return float(np.random.default_rng([seed, *label.encode()]).normal())

    write_study(tmp_path, make_plan(tasks=("mpe-spread-3ag",), seeds=6), final=noisy)
    assert page_of(tmp_path, seed=0) == page_of(tmp_path, seed=0) != page_of(tmp_path, seed=1)


def test_a_study_without_anything_in_common(tmp_path):
    """Each algorithm has finished another task: there are curves, and nothing is compared."""
    write_study(tmp_path, make_plan(labels=("mars", "mappo"), seeds=2))
    shutil.rmtree(tmp_path / "runs/connector-5x5x3a/mars")
    shutil.rmtree(tmp_path / "runs/mpe-spread-3ag/mappo")
    files = {path.name for path in write_report(tmp_path)[1]}
    assert {"figure2.png", "figure3.png", "tasks.pdf"} <= files  # each suite has one algorithm
    assert "profiles.png" not in files
    kinds = [chart["kind"] for chart in data_of((tmp_path / "report.html").read_text())["charts"]]
    assert kinds == ["suite", "suite", *["task", "ratio", "ratio"] * 2]


@pytest.mark.parametrize("seeds", [1, 2])
def test_small_studies(tmp_path, seeds):
    write_report(
        write_study(tmp_path, make_plan(tasks=("mpe-spread-3ag",), labels=("mappo",), seeds=seeds))
    )
    page = read(tmp_path / "report.html")
    assert ("One seed only" in " ".join(page.texts)) is (seeds == 1)
    line = data_of((tmp_path / "report.html").read_text())["charts"][0]["lines"]["normalised"][
        "mappo"
    ]
    assert ("low" in line) is (seeds > 1)


def test_wrong_names_are_refused_before_anything_is_written(study, tmp_path):
    before = contents(study)
    with pytest.raises(
        InputError, match=r"`out` is 'page\.pdf'; its name must end in \.html or \.htm"
    ):
        write_report(study, "page.pdf")
    with pytest.raises(InputError, match=r"--seed is -1; it must be 0 or more"):
        write_report(study, tmp_path / "page.html", seed=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written \(.*\)\. Choose another --out"):
        write_report(study, tmp_path / "file" / "page.html")
    assert contents(study) == before
