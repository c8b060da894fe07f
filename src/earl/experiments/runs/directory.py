"""Run directories: a run as files, which can be stopped anywhere and goes on exactly there.

experiment.json    what is run, every setting, and where it was started
history.jsonl      one line per evaluation; the same bytes however often the run was stopped
snapshots/         the learner's state now and then
summary.json       the metrics, once the run has ended
"""

import json
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

from earl.data.dataset import Dataset
from earl.data.source import Progress, silent
from earl.errors import DataNotFound, NotFinite, RunConflict
from earl.evaluation.history import Evaluation
from earl.evaluation.loop import Moment
from earl.experiments.experiment import Built, Experiment, best_device, usable_device
from earl.experiments.loading import check_unchanged, facts
from earl.experiments.places import Places
from earl.experiments.runs.clock import Clock
from earl.experiments.runs.environment import changes, environment
from earl.experiments.runs.files import FORMAT, read_record
from earl.experiments.runs.saves import Saves
from earl.experiments.runs.seals import SEALED, UNSEALED, read_checked, read_summary
from earl.experiments.threads import thread_count
from earl.learning.learner import Learner
from earl.nn.ranks import Ranks
from earl.storage.files import lock_directory, replace_text

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
            experiment = Experiment.recorded(stored)
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

    @property
    def precision(self) -> str:
        return str(self.experiment.values()["precision"])

    def device(self, asked: str = "auto") -> str:
        """Return the device that the run keeps, or the one it would begin on."""
        stored = self._stored()
        if stored is not None:
            return str(stored["environment"]["device"])
        return best_device() if asked == "auto" else asked

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
        if (summary := self.summary) is not None:  # nothing is written: the disk may be read-only
            self.notes += [] if "seals" in summary else [f"this run {UNSEALED}"]
            tell(ranks, None)
            return
        with lock_directory(self.path):
            if self.summary is not None:  # by now
                tell(ranks, None)
                return
            dataset = dataset or self.load()
            record = self._stored() or self._new_record(
                self.device(device),
                threads or self.experiment.threads(dataset),
                ranks.size if ranks else 1,
            )
            self._note_changes(record["environment"], ranks.size if ranks else 1)
            tell(ranks, record["environment"])
            device = usable_device(record["environment"]["device"])
            with thread_count(record["environment"]["threads"]):
                built = self.experiment.build(device, dataset, ranks)
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
        return read_record(file) if os.path.lexists(file) else None

    def _new_record(self, device: str, threads: int, ranks: int) -> dict[str, Any]:
        return {
            "format": FORMAT,
            SEALED: True,
            "experiment": self.experiment.as_dict(),
            "settings": self.experiment.values(),
            "environment": environment(device, threads, ranks, self.precision),
            "places": self.places.as_dict(),
        }

    def _check_same(self, stored: dict[str, Any]) -> None:
        asked = self.experiment.as_dict() | {"settings": self.experiment.values()}
        there = stored["experiment"] | {"settings": stored["settings"]}
        if asked.get("stream_sha256") == there.get("stream_sha256", ""):
            asked |= {"stream": there["stream"]}  # the same file may lie elsewhere by now
        usual = replace(self.experiment, settings={}).values()  # what an older record leaves out
        found = usual | flat(there)
        for name, value in flat(asked).items():
            if found.get(name) != value:
                raise RunConflict(
                    f"{self.path} holds a run with {name} = {found.get(name)!r}, not "
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
        now = environment(stored["device"], stored["threads"], ranks, self.precision)
        self.notes += changes(stored, now)


def tell(ranks: Ranks | None, value: object) -> None:
    """Give the ranks that assist in a run something to begin with."""
    if ranks is not None:
        ranks.share(value)


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its settings beside the other fields."""
    settings: dict[str, Any] = record["settings"]
    return {k: v for k, v in record.items() if k != "settings"} | settings
