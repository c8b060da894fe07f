"""A published table whose lines a script of this repository has worked out and kept in a file."""

import json
from pathlib import Path

from earl.report.results.description import Sheet
from earl.report.results.sheets import table
from earl.storage.reading import read_text

LARGEST = 1 << 20  # bytes of a file of lines


def written(sheet: Sheet, file: Path) -> str:
    """Return the table of a file: `titles`, `lines`, and `below` what a reader has to know."""
    if not file.is_file():
        return f"No records yet: `{sheet.command}` makes them.\n"
    content = json.loads(read_text(file, LARGEST))
    below = f"{content['below']} Made by `{sheet.command}`."
    return table(content["titles"], content["lines"], below)
