"""How learning went: answers given just before a sample was learned, counted in bounded space."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

POINTS = 256  # of the curve, at most; then two become one
WINDOW = 32  # samples that count as recent


@dataclass(frozen=True)
class ClassRecord:
    """What is known of one class: samples learned, and the share answered right before that."""

    samples: int
    accuracy: float
    recent: float  # of the last 32 samples of this class


@dataclass(frozen=True)
class LearningCurve:
    """Prequential accuracy: each sample is asked about before it is learned.

    A sample of a new class counts as wrong. `curve` has at most 256 points (samples so far,
    accuracy since the last point); `recent` is the accuracy of the last 32 samples. `skipped_steps`
    are training steps whose loss or gradient was inf or nan; they were undone.
    """

    samples: int
    accuracy: float
    recent: float
    curve: tuple[tuple[int, float], ...]
    classes: Mapping[Hashable, ClassRecord]
    skipped_steps: int = 0


class Tally:
    """Counts right answers, and remembers the last WINDOW of them as bits."""

    def __init__(self, samples: int = 0, right: int = 0, bits: int = 0) -> None:
        self.samples, self.right, self.bits = samples, right, bits

    def note(self, right: bool) -> None:
        self.samples += 1
        self.right += right
        self.bits = (self.bits << 1 | right) & ((1 << WINDOW) - 1)

    @property
    def accuracy(self) -> float:
        return self.right / self.samples if self.samples else 0.0

    @property
    def recent(self) -> float:
        return self.bits.bit_count() / min(self.samples, WINDOW) if self.samples else 0.0


class History:
    """Tallies of all samples and of each class, and a curve of at most POINTS points."""

    def __init__(self) -> None:
        self.all = Tally()
        self.classes: list[Tally] = []
        self.width = 1  # samples of a point
        self.points: list[int] = []  # right answers of each

    def note(self, number: int, right: bool) -> None:
        """Count one answer about a sample of the class with this number."""
        while len(self.classes) <= number:
            self.classes.append(Tally())
        if self.all.samples == self.width * len(self.points):
            if len(self.points) == POINTS:
                pairs = zip(self.points[::2], self.points[1::2], strict=True)
                self.points, self.width = [a + b for a, b in pairs], 2 * self.width
            self.points.append(0)
        self.all.note(right)
        self.points[-1] += right
        self.classes[number].note(right)

    def forget(self, number: int) -> None:
        """Count a class from the beginning again; the curve stays."""
        if number < len(self.classes):
            self.classes[number] = Tally()

    def copy(self) -> "History":
        twin = History()
        twin.all, *twin.classes = (
            Tally(t.samples, t.right, t.bits) for t in (self.all, *self.classes)
        )
        twin.points, twin.width = list(self.points), self.width
        return twin

    def curve(self) -> tuple[tuple[int, float], ...]:
        total = self.all.samples
        ends = [min(total, self.width * (place + 1)) for place in range(len(self.points))]
        starts = [0, *ends][:-1]
        rows = zip(self.points, starts, ends, strict=True)
        return tuple((end, right / (end - start)) for right, start, end in rows)

    def state_dict(self) -> dict[str, Any]:
        tallies = [[t.samples, t.right, t.bits] for t in (self.all, *self.classes)]
        return {
            "tallies": torch.tensor(tallies, dtype=torch.int64),
            "points": torch.tensor(self.points, dtype=torch.int64),
            "width": self.width,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.all, *self.classes = (Tally(*row) for row in state["tallies"].tolist())
        self.points, self.width = state["points"].tolist(), state["width"]
