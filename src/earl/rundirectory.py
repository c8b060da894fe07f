"""Run directories: a run as files, which can be stopped anywhere and goes on exactly there.

experiment.json    what is run, every setting, and where it was started
history.jsonl      one line per evaluation; the same bytes however often the run was stopped
snapshots/         the learner's state now and then
summary.json       the metrics, once the run has ended
"""

import json
import platform
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import earl
from earl.clock import Clock
from earl.data import facts
from earl.datasets.dataset import Dataset
from earl.datasets.source import Progress, silent
from earl.durable import lock_directory, replace_text
from earl.errors import DataNotFound, EarlError, NotFinite, RunConflict
from earl.experiment import Built, Experiment, best_device
from earl.history import Evaluation
from earl.learner import Learner
from earl.parallel import Ranks
from earl.places import Places, cores
from earl.run import Moment
from earl.saves import Saves
from earl.seals import SEALED, UNSEALED, read_checked, read_summary

FORMAT = 1
SNAPSHOT_SECONDS = 30.0


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
        """All evaluations so far; DamagedRun if they are not what was written."""
        if (record := self._stored()) is None:
            return []
        summary = read_summary(self.path / "summary.json", record)
        return read_checked(self.path, record, summary)

    @property
    def summary(self) -> dict[str, Any] | None:
        """The result of the run, or None while it has not ended; DamagedRun if it is spoilt."""
        if (record := self._stored()) is None:
            return None
        summary = read_summary(self.path / "summary.json", record)
        if summary is not None:
            read_checked(self.path, record, summary)  # they belong together
        return summary

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
            if (summary := self.summary) is not None:
                self.notes += [] if "seals" in summary else [f"this run {UNSEALED}"]
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
        saves = self._saves()
        start, seconds = saves.go_on(built.learner)
        tell(built.exam.ranks, (start, built.learner.state_dict()))
        clock = Clock(seconds, snapshot_seconds)
        moment = saved = start
        try:
            for moment in built.learn(start):
                if moment.evaluation:
                    saves.append(moment.evaluation)
                if clock.due():
                    with clock.saving():
                        saves.save(built.learner, moment, clock.seconds())
                    saved = moment
                yield moment
        except GeneratorExit:
            if moment is not saved:
                saves.save(built.learner, moment, clock.seconds())
            raise
        except NotFinite as error:
            raise NotFinite(f"{error}; {self.path} stays as it was at step {saved.step}") from error
        saves.save(built.learner, moment, clock.seconds())
        saves.finish(clock.seconds())

    def _saves(self) -> Saves:
        asked = {"experiment": self.experiment.as_dict(), "settings": self.experiment.values()}
        return Saves(self.path, self._stored() or asked, self.notes)

    def learner(self) -> Learner:
        """Return the learner as of the newest snapshot."""
        built = self.experiment.build(dataset=self.load())
        self._saves().load(built.learner)
        return built.learner

    def _stored(self) -> dict[str, Any] | None:
        file = self.path / "experiment.json"
        if not file.exists():
            return None
        try:
            record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            version = record["format"]
        except (ValueError, TypeError, KeyError) as error:
            raise EarlError(f"{file} is not the record of a run") from error
        if version != FORMAT:
            raise EarlError(f"{file} has format {version}; this earl reads format {FORMAT}")
        return record

    def _new_record(self, device: str, threads: int, ranks: int) -> dict[str, Any]:
        return {
            "format": FORMAT,
            SEALED: True,
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
        for name, value in (before or {}).items():
            if name not in ("source", "skipped") and found[name] != value:
                raise RunConflict(
                    f"the data set has changed since this run began: {name} was {value}, and is "
                    f"{found[name]} now; put the old files back, or begin another run"
                )
        if before is None:
            text = json.dumps(record | {"data": found}, indent=2) + "\n"
            replace_text(self.path / "experiment.json", text)
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
