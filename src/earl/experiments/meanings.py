"""What settings mean, which values they take, and where their defaults come from.

All of it is in `settings.toml`, and nowhere else; a setting of a method that was
registered from outside need not be there.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from earl.experiments.recipes import Value

SOURCES = {"paper": "paper", "authors": "authors' code", "earl": "earl"}


@dataclass(frozen=True)
class Meaning:
    """What one setting means; a bound that is None does not exist."""

    about: str = ""
    source: str = ""  # of the default, in words
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    only: tuple[float, ...] = ()  # these numbers alone

    def allows(self, value: Value) -> bool:
        """Tell whether a value is within the bounds; text and switches have none."""
        if isinstance(value, bool | str):
            return True
        return (not self.only or value in self.only) and (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def bounds(self) -> str:
        """Return the bounds in words, such as "at least 1"; "" without any."""
        if self.only:
            return f"one of {', '.join(f'{v:.10g}' for v in self.only)}"
        if self.least is not None and self.most is not None:
            return f"from {self.least:.10g} to {self.most:.10g}"
        words = {"at least": self.least, "above": self.above}
        words |= {"at most": self.most, "below": self.below}
        return " and ".join(f"{word} {v:.10g}" for word, v in words.items() if v is not None)


UNTOLD = Meaning()  # of a setting that was registered from outside


def meaning_of(part: str, function: Callable[..., object], name: str) -> Meaning:
    """Return what a setting of a part of a run means; methods have a table of their own."""
    inner = getattr(function, "func", function)  # a functools.partial changes only defaults
    table = getattr(inner, "__name__", "") if part == "method" else part
    return meanings().get(table, {}).get(name, UNTOLD)


@cache
def meanings() -> Mapping[str, Mapping[str, Meaning]]:
    """Return the meanings of all settings by table and name."""
    text = files("earl.experiments").joinpath("settings.toml").read_text(encoding="utf-8")
    tables: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(text)
    return {
        table: {name: Meaning(source=SOURCES[e.pop("from")], **e) for name, e in entries.items()}
        for table, entries in tables.items()
    }
