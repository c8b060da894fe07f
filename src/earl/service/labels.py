"""Labels, sources and keys as clients may send them: short texts of printable characters."""

import unicodedata

from earl.service.refusals import Refused
from earl.storage.printable import UNFIT

MOST_BYTES = 128


def checked_text(text: object, what: str) -> str:
    """Return a text in Unicode's composed form (NFC); Refused says what is wrong with it."""
    if not isinstance(text, str) or not text.strip():
        raise Refused(422, f"no_{what}", f"the {what} is missing, or no text")
    if UNFIT.search(text):
        raise Refused(422, f"bad_{what}", f"the {what} holds control characters")
    composed = unicodedata.normalize("NFC", text)
    if len(composed.encode()) > MOST_BYTES:
        detail = f"the {what} is longer than {MOST_BYTES} bytes"
        raise Refused(422, f"bad_{what}", detail)
    return composed
