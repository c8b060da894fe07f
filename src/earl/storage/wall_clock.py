"""The wall clock: what people call the time, which may jump. Nothing but this function reads it.

Durations are differences of `time.monotonic()`; nothing that is learned or saved hangs on the time.
"""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)
