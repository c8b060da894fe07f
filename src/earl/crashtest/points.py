"""A2: a process dies before and after every single operation that changes the disk."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from earl.crashtest.disk import DEAD, die_at
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import ask_child, in_child
from earl.crashtest.sabotage import put
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, RunSubject, Subject, silent, stop_after
from earl.experiments.runs import saves
from earl.storage import files as durable
from earl.storage.background import Background

Point = tuple[int, str]


def torn_write(final: Path, files: Mapping[str, Any]) -> None:
    """The sabotage: write in place, as one would without thinking of kills."""
    final.mkdir()
    for name, data in files.items():
        durable.write_file(final / name, data)


def points_model(trial: Trial) -> Found:
    """Die at every operation of an estimator's first start, and of a later save that also removes.

    The sabotage writes in place instead of beside and renaming.
    """
    return died(trial, lambda path, total: ModelSubject(path, total, every=3), (3, 12))


def points_run(trial: Trial) -> Found:
    """Die at every operation of a run from its first start to its end, and of a later life.

    A snapshot is written while learning goes on, by a second thread. Here in the two orders between
    which all others lie: before anything else happens, and when it cannot be put off any longer.
    """
    make = lambda path, total: RunSubject(path, total, every=4, evaluations=4)  # noqa: E731
    return died(trial, make, (8, 16), orders=(Early, Late))


class Early(Background):
    """Does its work at once."""

    def start(self, work: Callable[[], object]) -> None:
        super().start(work)
        self.wait()


class Late(Background):
    """Does its work when somebody waits for it."""

    held: Callable[[], object] | None = None

    def start(self, work: Callable[[], object]) -> None:
        self.wait()
        self.held = work

    def wait(self) -> None:
        if self.held is not None:
            work, self.held = self.held, None
            super().start(work)
        super().wait()


def died(
    trial: Trial,
    make: Callable[[Path, int], Subject],
    totals: tuple[int, int],
    orders: Sequence[type[Background]] = (Early,),
) -> Found:
    """Die at every point of a first life and of a later one; `totals` are samples after each."""
    ready()
    if trial.sabotage:
        put(durable, "write_dir_atomically", torn_write)
    put(os, "fsync", lambda fd: None)  # still counted; nobody cuts the power
    first, later = totals
    empty = trial.folder("empty")
    begun = trial.folder("begun")
    in_child(lambda: stop_after(make(begun / "here", later), saves=3))
    shutil.copytree(newest(begun), newest(begun).with_name(".tmp-left"))
    found = trial.found(points=0, recovered=0)
    for order, (start, total) in product(orders, ((empty, first), (begun, later))):
        put(saves, "Background", order)
        cycle = Cycle(trial.place / "now", start, make(trial.place / "now" / "here", total))
        cycle.die_everywhere(trial.count, found)
    points = found.figures["points"]
    found.expect(found.figures["recovered"] == points, "not every point was recovered from")
    return found


def newest(folder: Path) -> Path:
    return max(folder.rglob("snap-*"))


@dataclass
class Cycle:
    """One life from a prepared folder, which is died in at every point."""

    folder: Path
    start: Path
    subject: Subject
    expected: Any = field(default=None)

    def die_everywhere(self, most: int, found: Found) -> None:
        """Die at each point, or at `most` of them spread evenly; count what came of it."""
        self.prepare()
        operations = in_child(self.life(None))
        self.expected = ask_child(self.subject.result)
        found.expect(self.expected is not None, "the undisturbed life failed")
        points = [(n, when) for n in range(1, operations + 1) for when in ("before", "after")]
        for point in spread(points, most):
            found.figures["points"] += 1
            wrong = self.die(point)
            found.figures["recovered"] += not wrong
            found.expect(not wrong, f"operation {point[0]} of {operations}, {point[1]}: {wrong}")

    def die(self, point: Point) -> str:
        """Die at one point, go on, and return what is wrong with the result."""
        self.prepare()
        code = in_child(self.life(point))
        if code != DEAD:
            return f"it ended with {code} before it could die"
        code = in_child(lambda: self.subject.live(silent))
        if code:
            return f"the next life ended with {code}"
        result = ask_child(self.subject.result)
        if (bad := list(self.folder.rglob("bad-*"))) and result == self.expected:
            return f"{bad[0].name} was torn"
        return "" if result == self.expected else f"{result} is not {self.expected}"

    def prepare(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)

    def life(self, point: Point | None) -> Callable[[], int]:
        def act() -> int:
            operations = die_at(point)
            self.subject.live(silent)
            return operations()

        return act


def spread(points: list[Point], most: int) -> Iterator[Point]:
    """Yield at most so many points, evenly spread over all of them."""
    step = max(1.0, len(points) / max(1, most))
    place = 0.0
    while int(place) < len(points):
        yield points[int(place)]
        place += step
