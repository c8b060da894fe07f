"""What the commands share in reading and printing text."""

import json
import sys

from earl.errors import InvalidSetting
from earl.printable import printable


def parse_settings(given: list[str]) -> dict[str, bool | int | float | str]:
    """Return NAME=VALUE texts as a mapping."""
    pairs: dict[str, bool | int | float | str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidSetting(f"--set {text!r} must have the form NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs


def say(text: str) -> None:
    """Print a text, of which only line breaks act on the terminal."""
    sys.stdout.write("\n".join(map(printable, text.split("\n"))) + "\n")


def complain(text: str) -> None:
    """Print a text to stderr in the same way."""
    sys.stderr.write("\n".join(map(printable, text.split("\n"))) + "\n")


def print_json(value: object) -> None:
    say(json.dumps(value, indent=2, allow_nan=False))
