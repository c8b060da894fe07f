"""The clock of a run: the seconds it has taken, and when it is time to save it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

SNAPSHOT_SHARE = 0.03  # the largest share of the time that goes into snapshots


class Clock:
    """Tells the seconds that a run has taken in all its processes, and when a snapshot is due."""

    def __init__(self, before: float, interval: float) -> None:
        self._start = time.monotonic() - before
        self._interval = interval
        self._last = time.monotonic()
        self._cost = 0.0

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def due(self, writing: float) -> bool:
        """Tell whether it is time for a snapshot, given the seconds that the last was written.

        They count as if learning had stood still: where all cores learn, they are taken from it.
        """
        wait = max(self._interval, (self._cost + writing) / SNAPSHOT_SHARE)
        return time.monotonic() - self._last >= wait

    @contextmanager
    def saving(self) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self._last = time.monotonic()
        self._cost = self._last - begun
