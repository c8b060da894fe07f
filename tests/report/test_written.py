"""A table that a script wrote itself stands in the page as it was written."""

import json
from pathlib import Path

from earl.report.results.description import Sheet
from earl.report.results.written import written

SHEET = Sheet(name="own", kind="written", runs=("own.json",), command="python own.py")


def test_titles_lines_and_the_text_below_are_those_of_the_file(tmp_path: Path) -> None:
    content = {"titles": ["n", "right"], "lines": [["9", "97.8"]], "below": "Percent."}
    (tmp_path / "own.json").write_text(json.dumps(content), encoding="utf-8")
    text = written(SHEET, tmp_path / "own.json")
    expected = "| n | right |\n|---|---|\n| 9 | 97.8 |\n\nPercent. Made by `python own.py`.\n"
    assert text == expected


def test_without_a_file_the_command_is_named(tmp_path: Path) -> None:
    assert "No records yet: `python own.py`" in written(SHEET, tmp_path / "none.json")
