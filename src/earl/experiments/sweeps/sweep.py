"""Sweeps: many runs, each a process and a directory of its own.

All that is known is in the directories. What is finished is skipped; what was interrupted goes on
exactly there; a run that fails is reported and the others go on.
"""

import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from earl.errors import DirectoryInUse, EarlError, RunConflict, SweepFileError
from earl.evaluation.history import read_history
from earl.experiments.experiment import Experiment
from earl.experiments.places import make_writable
from earl.experiments.prepare import rehearse
from earl.experiments.runs.directory import SNAPSHOT_SECONDS, RunDirectory
from earl.experiments.runs.files import read_record
from earl.experiments.runs.progress_note import NOTE, read_note
from earl.experiments.sweeps.engines import Engine, Job, LocalEngine
from earl.storage.files import (
    entries,
    lock_directory,
)
from earl.storage.manifest import newest_step
from earl.storage.reading import open_regular

State = Literal["waiting", "interrupted", "running", "in use", "finished", "failed"]
LOG = "log.txt"
LARGEST_TAIL = 1 << 20  # bytes of a log that are looked at
POLL_SECONDS = 0.2  # seconds between two looks at all runs
LOCK_RETRY_SECONDS = (
    2.0  # seconds between two tries to enter a directory that another process works in
)
MAX_RESTARTS = 4  # times in a row that a run may be ended by a signal before it comes any further
IN_USE = 73  # exit codes of `earl run`
STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


@dataclass(frozen=True)
class Status:
    """How one run of a sweep stands, as far as its directory tells."""

    experiment: Experiment
    path: Path
    state: State
    step: int = 0  # of a run that goes on as it has noted, else that of its newest snapshot
    total: int = 0  # samples of the stream; 0 while nobody knows
    accuracy: float | None = None  # at the newest evaluation
    metrics: Mapping[str, float] = field(default_factory=dict)  # of a finished run
    message: str = ""  # why it failed, or what it waits for


def sweep(
    experiments: Sequence[Experiment],
    out: Path,
    *,
    engine: Engine | None = None,
    device: str = "auto",
    data_root: Path | None = None,
    cache_root: Path | None = None,
    snapshot_seconds: float = SNAPSHOT_SECONDS,
    imports: Sequence[str] = (),
) -> Generator[tuple[Status, ...]]:
    """Run all experiments, and yield now and then how every one of them stands.

    Close the iterator (or leave its loop) to stop: all runs are saved and can go on later. What no
    run could be made of, a memory that is too small for its method, say, is refused at once.
    """
    engine = engine or LocalEngine()
    words = ["--out", str(out.absolute()), "--snapshot-seconds", str(snapshot_seconds)]
    words += ["--device", device, *(word for name in imports for word in ("--import", name))]
    words += ["--threads", str(engine.threads)] if engine.threads is not None else []
    for option, place in (("--data-root", data_root), ("--cache-root", cache_root)):
        words += [option, str(place.expanduser().absolute())] if place else []
    refuse_same_path(experiments)
    runs = [SweepRun(experiment, out / experiment.path(), words) for experiment in experiments]
    rehearse_waiting([run.status for run in runs])
    make_writable(out)
    return follow_runs(runs, engine)


def follow_runs(runs: "Sequence[SweepRun]", engine: Engine) -> Generator[tuple[Status, ...]]:
    """Start runs as the engine has room for them, and yield now and then how they stand."""
    try:
        while True:
            for run in runs:
                run.look()
            free = engine.slots - sum(run.job is not None for run in runs)
            for run in itertools.islice(filter(SweepRun.due, runs), free):
                run.start(engine)
            yield tuple(run.status for run in runs)
            if all(run.ended() for run in runs):
                return
            time.sleep(POLL_SECONDS)
    finally:
        jobs = [run.job for run in runs if run.job is not None]
        for job in jobs:
            job.stop()
        for job in jobs:
            job.wait()


def survey(experiments: Sequence[Experiment], out: Path) -> tuple[Status, ...]:
    """Return how all runs stand without running any."""
    return tuple(look_at(experiment, out / experiment.path()) for experiment in experiments)


def look_at(experiment: Experiment, path: Path) -> Status:
    """Return what a run directory tells."""
    try:
        summary = RunDirectory(path, experiment).summary
        examined, total, accuracy = progress(path)
    except EarlError as error:  # another experiment, or no run of ours
        return Status(experiment, path, "failed", message=str(error))
    if summary is not None:
        return Status(
            experiment, path, "finished", examined, examined, accuracy, summary["metrics"]
        )
    if (path / "LOCK").exists() and in_use(path):
        note = "another process works in this directory; waiting for it"
        noted, total = read_note(path) or (0, total)
        step = max(noted, examined)
        return Status(experiment, path, "in use", step, total, accuracy, message=note)
    state: State = "interrupted" if (path / "experiment.json").exists() else "waiting"
    return Status(experiment, path, state, max(0, newest_step(path / "snapshots")), total, accuracy)


def progress(path: Path) -> tuple[int, int, float | None]:
    """Return the step of the newest evaluation, the samples of the stream, and the accuracy.

    What is not written down yet is 0, 0 and None.
    """
    file, history = path / "experiment.json", read_history(path / "history.jsonl")
    total = read_record(file).get("samples", 0) if os.path.lexists(file) else 0
    return (history[-1].step, total, history[-1].accuracy) if history else (0, total, None)


class SweepRun:
    """One run while its sweep goes on: its job, if it has one, and what it has been through."""

    def __init__(self, experiment: Experiment, path: Path, words: Sequence[str]) -> None:
        self.experiment = experiment
        self.path = path
        self.words = [*experiment.command(), *words]
        self.status = look_at(experiment, path)
        self.job: Job | None = None
        self._not_before = 0.0
        self._lives = 0  # that were ended by a signal, since the newest snapshot
        self._snapshots: list[str] = []
        self._log_start = 0  # where this process begins in the log
        self._written = 0  # bytes of the history that the status knows

    def due(self) -> bool:
        """Tell whether the run can be started; another sweep may have finished it by now."""
        if self.job is not None or self.ended() or time.monotonic() < self._not_before:
            return False
        self._read()
        return self.status.state in ("waiting", "interrupted")

    def ended(self) -> bool:
        return self.status.state in ("finished", "failed")

    def start(self, engine: Engine) -> None:
        try:
            (self.path / NOTE).unlink(missing_ok=True)  # left by a kill
            self._log_start = size(self.path / LOG)
            self.job = engine.start(self.words, self.path / LOG)
        except (OSError, EarlError) as error:
            self._fail(f"cannot be started: {error}")

    def look(self) -> None:
        """Bring the status up to date."""
        if self.job is None:
            return
        try:
            code = self.job.poll()
            if code is None:
                self._follow()
                return
        except (OSError, EarlError) as error:
            self.job.stop()
            self.job = None
            self._fail(str(error))
            return
        self.job = None
        self._read()
        if self.ended() or code == IN_USE:
            return
        if code < 0 or code in STOPPED:
            self._count_life(code)
        else:
            self._fail(tail(self.path / LOG, self._log_start) or f"ended with exit code {code}")

    def _follow(self) -> None:
        if size(self.path / LOG) == self._log_start:
            return  # it still waits for a free machine
        written, s = size(self.path / "history.jsonl"), self.status
        if written != self._written or s.state != "running" or not s.total:
            self._written = written
            self.status = Status(self.experiment, self.path, "running", *progress(self.path))
        if note := read_note(self.path):
            self.status = replace(self.status, step=max(note[0], self.status.step), total=note[1])

    def _read(self) -> None:
        self.status = look_at(self.experiment, self.path)
        if self.status.state == "in use":
            self._not_before = time.monotonic() + LOCK_RETRY_SECONDS

    def _count_life(self, code: int) -> None:
        """Let a run that was killed go on, unless it never comes any further."""
        now = sorted(path.name for path in entries(self.path / "snapshots", "snap-"))
        self._lives = 1 if now != self._snapshots else self._lives + 1
        self._snapshots = now
        if self._lives >= MAX_RESTARTS:
            name = signal.Signals(-code if code < 0 else code - 128).name
            self._fail(
                f"killed {self._lives} times in a row by {name} before it could save anything new"
                + ("; is there enough memory?" if name == "SIGKILL" else "")
            )

    def _fail(self, message: str) -> None:
        self.status = replace(self.status, state="failed", message=message)


def refuse_same_path(experiments: Sequence[Experiment]) -> None:
    seen: dict[str, Experiment] = {}
    for experiment in experiments:
        path = str(experiment.path())
        if path in seen:
            raise RunConflict(f"two different runs of this sweep would both go to {path}")
        seen[path] = experiment


def rehearse_waiting(statuses: Sequence[Status]) -> None:
    """Make the learner of every run that has not begun; seeds make no difference."""
    made = set()
    for status in statuses:
        key = json.dumps(replace(status.experiment, seed=0).as_dict())
        if status.state != "waiting" or key in made:
            continue
        made.add(key)
        try:
            rehearse(status.experiment)
        except EarlError as error:
            raise SweepFileError(f"{status.experiment.path()}: {error}") from error


def in_use(path: Path) -> bool:
    """Tell whether another process works in a run directory."""
    try:
        with lock_directory(path):
            return False
    except DirectoryInUse:
        return True


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def tail(log: Path, start: int) -> str:
    """Return the last five lines of a log from `start` on; of an error of ours, only that line."""
    try:
        with open_regular(log, sys.maxsize) as file:
            file.seek(max(start, size(log) - LARGEST_TAIL))
            text = file.read(LARGEST_TAIL).decode(errors="replace")
    except (OSError, ValueError):  # none is there, or it is no file of ours
        text = ""
    said = [line for line in text.splitlines()[1:] if line.strip()]
    if said and said[-1].startswith("earl: "):
        return said[-1].removeprefix("earl: ")
    return "\n".join(said[-5:])
