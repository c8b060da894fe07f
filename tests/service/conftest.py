"""Shared by tests of the service's page: a browser, and pages that must not complain."""

import re

import pytest


@pytest.fixture(scope="module")
def browser():
    from browsers import chromium  # skips where there is none

    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser):
    """Return a function that opens a page; afterwards it must have complained of nothing."""
    contexts, wrong = [], []

    def open_page(address, **given):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | given))
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("console", lambda message: note(message.text))
        page.goto(address)
        return page

    def note(text):
        """Note what the page complains of; what the service refuses is not its fault."""
        if not re.search(r"a status of 4\d\d|net::ERR_(CONNECTION_REFUSED|INCOMPLETE)", text):
            wrong.append(text)

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
