"""A11: what snapshots cost a run that takes them as often as it may, and how soon it is back."""

import subprocess
import sys
import time

from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import in_child
from earl.crashtest.small import ready
from earl.crashtest.subjects import ModelSubject, RunSubject, silent
from earl.experiments.runs import clock
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.saves import Saves

LEAST = 0.965  # of the throughput without snapshots
BACK = 10.0  # seconds from a new process to its first answer
ASK = """
import sys, numpy
from earl import EARLClassifier
clf = EARLClassifier.load(sys.argv[1])
print(clf.predict_one(numpy.zeros((8, 8, 3), "uint8")))
"""


def snapshot_cost(trial: Trial) -> Found:
    """Run with snapshots as often as the share of time allows; the sabotage allows any share."""
    ready()
    if trial.sabotage:
        clock.SNAPSHOT_SHARE = 1e9
    found = trial.found()
    total, saving, saves = timed_run(RunSubject(trial.place / "run", trial.count))
    ratio = 1 - saving / total
    found.figures = {"samples": trial.count, "snapshots": saves, "ratio": round(ratio, 4)}
    found.figures["stall_ms"] = round(1000 * saving / max(1, saves), 1)
    found.expect(saves > 1, "too few samples for two snapshots")
    found.expect(ratio >= LEAST, f"{100 * ratio:.1f} % of the throughput without snapshots")
    seconds = restart(ModelSubject(trial.place / "model", 10))
    found.figures["restart_s"] = round(seconds, 2)
    found.expect(seconds <= BACK, f"the first answer came after {seconds:.1f} s")
    return found


def timed_run(subject: RunSubject) -> tuple[float, float, int]:
    """Return the seconds of a run, those that went into snapshots, and how many there were."""
    spent: list[float] = []
    save = Saves.save

    def timed(saves: Saves, *words: object) -> None:
        begun = time.monotonic()
        save(saves, *words)  # type: ignore[arg-type]
        spent.append(time.monotonic() - begun)

    Saves.save = timed  # type: ignore[method-assign,assignment]
    begun = time.monotonic()
    run = RunDirectory(subject.path, subject.experiment)
    for _ in run.run(device="cpu", threads=1, snapshot_seconds=0.0, dataset=subject.dataset):
        pass
    return time.monotonic() - begun, sum(spent[:-1]), len(spent) - 1  # the last is the result


def restart(subject: ModelSubject) -> float:
    """Return the seconds from the start of a new process to the first answer of a saved model."""
    in_child(lambda: subject.live(silent))
    begun = time.monotonic()
    command = [sys.executable, "-c", ASK, str(subject.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if not done.stdout.startswith("class "):
        raise AssertionError(f"no answer but {done.stdout!r}")
    return time.monotonic() - begun
