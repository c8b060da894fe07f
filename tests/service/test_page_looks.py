"""The page of the service: its token, what images it takes, its looks, its words."""

import base64
import re

import numpy as np
import pytest

from earl.service.tokens import Tokens
from served import picture, serving
from served_page import expect, pictures, show, taught, teach

LONG = "a label without any end " * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("looks")


@pytest.fixture(scope="module")
def service(children, folder):
    """A service that every test here may teach something."""
    with serving(children, folder) as found:
        yield found


@pytest.fixture(scope="module")
def page(browser, service):
    """The page for tests that ask its scripts, and change nothing."""
    page = browser.new_page()
    page.goto(service.url)
    yield page
    page.close()


GIVE = """([kind, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const files = new DataTransfer();
    files.items.add(new File([bytes], "given.png", { type: "image/png" }));
    const kinds = { drop: [DragEvent, "dataTransfer"], paste: [ClipboardEvent, "clipboardData"] };
    const [Kind, name] = kinds[kind];
    document.body.dispatchEvent(new Kind(kind, { [name]: files, bubbles: true, cancelable: true }));
}"""


def test_images_are_dropped_pasted_and_taken_with_the_camera_and_what_is_none_is_named(
    service, visit
):
    page = visit(service.page)
    expect(page.locator("#choose")).to_be_visible()
    data = base64.b64encode(picture("sky")).decode()
    for kind, count in (("drop", 1), ("paste", 2)):
        page.evaluate(GIVE, [kind, data])
        expect(page.locator("#tray .option")).to_have_count(count)
    page.get_by_role("button", name="Use the camera").click()
    page.get_by_role("button", name="Take a picture").click()
    expect(page.locator("#tray .option")).to_have_count(3)
    page.get_by_role("button", name="Turn the camera off").click()
    expect(page.locator("#video")).to_be_hidden()
    teach(page, "colours")
    taught(page, 1)
    text = {"name": "notes.png", "mimeType": "image/png", "buffer": b"no image"}
    page.set_input_files("#files", [text, *pictures("sky", 2)])
    expect(page.locator("#intake-error")).to_contain_text("notes.png")
    expect(page.locator("#tray .option")).to_have_count(5)


def test_a_wrong_token_is_refused_in_words_and_the_right_one_lasts_until_signing_out(
    service, visit
):
    page = visit(f"{service.url}#token=nonsense")
    expect(page.locator("#token-error")).to_contain_text("does not know this token")
    page.fill("#token", service.token)
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#connection")).to_have_text("live")
    page.reload()
    expect(page.locator("#connection")).to_have_text("live")
    page.get_by_role("button", name="Sign out").click()
    page.reload()
    expect(page.locator("#token")).to_be_focused()
    assert page.locator("#token-error").inner_text() == ""


def test_a_token_that_may_only_ask_is_told_so_when_it_teaches(service, folder, visit):
    secret = Tokens(folder / "state").add("guest", ["predict"])
    page = visit(f"{service.url}#token={secret}")
    show(page, pictures("sky", 2))
    teach(page, "sky")
    expect(page.locator("#label-error")).to_contain_text("This token may not do that")
    taught(page, 0)


def test_the_page_is_never_wider_than_the_screen_and_as_dark_as_it_is_asked_to_be(service, visit):
    page = visit(service.page)
    show(page, pictures("sky", 2) + pictures("wood", 2))
    teach(page, LONG)
    teach(page, "wood")
    taught(page, 2)
    page.keyboard.press("Control+a")
    for part in page.locator("summary").all():
        part.click()
    page.locator(".taught li").first.get_by_role("button", name="Wrong!").click()
    for scheme, width in (("light", 1280), ("dark", 360)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = np.mean([int(number) for number in re.findall(r"\d+", background)])
        assert brightness < 40 if scheme == "dark" else brightness > 220


CASES = [
    ({"samples": 4, "recent": 1.0, "learned": 1.0}, "needs more"),
    ({"samples": 40, "recent": 0.49, "learned": 1.0}, "needs more"),
    ({"samples": 40, "recent": 1.0, "learned": 0.49}, "needs more"),
    ({"samples": 9, "recent": 1.0, "learned": 1.0}, "getting there"),
    ({"samples": 40, "recent": 0.79, "learned": 1.0}, "getting there"),
    ({"samples": 40, "recent": 1.0, "learned": 0.69}, "getting there"),
    ({"samples": 10, "recent": 0.8, "learned": 0.7}, "learned"),
    ({"samples": 10, "recent": 0.8, "learned": None}, "learned"),
]


def test_the_words_about_a_class_follow_the_rule(page):
    module = "import('/page/verdicts.js')"
    for facts, word in CASES:
        call = f"facts => {module}.then(({{ verdict }}) => verdict(facts).word)"
        assert page.evaluate(call, facts) == word, facts


def test_the_curve_is_the_mean_of_the_last_32_samples(page):
    """Points may stand for several samples each; the window then begins at a point."""
    smooth = "points => import('/page/curve.js').then((curve) => curve.smooth(points))"
    hits = np.random.default_rng(0).integers(0, 2, 192)
    for width in (1, 4, 64):
        ends = range(width, len(hits) + 1, width)
        points = [[end, float(hits[end - width : end].mean())] for end in ends]
        rows = page.evaluate(smooth, points)
        window = max(width, 32)
        recent = [hits[max(0, end - window) : end].mean() for end in ends]
        np.testing.assert_allclose([row["recent"] for row in rows], recent)
        np.testing.assert_allclose(
            [row["all"] for row in rows], [hits[:end].mean() for end in ends]
        )
