"""One running service for all tests that only look at its answers; a browser for its page."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from earl.service.service import Service
from earl.service.tokens import SCOPES
from serving import bearer, png, running, service_of


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    return service_of(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="session")
def url(service: Service) -> Iterator[str]:
    with running(service) as url:
        yield url


@pytest.fixture(scope="session")
def secret(service: Service) -> str:
    assert service.tokens is not None
    return service.tokens.add("first", SCOPES)


@pytest.fixture(scope="session")
def client(url: str, secret: str) -> Iterator[httpx2.Client]:
    """A client with all scopes, of a service that knows the classes a and b."""
    with httpx2.Client(base_url=url, headers=bearer(secret), timeout=30) as client:
        for number in range(8):
            files = {"image": png(number)}
            made = client.post("/learn", files=files, data={"label": "ab"[number % 2]})
            assert made.status_code == 202, made.text
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


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
