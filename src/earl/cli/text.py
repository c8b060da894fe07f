"""What the commands share in reading and printing text."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from earl.errors import InvalidSetting
from earl.storage.files import naming
from earl.storage.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

UNLIMITED = 10_000  # letters in a line


def parse_settings(given: list[str]) -> dict[str, bool | int | float | str]:
    """Return NAME=VALUE texts as a mapping."""
    pairs: dict[str, bool | int | float | str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidSetting(f"--set {text!r} must have the form NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def page() -> "Console":
    """Return stdout for tables: as wide as the terminal; in a file or a pipe nothing is cut."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else UNLIMITED)


def say(text: str) -> None:
    """Print a text, of which only line breaks act on the terminal."""
    put("\n".join(map(printable, text.split("\n"))) + "\n")


def put(text: str) -> None:
    """Write to standard output, and let an error name it."""
    with naming("standard output"):
        sys.stdout.write(text)


def complain(text: str) -> None:
    """Print a text to stderr in the same way."""
    sys.stderr.write("\n".join(map(printable, text.split("\n"))) + "\n")


def print_json(value: object) -> None:
    say(json.dumps(value, indent=2, allow_nan=False))


def answer(as_json: bool, facts: object, *lines: str) -> None:
    """Print facts as one JSON object, or else what people want to know of them, line by line."""
    if as_json:
        print_json(facts)
        return
    for line in lines:
        say(line)


def plain_table(*texts: str, numbers: Sequence[str] = ()) -> "Table":
    """Return a table without lines or rows: columns of text, then columns of numbers."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in texts:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
