"""Run directories: a run as files, which can be stopped anywhere and goes on exactly there.

experiment.json    what is run, every setting, and where it was started
history.jsonl      one line per evaluation; the same bytes however often the run was stopped
snapshots/         the learner's state now and then
summary.json       the metrics, once the run has ended
"""

import json
import os
import platform
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import earl
from earl.catalogue import METRICS
from earl.data import check_unchanged, facts
from earl.datasets.dataset import Dataset
from earl.datasets.source import Progress, silent
from earl.durable import LARGEST_RECORD, lock_directory, read_bounded, replace_text
from earl.errors import DataNotFound, EarlError, RunConflict
from earl.experiment import Built, Experiment, best_device
from earl.history import Evaluation, lines_of, read_history, to_line
from earl.learner import Learner
from earl.parallel import Ranks
from earl.places import Places, cores
from earl.run import Moment
from earl.snapshot import Snapshot, read_newest, write_snapshot
from earl.state import Json

FORMAT = 1
SNAPSHOT_SECONDS = 30.0
SNAPSHOT_SHARE = 0.03  # of the time goes into snapshots at most


class RunDirectory:
    """One run on disk. Iterating runs it, or goes on with it; leaving the loop saves it first."""

    def __init__(self, path: Path, experiment: Experiment | None = None) -> None:
        """Open a directory; without an experiment it must hold one already."""
        self.path = path
        self.notes: list[str] = []  # what the user should know about this run
        self.places = Places.find()
        stored = self._stored()
        if experiment is None:
            if stored is None:
                raise DataNotFound(f"{path} holds no run (there is no experiment.json in it)")
            experiment = Experiment.from_dict(stored["experiment"])
        self.experiment = experiment
        if stored is not None:
            self._check_same(stored)

    @property
    def history(self) -> list[Evaluation]:
        return read_history(self.path / "history.jsonl")

    @property
    def summary(self) -> dict[str, Any] | None:
        """The result of the run, or None while it has not ended."""
        data = read_bounded(self.path / "summary.json", LARGEST_RECORD)
        return None if data is None else json.loads(data)

    def run(
        self,
        *,
        device: str = "auto",
        threads: int | None = None,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
        dataset: Dataset | None = None,
        ranks: Ranks | None = None,
    ) -> Generator[Moment]:
        """Yield after every sample until the stream ends; a run that has ended yields nothing.

        Close the iterator (or leave its loop) to stop: the run is saved and can go on later.
        """
        with lock_directory(self.path):
            if self.summary is not None:
                tell(ranks, None)
                return
            dataset = dataset or self.load()
            record = self._stored() or self._new_record(
                best_device() if device == "auto" else device,
                threads or min(torch.get_num_threads(), cores()),
                ranks.size if ranks else 1,
            )
            self._note_changes(record["environment"], ranks.size if ranks else 1)
            tell(ranks, record["environment"])
            with thread_count(record["environment"]["threads"]):
                built = self.experiment.build(record["environment"]["device"], dataset, ranks)
                schedule = built.stream.schedule
                ends = () if schedule.artificial else schedule.boundaries
                about = {"samples": len(built.stream), "budget": dict(built.budget)}
                about |= {"boundaries": list(ends)}
                self._note_data(record | about, built.dataset)
                self.notes += schedule.notes
                yield from self._run(built, snapshot_seconds)

    def load(
        self,
        data_root: Path | None = None,
        cache_root: Path | None = None,
        progress: Progress = silent,
    ) -> Dataset:
        """Load the data set from the given folders, else from those of the run's beginning."""
        before = (self._stored() or {}).get("places")
        self.places = Places.find(data_root, cache_root, before=before)
        return self.experiment.load(self.places, progress)

    def _run(self, built: Built, snapshot_seconds: float) -> Generator[Moment]:
        start, seconds = self._go_on(built.learner)
        tell(built.exam.ranks, (start, built.learner.state_dict()))
        clock = Clock(seconds, snapshot_seconds)
        moment = saved = start
        try:
            for moment in built.learn(start):
                if moment.evaluation:
                    self._append(moment.evaluation)
                if clock.due():
                    with clock.saving():
                        self._save(built.learner, moment, clock.seconds())
                    saved = moment
                yield moment
        except GeneratorExit:
            if moment is not saved:
                self._save(built.learner, moment, clock.seconds())
            raise
        self._save(built.learner, moment, clock.seconds())
        self._finish(clock.seconds())

    def _append(self, evaluation: Evaluation) -> None:
        with (self.path / "history.jsonl").open("a", encoding="utf-8") as file:
            file.write(to_line(evaluation))
            file.flush()
            os.fsync(file.fileno())  # before the snapshot that counts this line

    def _save(self, learner: Learner, moment: Moment, seconds: float) -> None:
        about: dict[str, Json] = {
            "online_correct": moment.online_correct,
            "evaluations": len(self.history),
            "seconds": round(seconds, 3),
        }
        write_snapshot(self.path / "snapshots", moment.step, learner.state_dict(), about=about)

    def _go_on(self, learner: Learner) -> tuple[Moment, float]:
        """Bring learner and history to the newest snapshot; return the moment and seconds spent."""
        snapshot = self._newest()
        if snapshot is None:
            replace_text(self.path / "history.jsonl", "")
            return Moment(), 0.0
        about: Any = snapshot.about
        history = self.history
        if len(history) < about["evaluations"]:
            raise EarlError(
                f"{self.path / 'history.jsonl'} holds {len(history)} evaluations, the snapshot of "
                f"step {snapshot.step} needs {about['evaluations']}; put the file back, or start "
                "anew in another directory"
            )
        replace_text(self.path / "history.jsonl", lines_of(history[: about["evaluations"]]))
        learner.load_state_dict(snapshot.state)
        moment = Moment(snapshot.step, online_correct=about["online_correct"])
        return moment, about["seconds"]

    def _newest(self) -> Snapshot | None:
        snapshot = read_newest(self.path / "snapshots")
        if snapshot is not None:
            self.notes += [f"damaged snapshot skipped: {line}" for line in snapshot.skipped]
        return snapshot

    def learner(self) -> Learner:
        """Return the learner as of the newest snapshot."""
        built = self.experiment.build(dataset=self.load())
        snapshot = self._newest()
        if snapshot is not None:
            built.learner.load_state_dict(snapshot.state)
        return built.learner

    def _finish(self, seconds: float) -> None:
        history = self.history
        result = {
            "metrics": {entry.name: METRICS[entry.name](history) for entry in METRICS},
            "samples": history[-1].step,
            "costs": history[-1].numbers,
            "seconds": round(seconds, 1),
            "notes": self.notes,
        }
        replace_text(self.path / "summary.json", json.dumps(result, indent=2) + "\n")

    def _stored(self) -> dict[str, Any] | None:
        file = self.path / "experiment.json"
        data = read_bounded(file, LARGEST_RECORD)
        if data is None:
            return None
        try:
            record: dict[str, Any] = json.loads(data)
            version = record["format"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise EarlError(f"{file} is not the record of a run") from error
        if version != FORMAT:
            raise EarlError(f"{file} has format {version}; this earl reads format {FORMAT}")
        return record

    def _new_record(self, device: str, threads: int, ranks: int) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "experiment": self.experiment.as_dict(),
            "settings": self.experiment.values(),
            "environment": environment(device, threads, ranks),
            "places": self.places.as_dict(),
        }

    def _check_same(self, stored: dict[str, Any]) -> None:
        asked = self.experiment.as_dict() | {"settings": self.experiment.values()}
        there = stored["experiment"] | {"settings": stored["settings"]}
        if asked.get("stream_sha256") == there.get("stream_sha256", ""):
            asked |= {"stream": there["stream"]}  # the same file may lie elsewhere by now
        for name, value in flat(asked).items():
            if flat(there).get(name) != value:
                raise RunConflict(
                    f"{self.path} holds a run with {name} = {flat(there).get(name)!r}, not "
                    f"{value!r}; choose another --out, or remove that directory"
                )

    def _note_data(self, record: dict[str, Any], dataset: Dataset) -> None:
        """Write the record of a new run, with its data; a run that goes on must find the same."""
        found, before = facts(dataset), record.get("data")
        if before is None:
            text = json.dumps(record | {"data": found}, indent=2) + "\n"
            replace_text(self.path / "experiment.json", text)
        else:
            self.notes += check_unchanged(before, found)
        self.notes += dataset.notes
        if dataset.skipped:
            names = "; ".join(dataset.skipped[:3]) + ("; …" if len(dataset.skipped) > 3 else "")
            self.notes.append(f"broken images left out: {len(dataset.skipped)} ({names})")

    def _note_changes(self, stored: dict[str, Any], ranks: int) -> None:
        now = environment(stored["device"], stored["threads"], ranks)
        for name, value in stored.items():
            if now[name] != value:
                self.notes.append(
                    f"not exactly reproducible: {name} was {value!r} at the start and is "
                    f"{now[name]!r} now"
                )


class Clock:
    """Tells the seconds a run has taken, over all its lives, and when a snapshot is due."""

    def __init__(self, before: float, interval: float) -> None:
        self._start = time.monotonic() - before
        self._interval = interval
        self._last = time.monotonic()
        self._cost = 0.0

    def seconds(self) -> float:
        return time.monotonic() - self._start

    def due(self) -> bool:
        wait = max(self._interval, self._cost / SNAPSHOT_SHARE)
        return time.monotonic() - self._last >= wait

    @contextmanager
    def saving(self) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self._last = time.monotonic()
        self._cost = self._last - begun


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """Let torch use this many threads: sums depend on their number, so a run keeps its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def environment(device: str, threads: int, ranks: int = 1) -> dict[str, Any]:
    """Return what results depend on beyond the experiment."""
    return {
        "earl": earl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "device": device,
        "threads": threads,
        "ranks": ranks,
    }


def tell(ranks: Ranks | None, value: object) -> None:
    """Give the ranks that assist in a run something to begin with."""
    if ranks is not None:
        ranks.share(value)


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its settings beside the other fields."""
    settings: dict[str, Any] = record["settings"]
    return {k: v for k, v in record.items() if k != "settings"} | settings
