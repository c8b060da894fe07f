"""B8: a wall clock that jumps back, far ahead, or stands still changes nothing."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from earl.crashtest.exactly_once import compare
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import Tell, ask_child, in_child
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Server, replayed
from earl.crashtest.small import ready, stream
from earl.crashtest.subjects import RunSubject, silent
from earl.experiments.runs import clock as run_clock
from earl.service.http import edge
from earl.service.limits import Limits
from earl.storage import wall_clock

HOUR, TEN_YEARS = 3600.0, 315_576_000.0
JUMPS: dict[str, Callable[[int], float]] = {  # seconds that the n-th reading is wrong
    "back": lambda n: -HOUR * n,
    "ahead": lambda n: TEN_YEARS * (n % 2),
}
FROZEN = "frozen"


@dataclass
class Jumping:
    """A wall clock that is another at every reading, or the same at all of them."""

    kind: str
    trusted: bool = False  # the sabotage: durations are taken from it
    began: float = field(default_factory=time.time)
    real: Callable[[], float] = time.time
    readings: Any = field(default_factory=count)

    def read(self) -> float:
        if self.kind == FROZEN:
            return self.began
        return self.real() + JUMPS[self.kind](next(self.readings))

    def set(self) -> None:
        """Be the clock of this process, which is a child that is forked for it."""
        put(wall_clock, "now", lambda: datetime.fromtimestamp(self.read(), UTC))
        put(time, "time", self.read)  # of libraries
        put(time, "time_ns", lambda: int(1e9 * self.read()))
        if self.trusted:
            for module in (edge, run_clock):
                put(module, "time", SimpleNamespace(monotonic=self.read))


def clock(trial: Trial) -> Found:
    """Teach a service and carry out a run under each clock; the sabotage trusts it."""
    ready()
    found = trial.found(clocks=0, samples=trial.count, restarts=0, negative=0)
    whole = RunSubject(trial.place / "whole", trial.count, evaluations=10)
    in_child(lambda: whole.live(silent))
    expected = ask_child(whole.result)
    digests = set()
    for kind in (*JUMPS, FROZEN):
        jumping = Jumping(kind, trial.sabotage)
        digests.add(served(trial, jumping, found))
        other = RunSubject(trial.place / f"run-{kind}", trial.count, evaluations=10)
        code = in_child(lambda other=other, jumping=jumping: run(other, jumping))  # type: ignore[misc]
        found.expect(code == 0, f"{kind}: the run ended with {code}")
        same = ask_child(other.result) == expected
        found.expect(same, f"{kind}: the run has another result")
        check(found, kind, seconds_of(other.path))
        found.figures["clocks"] += 1
    found.figures["digests"] = len(digests)
    found.expect(len(digests) == 1, "services that were taught the same are not the same")
    return found


def run(subject: RunSubject, jumping: Jumping, tell: Tell = silent) -> None:
    jumping.set()
    subject.live(tell)


def served(trial: Trial, jumping: Jumping, found: Found) -> str:
    """Teach a service under a clock, in two lives; return the digest of what it has learned."""
    folder, samples = trial.place / f"state-{jumping.kind}", stream(trial.count)
    log = trial.place / f"log-{jumping.kind}"
    server = Server(folder, Limits(snapshot_seconds=0.5), sabotage=jumping.set, log=log)
    half = trial.count // 2
    for part in (range(half), range(half, trial.count)):
        server.start()
        for number in part:
            image, label = samples.images[number], samples.labels[number]
            status, answer = server.learn(image, label, f"sample-{number}")
            found.expect(status == 202, f"{jumping.kind}: {status} {answer}")
        server.settle()
        code = server.stop()
        found.expect(code == 0, f"{jumping.kind}: the service ended with {code}")
        found.figures["restarts"] += 1
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    check(found, jumping.kind, [line["ms"] for line in lines if "ms" in line])
    compare(folder, [], trial.count, found)
    return str(ask_child(lambda: replayed(folder)))


def seconds_of(path: Path) -> list[float]:
    """Return the durations that a run has written."""
    return [json.loads((path / "summary.json").read_text(encoding="utf-8"))["seconds"]]


def check(found: Found, kind: str, durations: list[float]) -> None:
    """Expect durations, none of them negative."""
    negative = [seconds for seconds in durations if seconds < 0]
    found.figures["negative"] += len(negative)
    found.expect(not negative, f"{kind}: durations of {negative[:3]}")
    found.expect(bool(durations), f"{kind}: no duration was written")
