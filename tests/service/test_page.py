"""The page of the service in headless Chromium: a person teaches, asks, corrects and undoes."""

import re

import pytest

from served import serving
from served_page import (
    expect,
    learned,
    pictures,
    show,
    taught,
    teach,
    teach_two_classes,
)


@pytest.fixture
def service(children, tmp_path):
    with serving(children, tmp_path, "--set", "correction=true") as found:
        yield found


def test_two_classes_are_taught_asked_corrected_and_taken_back(service, visit):
    page = visit(service.page)
    assert page.url == service.url  # the token has left the address bar
    expect(page.locator("#first-steps")).to_be_visible()
    teach_two_classes(page, 4)
    classes = page.locator(".classes li")
    expect(classes).to_have_count(2)
    expect(classes.first).to_contain_text("sky")
    expect(page.locator("#first-steps")).to_be_hidden()

    show(page, pictures("sand", seed=1) + pictures("sky", seed=1))
    expect(page.locator(".answer")).to_have_text("sand")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".answer")).to_have_text("sky")
    neighbours = page.locator(".neighbours li")
    expect(neighbours.first).to_contain_text("sky")
    expect(neighbours.first.locator("img")).to_have_attribute("src", re.compile("^blob:"))

    curve = page.locator(".line-recent")
    before = curve.get_attribute("d")
    teach(page, "wood")  # a mistake
    learned(page, 9)
    expect(classes).to_have_count(3)
    expect(curve).not_to_have_attribute("d", before)
    newest = page.locator(".taught li").first
    expect(newest).to_contain_text("answered sky beforehand")
    newest.get_by_role("button", name="Wrong!").click()
    page.keyboard.type("sky")
    page.keyboard.press("Enter")
    expect(newest).to_contain_text("first taught as wood")
    expect(classes).to_have_count(2)  # nothing is left of it

    page.get_by_role("button", name="Undo").click()
    expect(newest.locator("b")).to_have_text("wood")
    expect(classes).to_have_count(3)
    page.keyboard.press("Control+z")
    expect(newest).to_contain_text("deleted")
    expect(classes).to_have_count(2)


def test_answers_become_labels_and_far_images_unknown(service, visit):
    page = visit(service.page)
    teach_two_classes(page, 4)
    show(page, pictures("sky", 2, seed=2) + pictures("sand", 2, seed=2))
    expect(page.locator("#tray .cut")).to_have_text(["sky", "sky", "sand", "sand"])
    page.locator(".doubt summary").click()
    page.locator("#doubt").press("End")
    expect(page.locator("#tray .cut")).to_have_text(["unknown"] * 4)
    expect(page.locator(".answer")).to_have_text("Unknown")
    page.locator("#doubt").press("Home")
    page.get_by_role("button", name="Select all").click()
    page.get_by_role("button", name="Teach each as answered (4)").click()
    taught(page, 4)
    learned(page, 12)
    expect(page.locator(".classes li")).to_have_count(2)


def test_everything_works_by_keyboard(service, visit):
    page = visit(service.url)
    expect(page.locator("#token")).to_be_focused()
    page.keyboard.type(service.token)
    page.keyboard.press("Enter")
    expect(page.locator("#choose")).to_be_visible()
    show(page, pictures("sky", 2) + pictures("wood", 2))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator(".answer")).to_have_text("2 images")
    page.keyboard.press("Enter")  # to the field
    page.keyboard.type("sky")
    page.keyboard.press("Enter")
    taught(page, 2)
    page.keyboard.type("wood")  # the focus is still there, and the next image is shown
    page.keyboard.press("Enter")
    learned(page, 3)
    expect(page.locator(".choice")).to_have_count(2)
    labels = page.locator(".choice .cut").all_inner_texts()
    page.keyboard.press("Shift+Tab")  # out of the field, to the last of the labels
    page.keyboard.press(str(1 + labels.index("wood")))
    learned(page, 4)
    taught(page, 4)
    page.keyboard.press("Control+z")
    taught(page, 3)
    page.keyboard.press("Delete")
    expect(page.locator("#tray .option")).to_have_count(3)


def test_a_label_is_text_whatever_it_says(service, visit):
    page = visit(service.page)
    label = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    show(page, pictures("sky", 2))
    teach(page, label)
    learned(page, 1)
    expect(page.locator(".classes .link")).to_have_text(label)
    expect(page.locator(".choice .cut")).to_have_text(label)
    expect(page.locator(".taught b")).to_have_text(label)
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("#work script").count() == 0


def test_the_page_says_that_the_connection_is_lost_and_comes_back(children, tmp_path, visit):
    with serving(children, tmp_path) as first:
        page = visit(first.page)
        show(page, pictures("sky", 2))
        teach(page, "sky")
        learned(page, 1)
    expect(page.locator("#connection")).to_contain_text("connection lost")
    teach(page, "sky")
    expect(page.locator("#label-error")).to_contain_text("cannot be reached")
    port = re.search(r":(\d+)/", first.url)[1]
    with serving(children, tmp_path, "--port", port):
        expect(page.locator("#connection")).to_have_text("live")
        page.locator("#tray .option").last.click()
        teach(page, "sky")
        learned(page, 2)
