"""Shared by the tests of data sets: ten small photos in folders."""

import pytest

from datasets_trees import write_photos


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos", (32, 32), n=5)
