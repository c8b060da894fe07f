"""Limits of the service: nothing that it holds, and nothing that it waits for, is without one."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from earl.service.images import ImageLimits
from earl.service.refusals import Refused

HOUR, MINUTE = 3600.0, 60.0
MOST_IMAGES = 64  # of one question
THREADS = {"decode": 2, "ask": 2, "read": 1}  # for each kind of work
AT_ONCE = 10.0  # seconds whose requests may come all at once


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """The seconds after which a connection is closed that does not come to an end."""

    idle: float = 15.0  # between two requests
    header: float = 5.0
    body: float = 10.0
    reading: float = 15.0  # of an answer


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a service takes at most; every number can be chosen when it is started."""

    images: ImageLimits = field(default_factory=ImageLimits)
    deadlines: Deadlines = field(default_factory=Deadlines)
    waiting: int = 1024  # operations that are acknowledged and not learned yet
    batch: int = 256  # samples of one request
    body: int = 12 << 20  # bytes of a request; base64 takes a third more than the image
    batch_body: int = 32 << 20
    in_flight: int = 96 << 20  # bytes of all requests and answers at a time
    memory: int | None = None  # bytes; a service that may need more does not start
    journal: int = 16 << 30  # bytes
    free: int = 64 << 20  # bytes that are left on the disk, for snapshots
    retention: int | None = None  # operations that are kept; all if None
    new_classes: int = 20  # labels that a token without the scope admin may add in an hour
    requests: int = 6000  # of a token without the scope admin and without a rate, in a minute
    connections: int = 512
    listeners: int = 32  # of events
    snapshot_seconds: float = 30.0
    publish_seconds: float = 0.5  # between two published models at most, where one is costly


class InFlight:
    """Counts the bytes of requests and answers that are held at a time."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Count so many bytes more, or less."""
        with self._lock:
            self.bytes += size

    def check(self) -> None:
        """Raise Refused if there are too many."""
        if self.bytes > self.most:
            raise Refused(429, "busy", "too much is being sent at a time", retry_after=1)


class Quota:
    """Counts what each name has taken within the last hour."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.clock = most, clock
        self._taken: dict[str, deque[float]] = {}

    def left(self, name: str) -> int:
        """Return how much more a name may take now."""
        taken = self._taken.setdefault(name, deque())
        while taken and self.clock() - taken[0] >= HOUR:
            taken.popleft()
        return self.most - len(taken)

    def take(self, name: str, count: int) -> None:
        """Count what a name takes."""
        self._taken.setdefault(name, deque()).extend([self.clock()] * count)

    def wait(self, name: str) -> int:
        """Return the seconds until a name may take one more."""
        taken = self._taken.get(name)
        return max(1, int(HOUR - (self.clock() - taken[0])) + 1) if taken else 1


class Rates:
    """Holds requests to a rate: each name has a bucket, which every request takes one from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # what is in each, and since when

    def take(self, name: str, rate: int) -> int:
        """Take one request of so many in a minute; return 0, or the seconds until there is one."""
        now, most = self.clock(), max(1.0, rate * AT_ONCE / MINUTE)
        held, since = self._buckets.get(name, (most, now))
        held = min(most, held + (now - since) * rate / MINUTE)
        taken = held >= 1
        self._buckets[name] = held - taken, now
        return 0 if taken else math.ceil((1 - held) * MINUTE / rate)
