"""HTML from texts: whatever is filled into it is escaped, unless it was made here."""

from collections.abc import Iterable
from html import escape
from typing import Any

from earl.storage.printable import printable


class Html(str):
    """Text that is HTML already."""


def fill(template: str, **values: Any) -> Html:
    """Return a template of ours with its {names} filled in.

    >>> fill("<b>{name}</b>{rest}", name="<er>", rest=fill("<hr>"))
    '<b>&lt;er&gt;</b><hr>'
    """
    return Html(template.format_map({name: safe(value) for name, value in values.items()}))


def safe(value: Any) -> Html:
    """Return a value as HTML that shows it; a text that was not made by us is made printable."""
    return value if isinstance(value, Html) else Html(escape(printable(str(value))))


def lines(pieces: Iterable[Html]) -> Html:
    """Return pieces that were made here, one below the other; what is empty takes no line."""
    return Html("\n".join(piece for piece in pieces if piece))


def when(condition: object, piece: Html) -> Html:
    """Return a piece if a condition holds, otherwise nothing."""
    return piece if condition else Html()
