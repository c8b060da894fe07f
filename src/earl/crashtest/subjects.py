"""What is killed: an estimator that saves itself, and a run; both go on by themselves."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from earl.cli.learn import opened
from earl.crashtest.lives import LEARNED, SAVED, Tell, pause
from earl.crashtest.sabotage import put
from earl.crashtest.small import CLASSES, Samples, data, experiment, of_images, stream
from earl.data.dataset import Dataset
from earl.experiments.experiment import Experiment
from earl.experiments.runs.clock import Clock
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.saves import Saves
from earl.storage.manifest import newest_step
from earl.storage.snapshot import read_newest
from earl.storage.state import digest

PROBES = 40  # test images that are asked about
LOADED = 160  # samples of the data set that come without asking for more


def silent(kind: bytes, number: int) -> None:
    """Tell nobody."""


def told_too_early(tell: Tell, step: int) -> None:
    """The sabotage: say that a state is saved some time before it is."""
    tell(SAVED, step)
    pause(0.3)


class Subject(Protocol):
    """Learns a stream in as many lives as it takes."""

    path: Path
    total: int  # samples of the stream

    def live(self, tell: Tell) -> None:
        """Learn to the end from where the last life has left off."""

    def reached(self) -> int:
        """Return how many samples the newest state on disk has learned."""

    def result(self) -> dict[str, Any]:
        """Return what has come out: the state, the answers to questions, the metrics."""


@dataclass
class ModelSubject:
    """An estimator that is saved after every so many samples."""

    path: Path
    total: int
    every: int = 5
    early: bool = False  # the sabotage: say that it is saved before it is

    @property
    def samples(self) -> Samples:
        return stream(self.total)

    def live(self, tell: Tell) -> None:
        samples, clf = self.samples, opened(self.path, of_images().get_params())
        for i in range(clf.history.samples, self.total):
            clf.learn_one(samples.images[i], samples.labels[i], key=i)
            tell(LEARNED, i + 1)
            if (i + 1) % self.every == 0 or i + 1 == self.total:
                if self.early:
                    told_too_early(tell, i + 1)
                clf.save(self.path)
                tell(SAVED, i + 1)

    def reached(self) -> int:
        return max(0, newest_step(self.path))

    def result(self) -> dict[str, Any]:
        clf = opened(self.path, {})
        answers = clf.predict_proba(self.samples.probes)
        history = clf.history
        return {
            "samples": history.samples,
            "digest": clf.digest(),
            "answers": hashlib.sha256(answers.tobytes()).hexdigest(),
            "metrics": [history.accuracy, history.recent, [list(point) for point in history.curve]],
        }


@dataclass
class RunSubject:
    """A run whose snapshots follow the samples instead of the clock, so that lives can be short."""

    path: Path
    total: int
    every: int = 5
    early: bool = False
    evaluations: int = 50  # samples between two

    @property
    def experiment(self) -> Experiment:
        few: dict[str, Any] = {"per_class": self.total // CLASSES} if self.dataset is None else {}
        return experiment(every=self.evaluations, **few)

    @property
    def dataset(self) -> Dataset | None:
        """The data, unless those that every run of the experiment loads are enough."""
        return None if self.total <= LOADED else data(self.total)

    def live(self, tell: Tell) -> None:
        turns, write = iter(range(1, 10**9)), Saves.write
        put(Clock, "due", lambda clock, writing: next(turns) % self.every == 0)
        put(Saves, "write", self.telling(write, tell))
        run = RunDirectory(self.path, self.experiment)
        for moment in run.run(device="cpu", threads=1, dataset=self.dataset):
            tell(LEARNED, moment.step)

    def telling(self, write: Callable[..., None], tell: Tell) -> Callable[..., None]:
        """Return a `write` that tells of each snapshot, after it or (sabotaged) before."""

        def written(saves: Saves, step: int, *rest: Any) -> None:
            if self.early:
                told_too_early(tell, step)
            write(saves, step, *rest)
            tell(SAVED, step)

        return written

    def reached(self) -> int:
        return max(0, newest_step(self.path / "snapshots"))

    def result(self) -> dict[str, Any]:
        run = RunDirectory(self.path)
        snapshot, summary = read_newest(self.path / "snapshots"), run.summary
        assert snapshot is not None and summary is not None
        prepared = self.experiment.build(dataset=self.dataset)
        prepared.learner.load_state_dict(snapshot.state)
        test = prepared.dataset.test.images
        scores = prepared.learner.scores(test[torch.arange(PROBES)])
        history = (self.path / "history.jsonl").read_bytes()
        return {
            "samples": summary["samples"],
            "digest": digest(snapshot.state),
            "answers": hashlib.sha256(scores.detach().numpy().tobytes()).hexdigest(),
            "metrics": json.loads(json.dumps(summary["metrics"])),
            "history": hashlib.sha256(history).hexdigest(),
        }


def stop_after(subject: Subject, saves: int) -> None:
    """Live until so many states are saved, then end as if killed."""
    told = []

    def tell(kind: bytes, number: int) -> None:
        told.append(kind)
        if told.count(SAVED) == saves:
            os._exit(0)

    subject.live(tell)
