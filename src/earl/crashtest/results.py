"""A10: the results of a run are the same bytes after kills, torn lines and a full disk."""

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

from earl.crashtest.disk import DEAD
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import Life, ask_child, in_child, pause, quietly
from earl.crashtest.power import mounted
from earl.crashtest.sabotage import put
from earl.crashtest.small import ready
from earl.crashtest.sqlite_disk import name_of
from earl.crashtest.subjects import RunSubject, silent, stop_after
from earl.evaluation.history import to_line
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.historyfile import HistoryFile

SAMPLES, FEWEST, EVALUATED = 1500, 30, 10  # of the bar; for each disturbance; between evaluations
LONGEST_PAUSE = 0.03  # seconds between a sample and the kill
DISK, MOST_LEFT = "8m", 300_000  # of a small disk; bytes that are left, about two snapshots
HISTORY = "history.jsonl"
WALL_CLOCK = ("seconds", "sha256")  # of a summary; its own seal covers the seconds


def results(trial: Trial) -> Found:
    """Disturb a run in three ways; the sabotage adds to the history without cutting it back."""
    ready()
    if trial.sabotage:
        put(HistoryFile, "__init__", uncut)
    with mounted(trial.place / "small", "-t", "tmpfs", "-o", f"size={DISK}", "x") as there:
        found = trial.found(kills=0, torn=0, full=0 if there else "skipped-needs-root")
        disturbed(trial, found, fills=there)
    return found


def disturbed(trial: Trial, found: Found, *, fills: bool) -> None:
    """Disturb a run so often, let it finish, and compare its results with those of another."""
    total = SAMPLES if trial.count >= 100 else FEWEST * trial.count
    whole = RunSubject(trial.place / "whole", total, evaluations=EVALUATED)
    other = RunSubject(trial.place / "small" / "run", total, evaluations=EVALUATED)
    in_child(lambda: whole.live(silent))
    expected = (whole.path / HISTORY).read_text(encoding="utf-8")
    ways, rng = (kill, tear, fill) if fills else (kill, tear), trial.rng
    for number in range(trial.count):
        left = total - other.reached() - EVALUATED
        if left > EVALUATED:
            happened = ways[number % len(ways)](other, rng)
            found.figures[happened] += 1
        shown = ask_child(lambda: read(other))
        prefix = shown is not None and expected.startswith(shown)
        found.expect(prefix, f"disturbance {number}: what is read is no part of the history")
    code = in_child(lambda: other.live(silent))
    found.expect(code == 0, f"the last life ended with {code}")
    before, after = files_of(whole), files_of(other)
    found.figures |= {"evaluations": expected.count("\n"), "identical": int(before == after)}
    found.expect(before == after, f"{after} is not {before}")


def read(subject: RunSubject) -> str:
    """Return the history of a run as others read it."""
    if not (subject.path / "experiment.json").exists():
        return ""
    return "".join(map(to_line, RunDirectory(subject.path).history))


def kill(subject: RunSubject, rng: random.Random) -> str:
    """Kill it at a random moment."""
    life = Life.begin(subject.live)
    life.hear(rng.randint(0, 2 * EVALUATED))
    pause(rng.random() * LONGEST_PAUSE)
    life.kill()
    return "kills"


def tear(subject: RunSubject, rng: random.Random) -> str:
    """Have it die within a line of its history."""
    share = rng.random()

    def live() -> None:
        write = os.write

        def torn(fd: int, data: Any) -> int:
            if name_of(fd).endswith(f"/{HISTORY}"):
                write(fd, memoryview(data)[: max(1, int(share * len(data)))])
                os._exit(DEAD)
            return write(fd, data)

        put(os, "write", torn)
        subject.live(silent)

    return "torn" if quietly(live) == DEAD else "kills"


def fill(subject: RunSubject, rng: random.Random) -> str:
    """Leave little room on its disk until it gives up, or is killed; then there is room again."""
    disk = subject.path.parent
    ballast, left = disk / "ballast", int(rng.random() ** 2 * MOST_LEFT)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(disk).free - left))
    quietly(lambda: stop_after(subject, saves=3))
    ballast.unlink()
    return "full"


def files_of(subject: RunSubject) -> dict[str, str]:
    """Return the result files of a run, without what the clock says."""
    summary = json.loads((subject.path / "summary.json").read_text(encoding="utf-8"))
    kept = {name: value for name, value in summary.items() if name not in WALL_CLOCK}
    history = hashlib.sha256((subject.path / HISTORY).read_bytes()).hexdigest()
    return {HISTORY: history, "summary.json": json.dumps(kept)}


def uncut(self: HistoryFile, path: Path, begun: bytes) -> None:
    """The sabotage: go on behind whatever is there."""
    if not path.exists():
        path.write_bytes(b"")
    there = path.read_bytes()
    self.path, self.evaluations = path, there.count(b"\n")
    self._size, self._sha256 = len(there), hashlib.sha256(there)
