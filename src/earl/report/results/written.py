"""A published table whose lines a script of this repository has worked out and kept in a file."""

from collections.abc import Mapping
from typing import Any

from earl.report.results.description import Sheet
from earl.report.results.sheets import table


def written(sheet: Sheet, content: Mapping[str, Any]) -> str:
    """Return the table of a file: `titles`, `lines`, and `below` what a reader has to know."""
    below = f"{content['below']} Made by `{sheet.command}`."
    return table(content["titles"], content["lines"], below)
