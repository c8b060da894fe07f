"""The record of a run: one line per evaluation, from which every number is computed later."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from earl.errors import DamagedRun
from earl.storage.reading import read_bounded

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
    def accuracy_all_domains(self) -> float:
        """The same with those of all time buckets, seen or not; where there are none, the same."""
        value = self.extra.get("accuracy_all_domains", self.accuracy)
        assert isinstance(value, int | float)  # as `examine` writes it
        return value

    @property
    def numbers(self) -> dict[str, float]:
        """The costs and probes that are single numbers."""
        return {name: v for name, v in self.extra.items() if isinstance(v, int | float)}


REMEDY = "put the file back from a copy, or run it anew in another directory"
Metric = Callable[[Sequence[Evaluation]], float]


def to_line(evaluation: Evaluation) -> str:
    """Return the record as one line of JSON that ends in a newline."""
    return json.dumps(asdict(evaluation), separators=(",", ":"), allow_nan=False) + "\n"


def from_line(line: str) -> Evaluation:
    """Return the record of one line."""
    fields = json.loads(line)
    for name in ("correct", "total"):
        fields[name] = {int(c): count for c, count in fields[name].items()}
    return Evaluation(**fields)


def read_history(path: Path) -> list[Evaluation]:
    """Return all records of a file; a torn last line, left by a crash, is not one of them."""
    return parse_history(read_lines(path), path)


def read_lines(path: Path) -> bytes:
    """Return the bytes of a history; of a missing one, nothing."""
    return read_bounded(path, LARGEST) or b""


def whole_lines(data: bytes) -> list[bytes]:
    """Return the lines that end in a newline, with it."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def parse_history(data: bytes, path: Path) -> list[Evaluation]:
    """Return the records in the bytes of a file; DamagedRun if it cannot have been written so."""
    records: list[Evaluation] = []
    for number, line in enumerate(whole_lines(data), start=1):
        try:
            records.append(from_line(line.decode()))
            wrong = impossible(records[-1]) or disorder(records[-2:])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedRun(
                f"{path}, line {number} is not a record of an evaluation; {REMEDY}"
            ) from error
        if wrong:
            raise DamagedRun(f"{path}, line {number} cannot be: {wrong}; {REMEDY}")
    return records


def impossible(record: Evaluation) -> str:
    """Return what is wrong with a record by itself, or nothing."""
    e, counts = record, [*record.correct.values(), *record.total.values()]
    whole = [e.step, e.task, e.online_correct, e.online_total, *e.correct, *counts]
    if {*map(type, whole)} != {int} or min(whole) < 0:
        return "a count is not a whole number from 0 up"
    if e.correct.keys() != e.total.keys():
        return "right answers and questions are not of the same classes"
    if any(e.correct[c] > e.total[c] for c in e.total):
        return "more answers are right than questions were asked"
    if e.online_correct > e.online_total or e.online_total != e.step:
        return f"{e.online_correct} of {e.online_total} samples were right after {e.step}"
    if not all(map(readable, e.extra.values())):
        return "a cost or a probe is not a number"
    return ""


def readable(reading: object) -> bool:
    if type(reading) is int or (type(reading) is float and math.isfinite(reading)):
        return True
    return isinstance(reading, list) and all(map(readable, reading))


def disorder(records: Sequence[Evaluation]) -> str:
    """Return why the last of two records cannot follow the other one, or nothing."""
    if len(records) < 2:
        return ""
    a, b = records
    if b.step <= a.step or b.task < a.task:
        return f"step {b.step} of task {b.task} comes after step {a.step} of task {a.task}"
    if any(b.total.get(c, -1) < n for c, n in a.total.items()):
        return "a class that was seen, or a question about it, is gone"
    if not a.online_correct <= b.online_correct <= a.online_correct + b.step - a.step:
        return f"{b.online_correct} samples were right, {a.online_correct} at step {a.step}"
    return ""


def lines_of(history: Iterable[Evaluation]) -> str:
    """Return the whole file's text."""
    return "".join(to_line(evaluation) for evaluation in history)
