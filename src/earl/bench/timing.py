"""Timing by turns: things are measured side by side, so that a busy machine slows all alike."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

Clock = Callable[[], float]
Thing = Callable[[], float]
"""Does some work and returns how much it was: calls, updates, FLOPs."""


def once(work: Callable[[], object]) -> Thing:
    """Return a thing that does some work one time."""

    def thing() -> float:
        work()
        return 1

    return thing


@dataclass(frozen=True)
class Effort:
    """How long to measure: turns until `seconds` have passed, and at least `turns` of them."""

    seconds: float
    turns: int
    quick: bool = False


FULL = Effort(seconds=20.0, turns=7)
QUICK = Effort(seconds=1.0, turns=3, quick=True)


@dataclass(frozen=True)
class Ratio:
    """How many times longer one thing took: median and quartiles of the ratios of the turns."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Times:
    """Seconds per unit of work of each thing, turn by turn."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        return median(self.seconds[name])

    def ratio(self, name: str, beside: str) -> Ratio:
        """Return the ratio of two things turn by turn: a machine that slows down slows both."""
        turns = [a / b for a, b in self._pairs(name, beside)]
        if len(turns) < 2:
            return Ratio(turns[0], turns[0], turns[0])
        low, value, high = quantiles(turns, n=4, method="inclusive")
        return Ratio(value, low, high)

    def difference(self, name: str, beside: str) -> float:
        """Return how many seconds longer one thing took, the median of the turns."""
        return median(a - b for a, b in self._pairs(name, beside))

    def _pairs(self, name: str, beside: str) -> Iterable[tuple[float, float]]:
        return zip(self.seconds[name], self.seconds[beside], strict=True)


def take_turns(
    things: Mapping[str, Thing],
    effort: Effort,
    *,
    clock: Clock = time.process_time,
    wall: Clock = time.monotonic,
) -> Times:
    """Time every thing once per turn, in alternating order, after one turn that is not timed.

    The clock counts the time of this process alone, so that others on the machine matter little;
    something that waits, or works in other processes, needs `time.perf_counter`.
    """
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for thing in things.values():
        thing()
    start, turn = wall(), 0
    while turn < effort.turns or wall() - start < effort.seconds:
        for name in things if turn % 2 == 0 else reversed(list(things)):
            before = clock()
            done = things[name]()
            seconds[name].append((clock() - before) / done)
        turn += 1
    return Times(seconds)
