"""A11: what snapshots cost a run that takes them as often as it may, and how soon it is back."""

import subprocess
import sys
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import in_child
from earl.crashtest.points import Early
from earl.crashtest.sabotage import put
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, RunSubject, silent
from earl.experiments.runs import clock, saves
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.saves import Saves
from earl.storage.background import Background

LEAST = 0.965  # of the throughput without snapshots
BACK = 10.0  # seconds from a new process to its first answer
ASK = """
import sys, numpy
from earl import EARLClassifier
clf = EARLClassifier.load(sys.argv[1])
print(clf.predict_one(numpy.zeros((8, 8, 3), "uint8")))
"""


def snapshot_cost(trial: Trial) -> Found:
    """Run with snapshots as often as the share of time allows.

    The sabotage allows any share, and learning waits until a snapshot is on the disk.
    """
    ready()
    if trial.sabotage:
        put(clock, "SNAPSHOT_SHARE", 1e9)
        put(saves, "Background", Early)
    found = trial.found()
    run = timed_run(RunSubject(trial.place / "run", trial.count))
    found.figures = {"samples": trial.count, "snapshots": len(run.stalls)}
    found.figures["ratio"] = round(run.ratio, 4)
    step, stall = (1000 * seconds for seconds in (run.step, max(run.stalls, default=0)))
    found.figures |= {"step_ms": round(step, 2), "longest_stall_ms": round(stall, 2)}
    found.expect(len(run.stalls) > 1, "too few samples for two snapshots")
    found.expect(stall <= step, f"learning stood still for {stall:.2f} ms, a step is {step:.2f} ms")
    found.expect(run.ratio >= LEAST, f"{100 * run.ratio:.1f} % of the speed without snapshots")
    seconds = restart(ModelSubject(trial.place / "model", 10))
    found.figures["restart_s"] = round(seconds, 2)
    found.expect(seconds <= BACK, f"the first answer came after {seconds:.1f} s")
    return found


@dataclass
class Timed:
    """The seconds of a run, of its steps, and of what learning stood still for."""

    total: float = 0.0
    alone: list[float] = field(default_factory=list)  # steps while nothing was written
    beside: list[float] = field(default_factory=list)  # steps while a snapshot was
    stalls: list[float] = field(default_factory=list)  # one for each snapshot

    @property
    def step(self) -> float:
        """A step, by the median."""
        return median(self.alone)

    @property
    def ratio(self) -> float:
        """The speed as a part of that without snapshots."""
        slower = sum(self.beside) - len(self.beside) * self.step
        return 1 - (sum(self.stalls) + slower) / self.total


def timed_run(subject: RunSubject) -> Timed:
    """Return how long everything took in a run; the last save, its result, is no stall."""
    timed, save, stalls = Timed(), Saves.save, list[float]()
    writing: list[Background] = []

    def watched(here: Saves, *words: Any) -> None:
        begun = time.monotonic()
        save(here, *words)
        stalls.append(time.monotonic() - begun)
        writing[:] = [here.background]

    put(Saves, "save", watched)
    begun = last = time.monotonic()
    run = RunDirectory(subject.path, subject.experiment)
    for moment in run.run(device="cpu", threads=1, snapshot_seconds=0.0, dataset=subject.dataset):
        before, last = last, time.monotonic()
        new = stalls[len(timed.stalls) :]
        timed.stalls += new
        if moment.evaluation is None and moment.step > 1:
            busy = not new and any(background.busy for background in writing)
            (timed.beside if busy else timed.alone).append(last - before - sum(new))
    timed.total = time.monotonic() - begun
    return timed


def restart(subject: ModelSubject) -> float:
    """Return the seconds from the start of a new process to the first answer of a saved model."""
    in_child(lambda: subject.live(silent))
    begun = time.monotonic()
    command = [sys.executable, "-c", ASK, str(subject.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if not done.stdout.startswith("class "):
        raise AssertionError(f"no answer but {done.stdout!r}")
    return time.monotonic() - begun
