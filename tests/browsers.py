"""A headless Chromium, for tests of pages; they are skipped with a reason where there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason='needs a browser driver: pip install "earl-learn[browser]"'
)
ARGUMENTS = (
    "--no-sandbox",
    "--use-fake-device-for-media-stream",  # a camera that shows moving colours
    "--use-fake-ui-for-media-stream",  # and that may be used
)
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> "Iterator[playwright.Browser]":
    """Start the Chromium of this machine, and end it."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"needs one of {', '.join(NAMES)} on the path")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield browser
        browser.close()
