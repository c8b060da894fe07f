"""Names from files, made safe to show: control characters in them are spelled out.

A folder may be called "\\x1b[2J", which clears a terminal, or hold a line break, which would let it
forge a line of a table.
"""

import re

# Control characters, halves of pairs (which cannot be encoded), line separators, and marks that
# turn the direction of the text behind them.
UNFIT = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return text on one line in which every unfit character is spelled out.

    >>> printable("a\x1b[31m\nb"), printable("Käse 鴨")
    ('a\\x1b[31m\\nb', 'Käse 鴨')
    """
    return UNFIT.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def titles(names: tuple[str, ...], words: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of classes, fit to be shown, each with the first of its words.

    >>> titles(("n01443537", "n00000000"), ("goldfish, Carassius auratus", ""))
    ('n01443537 (goldfish)', 'n00000000')
    """
    first = [text.partition(",")[0].strip() for text in words] + [""] * len(names)
    pairs = zip(names, first, strict=False)
    return tuple(printable(f"{name} ({word})" if word else name) for name, word in pairs)


def slug(text: str) -> str:
    """Return text as a short and safe name for a folder."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:40] or "data"
