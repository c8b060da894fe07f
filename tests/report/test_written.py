"""A table that a script wrote itself stands in the page as it was written."""

import json
from pathlib import Path

import pytest

from earl.errors import InvalidSetting
from earl.report.results.description import Sheet
from earl.report.results.pages import from_file
from earl.report.results.written import written

SHEET = Sheet(name="own", kind="written", runs=("own.json",), command="python own.py")


def test_titles_lines_and_the_text_below_are_those_of_the_file() -> None:
    content = {"titles": ["n", "right"], "lines": [["9", "97.8"]], "below": "Percent."}
    expected = "| n | right |\n|---|---|\n| 9 | 97.8 |\n\nPercent. Made by `python own.py`.\n"
    assert written(SHEET, content) == expected


def test_a_file_that_is_missing_or_broken_is_told_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "own.json"
    assert "No records yet: `python own.py`" in from_file(SHEET, file)
    for text in ('{"titles": ["n"', json.dumps({"titles": ["n"], "lines": []})):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidSetting, match=r"own\.json is not what .*`python own\.py` makes"):
            from_file(SHEET, file)
