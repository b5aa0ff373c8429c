"""The documentation's site in a real browser, from the disk and offline. ``make test-all`` builds
it first.
"""

import pytest
from playwright.sync_api import expect

from tests.example_runs import ROOT
from tests.report.test_browser import DESKTOP, PHONE, browser

pytestmark = pytest.mark.slow
__all__ = ["browser"]  # a fixture
SITE = ROOT / "site"


@pytest.fixture
def open_page(browser):
    """Open a page; whatever it complains of, or asks the network for, fails the test."""
    if not (SITE / "index.html").exists():
        pytest.fail("There is no site to look at. Build it with: make docs")
    contexts, troubles = [], []

    def open_it(name, size=DESKTOP, **options):
        context = browser.new_context(viewport=size, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: note(request.url))
        page.goto((SITE / name).as_uri())
        return page

    def note(url):
        if not url.startswith((SITE.as_uri(), "data:", "blob:", "about:")):
            troubles.append(url)

    yield open_it
    for context in contexts:
        context.close()
    assert troubles == []


def test_search_finds_a_page_and_leads_to_it(open_page):
    page = open_page("index.html")
    expect(page.locator(".md-search__form")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("corridor")
    result = page.locator(".md-search-result__link[href*='environments/paxmen.html']").first
    expect(result).to_be_visible()
    result.click()
    expect(page.locator("h1")).to_contain_text("PaxMen")


def test_equations_are_drawn_without_a_script(open_page):
    page = open_page("concepts/objectives.html")
    expect(page.locator(".equation math")).to_have_count(3)
    assert page.locator(".equation math").first.bounding_box()["height"] > 15
    expect(page.locator("a[href$='#decision-7']")).to_have_count(1)


def test_api_reference_has_signatures(open_page):
    page = open_page("api/index.html")
    expect(page.get_by_role("heading", name="load_policy")).to_be_visible()
    expect(page.locator(".doc-signature", has_text="num_seeds")).to_have_count(1)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["wide", "phone"])
def test_every_page_fits_the_screen_and_shows_its_pictures(open_page, size, tmp_path):
    page = open_page("index.html", size)
    page.screenshot(path=tmp_path / "home.png")
    names = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    names.remove("404.html")  # a server's, with addresses from the root
    assert len(names) > 40
    wrong = []
    for name in names:
        page.goto((SITE / name).as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
            wrong.append(f"{name} is too wide")
        wrong += page.evaluate(
            "[...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"
        )
    assert wrong == []
