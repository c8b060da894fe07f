"""The page about runs in headless Chromium: curves are drawn, tables sort, nothing is fetched."""

import re
from contextlib import contextmanager

import pytest

from browsers import chromium, playwright
from earl.experiments.runs.records import find_runs
from earl.report.page import write_page
from pages import RUNS, write_evil_runs, write_page_runs
from run_folders import write_run

pytest.importorskip("plotly")
LINES = ".scatterlayer .js-line"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page on three methods on one stream, and on two of them on another."""
    folder = tmp_path_factory.mktemp("report")
    write_page_runs(folder / "runs")
    write_page_runs(folder / "runs", ("er", "earl"), stream="gaussian")
    write_page(folder / "report.html", find_runs([folder / "runs"]), versus="er")
    return folder / "report.html"


@contextmanager
def visiting(browser):
    """Give a function that opens a page; afterwards it must have complained of nothing."""
    pages, wrong, requests = [], [], []

    def open_page(path, **given):
        page = browser.new_page(viewport={"width": 1280, "height": 800}, **given)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        playwright.expect(page.locator(".chart:not(.js-plotly-plot)")).to_have_count(0)
        assert requests.pop(0) == path.as_uri()
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert wrong == []
    assert all(url.startswith("blob:null/") for url in requests)  # what the page has made itself


@pytest.fixture
def visit(browser):
    with visiting(browser) as visit:
        yield visit


@pytest.fixture(scope="module")
def drawn(browser, report):
    """The page of the report for tests that leave its lines as they were."""
    with visiting(browser) as visit:
        yield visit(report)


def column(page, number):
    """Return the first table's texts below a heading."""
    return page.locator("table.results").first.locator(f"tbody tr > :nth-child({number})")


def values(page, number):
    return [float(text.split(" ")[0]) for text in column(page, number).all_inner_texts()]


def heading(page, name):
    return page.locator("table.results").first.get_by_role("button", name=name, exact=True)


def order(page, name):
    return heading(page, name).locator("..").get_attribute("aria-sort")


def test_one_line_is_drawn_for_each_method_and_nothing_is_fetched(drawn):
    for chart, count in {"accuracy-1": 3, "online-1": 3, "accuracy-2": 2, "online-2": 2}.items():
        lines = drawn.locator(f"#{chart} {LINES}")
        assert lines.count() == count
        assert all(line.bounding_box()["width"] > 200 for line in lines.all())


@pytest.mark.slow
def test_no_button_of_a_chart_leads_out_of_the_page(visit, report):
    """Plotly's own choice of buttons has one that uploads the chart."""
    page = visit(report)
    buttons = page.locator("#accuracy-1 .modebar-btn")
    first, *others = [button.get_attribute("data-title") for button in buttons.all()]
    assert first.lower() == "download plot as a png"
    assert others == ["Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
    page.locator("#accuracy-1").hover()
    with page.expect_download() as download:
        buttons.first.click()
    assert download.value.suggested_filename == "accuracy-1.png"


@pytest.mark.slow
def test_a_heading_sorts_and_sorts_back(visit, report):
    page = visit(report)
    before = values(page, 2)
    assert before != sorted(before, reverse=True)
    heading(page, "A_AUC").click()
    assert values(page, 2) == sorted(before, reverse=True)
    assert column(page, 1).all_inner_texts() == ["earl", "er", "der++"]
    assert order(page, "A_AUC") == "descending"
    heading(page, "A_AUC").click()
    assert values(page, 2) == sorted(before)
    assert order(page, "A_AUC") == "ascending"
    heading(page, "method").click()
    assert column(page, 1).all_inner_texts() == sorted(RUNS)
    assert (order(page, "A_AUC"), order(page, "method")) == (None, "ascending")


def test_a_keyboard_can_sort_and_hide(drawn):
    page = drawn
    heading(page, "A_last").focus()
    page.keyboard.press("Enter")
    assert order(page, "A_last") == "descending"
    page.keyboard.press("Space")
    assert order(page, "A_last") == "ascending"
    assert values(page, 4) == sorted(values(page, 4))
    button = page.locator(".legend button").first
    button.focus()
    page.keyboard.press("Space")
    assert button.get_attribute("aria-pressed") == "false"
    assert page.locator(f"#accuracy-1 {LINES}").count() == 2
    assert page.locator(f"#online-1 {LINES}").count() == 2
    assert page.locator(f"#accuracy-2 {LINES}").count() == 2  # another legend's
    page.keyboard.press("Space")
    assert page.locator(f"#accuracy-1 {LINES}").count() == 3


@pytest.mark.slow
def test_empty_cells_stay_last_in_both_orders(visit, report):
    page = visit(report)
    for _ in range(2):
        heading(page, "A_AUC vs er").click()
        assert column(page, 3).all_inner_texts()[-1] == "–"


@pytest.mark.slow
def test_the_page_is_never_wider_than_the_screen(visit, report):
    page = visit(report)
    for part in page.locator("summary").all():
        if part.locator("..").get_attribute("open") is None:
            part.click()
    fits = "document.documentElement.scrollWidth <= innerWidth"
    assert page.evaluate(fits)
    page.set_viewport_size({"width": 360, "height": 740})
    for chart in page.locator(".chart").all():  # is drawn anew a moment later
        picture = chart.locator(".main-svg").first
        playwright.expect(picture).to_have_attribute("width", re.compile("^3[0-4][0-9]"))
    assert page.evaluate(fits)


@pytest.mark.slow
def test_the_dark_page_has_its_own_colours_and_prints_on_white(visit, report):
    page = visit(report, color_scheme="dark")

    def look():
        stroke = page.locator(f"#accuracy-1 {LINES}").first.evaluate("e => e.style.stroke")
        return stroke, page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert look() == ("rgb(255, 255, 255)", "rgb(21, 24, 28)")  # der++ is black on white
    page.emulate_media(color_scheme="light")
    assert look() == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
    page.emulate_media(color_scheme="dark")
    assert page.pdf().startswith(b"%PDF")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert look()[0] == "rgb(0, 0, 0)"
    assert page.locator("details:not([open])").count() == 0


def test_markup_in_names_does_nothing(visit, tmp_path):
    title = write_evil_runs(tmp_path / "runs")
    write_page(tmp_path / "report.html", find_runs([tmp_path / "runs"]), title=title)
    page = visit(tmp_path / "report.html")
    assert page.title() == title
    assert page.locator("img").count() == 0


@pytest.mark.slow
def test_a_page_without_curves_sorts_too(visit, tmp_path):
    for seed, accuracies in {1: (0.5, 0.7), 2: (0.9,), 3: ()}.items():
        write_run(tmp_path / "runs", "er", seed, accuracies, finished=False)
    write_page(tmp_path / "report.html", find_runs([tmp_path / "runs"]))
    page = visit(tmp_path / "report.html")
    page.get_by_role("button", name="accuracy so far, %").click()
    shown = page.locator("table.states tbody td:nth-child(3)").all_inner_texts()
    assert shown == ["90.00", "70.00", "–"]
