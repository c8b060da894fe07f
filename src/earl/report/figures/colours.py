"""Colours and marks: a method keeps its own in every figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from earl.experiments.catalogue import METHODS

COLOURS = {entry.name: entry.facts.colour for entry in METHODS if entry.facts}
SPARE = (
    "#661100",
    "#6699CC",
    "#888888",
    "#DDAA33",
    "#BB5566",
)  # colours for methods from outside the package
MARKS = "osD^vPX<>phd*8"
DASHES = ("-", "--", "-.", ":")
SHADES = (0.0, 0.375, -0.365, 0.6, -0.6)  # white, or black if negative, in a mixture
FEW = 4  # lines that are told apart without marks


@dataclass(frozen=True)
class Look:
    """How one line is drawn."""

    colour: str
    dash: str
    mark: str


def colour_of(method: str) -> str:
    """Return a method's colour; one from outside gets a spare one, the same in every figure."""
    return COLOURS.get(method) or SPARE[crc32(method.encode()) % len(SPARE)]


def shade(colour: str, number: int) -> str:
    """Return the colour itself, then lighter and darker ones in turn, all distinguishable.

    >>> [shade("#D55E00", n) for n in range(3)]
    ['#D55E00', '#E59A60', '#873C00']
    """
    share = SHADES[number % len(SHADES)]
    towards, part = (255, share) if share >= 0 else (0, -share)
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (towards - c) * part):02X}" for c in channels)


def looks(methods: Sequence[str]) -> list[Look]:
    """Return the looks of lines of these methods; lines of the same method differ in dashes."""
    found: list[Look] = []
    known = list(COLOURS)
    for place, method in enumerate(methods):
        earlier = methods[:place].count(method)
        number = known.index(method) if method in COLOURS else crc32(method.encode())
        mark = MARKS[(number + earlier) % len(MARKS)] if len(methods) > FEW else ""
        found.append(Look(colour_of(method), DASHES[earlier % len(DASHES)], mark))
    return found
