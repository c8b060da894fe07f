"""Run directories: a run as files, which can be stopped anywhere and goes on exactly there.

experiment.json    what is run, every setting and where it comes from, where it was started
history.jsonl      one line per evaluation; the same bytes however often the run was stopped
snapshots/         the learner's state now and then
summary.json       the metrics, once the run has ended
"""

import json
import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from earl.data.dataset import Dataset
from earl.data.source import Progress, silent
from earl.errors import DataNotFound, RunConflict
from earl.evaluation.history import Evaluation
from earl.evaluation.loop import Moment, learn_online
from earl.experiments.experiment import Experiment
from earl.experiments.imports import require_imports
from earl.experiments.learners import threads_worth
from earl.experiments.loading import check_unchanged, facts_of_data
from earl.experiments.machine import best_device, thread_count, usable_device
from earl.experiments.places import Places
from earl.experiments.prepare import PreparedRun, rehearse
from earl.experiments.runs.environment import changes, environment
from earl.experiments.runs.files import FORMAT, read_record
from earl.experiments.runs.keeper import Follower, Keeper
from earl.experiments.runs.saves import Saves
from earl.experiments.runs.seals import SEALED, UNSEALED, read_checked, read_summary
from earl.learning.learner import Learner
from earl.nn.ranks import ALONE, Alone
from earl.storage.files import lock_directory, replace_text

SNAPSHOT_SECONDS = 30.0


class RunDirectory:
    """One run on disk. Iterating runs it, or goes on with it; leaving the loop saves it first."""

    def __init__(
        self, path: Path, experiment: Experiment | None = None, imports: Sequence[str] = ()
    ) -> None:
        """Open a directory; without an experiment it must hold one already.

        `imports` names the modules that had to be imported for the experiment, for the record.
        """
        self.path = path
        self.notes: list[str] = []  # what the user should know about this run
        self.places = Places.find()
        self.imports = list(imports)
        stored = self._stored()
        if experiment is None:
            if stored is None:
                raise DataNotFound(f"{path} holds no run (there is no experiment.json in it)")
            require_imports(stored, path)
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

    def load(
        self,
        data_root: Path | None = None,
        cache_root: Path | None = None,
        progress: Progress = silent,
    ) -> Dataset:
        """Load the data set from the given folders, else from those of the run's beginning.

        A new run is tried out first: what cannot be run is refused before data are looked for.
        """
        stored = self._stored()
        if stored is None:
            rehearse(self.experiment)
        self.places = Places.find(data_root, cache_root, before=(stored or {}).get("places"))
        return self.experiment.load(self.places, progress)

    def run(
        self,
        *,
        device: str = "auto",
        threads: int | None = None,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
        dataset: Dataset | None = None,
        ranks: Alone = ALONE,
    ) -> Generator[Moment]:
        """Yield after every sample until the stream ends; a run that has ended yields nothing.

        Close the iterator (or leave its loop) to stop: the run is saved and can go on later. If
        there are several ranks, the first writes the directory; the others only learn with it.
        """
        with ExitStack() as until_the_end:
            record = None
            if ranks.first and self._enter(until_the_end):
                dataset = dataset or self.load()
                record = self._stored() or self._new_record(device, threads, dataset, ranks.size)
            begun = ranks.share(record and record["environment"])
            if begun is None:  # the run has ended before
                ranks.leave()
                return
            until_the_end.enter_context(thread_count(begun["threads"]))
            run = self.experiment.build(usable_device(begun["device"]), dataset, ranks)
            keeper: Keeper | Follower = Follower(run.learner, ranks)
            if record is not None:
                self._note(record, run, ranks.size)
                keeper = Keeper(self._saves(), run.learner, ranks, snapshot_seconds)
            with keeper as start:
                for moment in learn_online(
                    run.learner,
                    run.stream,
                    run.exam,
                    every=run.every,
                    start=start,
                    probes=run.probes,
                ):
                    keeper.keep(moment)
                    yield moment

    def learner(self) -> Learner:
        """Return the learner as of the newest snapshot."""
        run = self.experiment.build(dataset=self.load())
        self._saves().load(run.learner)
        return run.learner

    def _enter(self, stack: ExitStack) -> bool:
        """Lock the directory until the end; tell whether there is anything left to run."""
        if (summary := self.summary) is not None:  # nothing is written: the disk may be read-only
            self.notes += [] if "seals" in summary else [f"this run {UNSEALED}"]
            return False
        stack.enter_context(lock_directory(self.path))
        return self.summary is None  # by now

    def _saves(self) -> Saves:
        asked = {"experiment": self.experiment.as_dict(), "settings": self.experiment.values()}
        return Saves(self.path, self._stored() or asked, self.notes)

    def _stored(self) -> dict[str, Any] | None:
        file = self.path / "experiment.json"
        return read_record(file) if os.path.lexists(file) else None

    def _new_record(
        self, device: str, threads: int | None, dataset: Dataset, ranks: int
    ) -> dict[str, Any]:
        threads = threads or threads_worth(self.experiment, dataset.image_shape)
        return {
            "format": FORMAT,
            SEALED: True,
            "experiment": self.experiment.as_dict(),
            "settings": self.experiment.values(),
            "origins": self.experiment.origins.as_dict(),
            "environment": environment(self.device(device), threads, ranks, self.precision),
            "places": self.places.as_dict(),
            **({"imports": self.imports} if self.imports else {}),
        }

    def _check_same(self, stored: dict[str, Any]) -> None:
        asked = self.experiment.as_dict() | {"settings": self.experiment.values()}
        there = stored["experiment"] | {"settings": stored["settings"]}
        if asked.get("stream_sha256") == there.get("stream_sha256", ""):
            asked |= {"stream": there["stream"]}  # the same file may lie elsewhere by now
        found = {**self.experiment.usual, **flat(there)}  # an older record lacks newer settings
        for name, value in flat(asked).items():
            if found.get(name) != value:
                raise RunConflict(
                    f"{self.path} holds a run with {name} = {found.get(name)!r}, not "
                    f"{value!r}; choose another --out, or remove that directory"
                )

    def _note(self, record: dict[str, Any], run: PreparedRun, ranks: int) -> None:
        """Write the record of a new run; note what a run that goes on finds changed."""
        begun, schedule = record["environment"], run.stream.schedule
        now = environment(begun["device"], begun["threads"], ranks, self.precision)
        self.notes += changes(begun, now)
        data, before = facts_of_data(run.dataset), record.get("data")
        if before is None:
            record |= {"samples": len(run.stream), "budget": dict(run.budget)}
            record |= {"boundaries": [] if schedule.artificial else list(schedule.boundaries)}
            text = json.dumps(record | {"data": data}, indent=2) + "\n"
            replace_text(self.path / "experiment.json", text)
        else:
            self.notes += check_unchanged(before, data)
        self.notes += [*run.dataset.notes, *broken_images(run.dataset), *schedule.notes]


def broken_images(dataset: Dataset) -> list[str]:
    """Return a note about the images that were left out, if there are any."""
    if not dataset.skipped:
        return []
    names = "; ".join(dataset.skipped[:3]) + ("; …" if len(dataset.skipped) > 3 else "")
    return [f"broken images left out: {len(dataset.skipped)} ({names})"]


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its settings beside the other fields."""
    settings: dict[str, Any] = record["settings"]
    return {k: v for k, v in record.items() if k != "settings"} | settings
