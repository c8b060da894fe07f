"""Shared by the tests of data sets: ten small photos in folders."""

import pytest

from datasets_trees import save


@pytest.fixture
def photos(tmp_path):
    for c in "ab":
        for n in range(5):
            save(tmp_path / "photos" / c / f"{n}.png", (32, 32), seed=n + 10 * (c == "b"))
    return tmp_path / "photos"
