"""The page in a real browser: Debian's Chromium, headless, offline. Slow; ``make test-all``
installs the browser.
"""

import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from ratiosym.report.write import write_report
from tests.report.studies import LEVELS, make_plan, write_study, write_sweep

pytestmark = pytest.mark.slow

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 400, "height": 700}


@pytest.fixture(scope="module")
def browser():
    path = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if path is None:
        pytest.fail(
            "There is no Chromium to open the page with. On Debian or Ubuntu: apt-get install -y "
            "chromium"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Five algorithms with long names on eight tasks of eight suites, one run missing."""
    labels = (*LEVELS, "mappo-asymmetric", "mars-multiplicative")
    tasks = (
        "rware-large-8ag-hard",
        "connector-18x18x33a",
        "smax-smacv2_20_units",
        "mpe-spread-10ag",
    )
    tasks += ("jaxnav-11x11x4a", "paxmen-4a", "aerojax-8v8", "sar-400tg-8ag", "mpe-spread-3ag")

    def final(task, label, seed):
        if task.startswith("smax"):
            return 0.5 + 0.02 * seed  # all are equal: stars
        level = LEVELS.get(label, 0.6) + 0.02 * seed
        return (1 + len(task)) * (level - 0.3 * (label == "mars" and task == "paxmen-4a"))

    place = tmp_path_factory.mktemp("page")
    write_study(place, make_plan(tasks=tasks, labels=labels, seeds=3), final=final)
    shutil.rmtree(place / "runs/paxmen-4a/maspo/seed-1")
    write_report(place)
    return place / "report.html"


@pytest.fixture
def open_page(browser, report):
    """Open the page; whatever it complains of, or asks the network for, fails the test."""
    contexts, troubles = [], []

    def open_it(size=DESKTOP, **options):
        context = browser.new_context(viewport=size, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda request: (
                troubles.append(request.url) if request.url != report.as_uri() else None
            ),
        )
        page.goto(report.as_uri())
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert [t for t in troubles if not t.startswith("data:")] == []


def column(page, table, place):
    """What is shown in a column, from top to bottom."""
    cells = page.locator(f"{table} tbody tr:visible > *:nth-child({place})")
    return [text.split()[0] for text in cells.all_inner_texts()]


def test_it_opens_and_draws_every_curve(open_page, tmp_path):
    page = open_page()
    expect(page).to_have_title("Study tiny")
    expect(page.locator("svg.chart")).to_have_count(8 + 1 + 9 * 3)
    for chart in page.locator("svg.chart").all():
        assert chart.locator("path[data-algorithm-line]").count() == 5
    expect(page.locator("#notes")).to_contain_text("1 of 135 planned runs")
    expect(page.locator("#absent")).to_contain_text("runs/paxmen-4a/maspo/seed-1: not started")
    page.screenshot(path=tmp_path / "desktop.png", full_page=True)
    assert (tmp_path / "desktop.png").stat().st_size > 50_000


def test_tables_sort(open_page):
    page = open_page()
    table = "#table-table1"
    names = column(page, table, 1)
    assert names == ["AeroJAX", "Connector", "JaxNav", "MPE", "PaxMen", "RWARE", "Search", "SMAX"]
    head = page.locator(
        f"{table} thead th", has=page.get_by_role("button", name="MARS", exact=True)
    )
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")  # the largest number first
    scores = [float(x.strip("*")) for x in column(page, table, 2)]
    assert scores == sorted(scores, reverse=True)
    assert column(page, table, 1)[-1] == "PaxMen"
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert column(page, table, 1)[0] == "PaxMen"
    page.locator(f"{table} thead th").first.get_by_role("button").click()
    assert column(page, table, 1) == names
    assert head.get_attribute("aria-sort") is None
    page.get_by_role("button", name="Environment").nth(1).click()
    assert column(page, "#table-improvement", 1)[-1] == "All"  # the total stays below


def test_runs_sort_by_number(open_page):
    page = open_page()
    page.locator("#table-runs").get_by_role("button", name="Absolute metric").click()
    values = [float(x) for x in column(page, "#table-runs", 4)]
    assert len(values) == 134
    assert values == sorted(values)


def test_filters(open_page):
    page = open_page()
    page.get_by_label("All or none of the suites").click()
    expect(page.locator("svg.chart:visible")).to_have_count(1)  # the profile is over all tasks
    page.get_by_label("MPE", exact=True).check()
    expect(page.locator("#curves figure:visible")).to_have_count(2 * 3)
    expect(page.locator("#environments figure:visible")).to_have_count(1)
    assert column(page, "#table-table1", 1) == ["MPE"]
    assert set(column(page, "#table-runs", 1)) == {"mpe-spread-10ag", "mpe-spread-3ag"}
    page.get_by_label("MAPPO", exact=True).uncheck()
    expect(page.locator("#status")).to_have_text("Showing 1 of 8 suites and 4 of 5 algorithms.")
    expect(page.locator("#table-table1 thead th:visible")).to_have_count(5)
    expect(
        page.locator("#curves figure:visible").first.locator("path[data-algorithm-line]")
    ).to_have_count(4)
    assert len(column(page, "#table-runs", 1)) == 2 * 4 * 3
    page.get_by_label("All or none of the algorithms").click()
    page.get_by_label("All or none of the algorithms").click()
    expect(page.locator("path[data-algorithm-line]")).to_have_count(0)
    page.get_by_label("All or none of the suites").click()
    page.get_by_label("All or none of the algorithms").click()
    expect(page.locator("svg.chart:visible")).to_have_count(36)


def test_values_under_the_pointer(open_page):
    """At the right end of mpe-spread-3ag: 15 x 0.92 for MARS, as it is and normalised."""
    page = open_page()
    figure = page.locator("#curves figure:has(figcaption:text-is('mpe-spread-3ag'))")
    chart, tip = figure.locator("svg.chart"), figure.locator(".tip")
    expect(tip).to_be_hidden()
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] * 0.965, "y": box["height"] / 2})
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("512 steps")
    expect(tip).to_contain_text("MARS 0.98 (0.96, 1)")
    page.get_by_label("Show").select_option("return")
    chart.hover(position={"x": box["width"] * 0.96, "y": box["height"] / 2})
    expect(tip).to_contain_text("MARS 13.8 (13.5, 14.1)")
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    ratios = page.locator("#curves figure", has_text="mpe-spread-3ag: largest ratio")
    box = ratios.locator("svg.chart").bounding_box()  # in sight, beside the returns
    ratios.locator("svg.chart").hover(position={"x": box["width"] * 0.965, "y": box["height"] / 2})
    expect(ratios.locator(".tip")).to_contain_text("MARS 3.4 (3.4, 3.4)")


def test_everything_by_keyboard(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(160):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.tagName + ':' + (document.activeElement.name || '')"
            )
        )
    assert {"INPUT:suite", "INPUT:algorithm", "BUTTON:", "svg:", "SELECT:", "A:", "DIV:"} <= reached
    button = page.locator("#table-table1 thead button").nth(1)
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#table-table1 thead th").nth(1)).to_have_attribute(
        "aria-sort", "descending"
    )
    assert (
        page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    )  # one sees where one is

    figure = page.locator("#environments figure").first
    tip = figure.locator(".tip")
    figure.locator("svg.chart").focus()
    page.keyboard.press("End")
    expect(tip).to_contain_text("512 steps")
    page.keyboard.press("ArrowLeft")
    expect(tip).to_contain_text("426 steps")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("85 steps")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    assert "Arrow keys" in figure.locator("svg.chart").get_attribute("aria-label")
    page.get_by_label("SMAX", exact=True).focus()
    page.keyboard.press("Space")
    expect(page.locator("#status")).to_contain_text("7 of 8 suites")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_a_phone(open_page, tmp_path, scheme):
    page = open_page(PHONE, has_touch=True, is_mobile=True, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    wide = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter((e) => {
            const box = e.getBoundingClientRect();
            return box.width > 0 && box.right > 401 && !e.closest(".scroll, pre, .skip");
        }).map((e) => e.outerHTML.slice(0, 100))"""
    )
    assert wide == []
    chart = page.locator("#environments svg.chart").first
    chart.tap()
    tip = page.locator("#environments .tip").first
    expect(tip).to_be_visible()
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.screenshot(path=tmp_path / f"{scheme}.png")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is (scheme == "light")


def test_charts_use_the_width_of_the_window(open_page):
    """A task's returns and ratios are one row; a chart alone has the whole width."""
    page = open_page()
    boxes = [figure.bounding_box() for figure in page.locator("#curves figure").all()[:3]]
    assert len({box["y"] for box in boxes}) == 1
    assert boxes[0]["x"] < 20
    assert boxes[2]["x"] + boxes[2]["width"] > 1170
    wide = page.locator("#profile figure").bounding_box()
    assert wide["width"] > 1150
    assert wide["height"] < 400
    page.set_viewport_size({"width": 800, "height": 900})
    page.wait_for_timeout(300)
    chart = page.locator("#profile svg.chart")
    assert chart.bounding_box()["width"] < 800
    assert chart.get_attribute("viewBox").split()[2] == str(round(chart.bounding_box()["width"]))


def test_the_legend_stays_in_view(open_page):
    for size in (DESKTOP, PHONE):
        page = open_page(size)
        page.locator("#runs").scroll_into_view_if_needed()
        assert page.evaluate("window.scrollY") > 2000
        box = page.locator(".legend").bounding_box()
        assert box["y"] < 5
        assert box["height"] < 120
        expect(page.get_by_label("MARS", exact=True)).to_be_in_viewport()


def test_numbers_do_not_break_and_stars_do_not_touch_the_edge(open_page):
    page = open_page(PHONE)
    for name in ("table1", "improvement", "tasks"):
        heights = page.evaluate(
            f"""() => [...document.querySelectorAll("#table-{name} .interval")].map(
                (e) => e.getClientRects().length + 100 * (e.offsetHeight > 24))"""
        )
        assert heights
        assert set(heights) == {1}, name
    gaps = page.evaluate(
        """() => [...document.querySelectorAll("#table-table1 .star")].map((e) =>
            e.closest("td").getBoundingClientRect().right - e.getBoundingClientRect().right)"""
    )
    assert gaps
    assert min(gaps) >= 1


def test_figures_are_seen(open_page):
    page = open_page()
    for image in page.locator("#figures img").all():
        assert image.evaluate("e => e.complete && e.naturalWidth > 800")
        assert 700 < image.bounding_box()["width"] <= 1200


def test_the_response_is_drawn_and_tells_its_values(browser, tmp_path):
    write_report(write_sweep(tmp_path))
    page = browser.new_page(viewport=PHONE, offline=True)
    page.goto((tmp_path / "report.html").as_uri())
    figure = page.locator("#response figure").first
    expect(figure.locator("path[data-objective-line]")).to_have_count(2)
    chart = figure.locator("svg.chart")
    assert "0.5–2" in chart.text_content()
    chart.focus()
    page.keyboard.press("End")
    expect(figure.locator(".tip")).to_contain_text("0.5 to 2, width 1.39")
    expect(figure.locator(".tip")).to_contain_text("MARS 0.9 (0.85, 0.95)")
    page.keyboard.press("Home")
    expect(figure.locator(".tip")).to_contain_text("MAPPO")
    page.close()


def test_a_runs_record_opens(open_page, report):
    page = open_page()
    link = page.locator("#table-runs tbody tr").first.get_by_role("link", name="config.json")
    assert (report.parent / link.get_attribute("href")).is_file()
