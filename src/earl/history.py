"""The record of a run: one line per evaluation, from which every number is computed later."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from earl.durable import read_bounded
from earl.errors import EarlError

LARGEST = 1 << 30  # bytes; with 1 000 classes and 10 000 evaluations it has some 200 million
Reading: TypeAlias = "float | Sequence[Reading]"
"""What a probe reads off a learner: a number, or lists of numbers for a figure."""


@dataclass(frozen=True)
class Evaluation:
    """What was right at one moment of the stream, counted, never averaged.

    `correct` and `total` count test samples of the classes seen so far, by class id; the online
    counts run over all samples of the stream so far, each predicted before it was learned.
    """

    step: int  # samples learned
    task: int  # tasks ended before the last of them arrived
    correct: dict[int, int]
    total: dict[int, int]
    online_correct: int
    online_total: int
    extra: dict[str, Reading] = field(default_factory=dict)  # costs and probes

    @property
    def accuracy(self) -> float:
        """The share of test samples of seen classes that is right."""
        return sum(self.correct.values()) / max(1, sum(self.total.values()))

    @property
    def numbers(self) -> dict[str, float]:
        """The costs and probes that are single numbers."""
        return {name: v for name, v in self.extra.items() if isinstance(v, int | float)}


Metric = Callable[[Sequence[Evaluation]], float]


def to_line(evaluation: Evaluation) -> str:
    """Return the record as one line of JSON that ends in a newline."""
    return json.dumps(asdict(evaluation), separators=(",", ":"), allow_nan=False) + "\n"


def from_line(line: str | bytes) -> Evaluation:
    """Return the record of one line."""
    fields = json.loads(line)
    for name in ("correct", "total"):
        fields[name] = {int(c): count for c, count in fields[name].items()}
    return Evaluation(**fields)


def read_history(path: Path) -> list[Evaluation]:
    """Return all records of a file; a torn last line, left by a crash, is not one of them."""
    data = read_bounded(path, LARGEST)
    lines = (data or b"").splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(from_line(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise EarlError(f"{path}, line {number} is not a record of an evaluation") from error
    return records


def lines_of(history: Iterable[Evaluation]) -> str:
    """Return the whole file's text."""
    return "".join(to_line(evaluation) for evaluation in history)
