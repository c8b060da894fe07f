"""A session: everything that the service can do, without HTTP."""

import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from earl.errors import SnapshotError
from earl.estimator import EARLClassifier
from earl.service import snapshots
from earl.service.begun import begun_with, check_same, unusable
from earl.service.bounds import Bounds, bounds_of
from earl.service.gauge import Reading
from earl.service.journal import NAME, WAL_LIMIT, Journal
from earl.service.learner import LearnerThread, Tell
from earl.service.limits import Limits
from earl.service.operations import Receipt, Wish
from earl.service.published import Published, capacity, image_size
from earl.service.refusals import Refused
from earl.service.snapshots import Snapshots
from earl.service.swap import finish
from earl.service.writer import Admit, Writer
from earl.storage.files import lock_directory, make_directory

SMALL = 8  # of a small disk this part is left free, an eighth


class Session:
    """Learns what is posted and can be asked at any moment; one process for one directory.

    `given` are parameters of EARLClassifier; a directory that was begun with others is refused.
    """

    def __init__(
        self,
        folder: Path,
        given: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        tell: Tell = lambda kind, data: None,
    ) -> None:
        self.folder, self.limits, self._tell = folder, limits or Limits(), tell
        self._held = ExitStack()
        make_directory(folder)
        self._held.enter_context(lock_directory(folder))
        try:
            self._open(dict(given or {}))
        except sqlite3.Error as error:
            self._held.close()
            raise unusable(folder, error) from error
        except BaseException:
            self._held.close()
            raise

    def _open(self, given: dict[str, Any]) -> None:
        finish(self.folder)
        new = not (self.folder / NAME).exists()
        if new and list(self.folder.glob("*snap-*")):
            raise SnapshotError(f"{self.folder} has snapshots but no {NAME}; put it back")
        begun = begun_with(given)
        self.bounds = self._checked_bounds(begun) if new else None  # before a folder is begun so
        self.journal = Journal(self.folder, begun)
        check_same(self.folder, self.journal.parameters, given)
        self.bounds = self.bounds or self._checked_bounds(self.journal.parameters)
        torch.set_num_threads(self.journal.parameters["threads"])  # of every thread of ours
        clf, applied = self._model()
        self.capacity = capacity(clf._current())
        disk = shutil.disk_usage(self.folder).total
        self._free = min(self.limits.free, disk // SMALL)
        log = min(WAL_LIMIT, disk // (2 * SMALL))
        self.writer = Writer(self.journal, cap=self.limits.journal, log=log, room=self._room)
        self.snapshots = Snapshots(
            self.folder, self.journal.id, self.limits.snapshot_seconds, self.writer.fail
        )
        self.target = self.writer.committed  # what was acknowledged before this start
        self.learner = LearnerThread(
            clf,
            applied,
            self.journal,
            self.writer,
            self.snapshots,
            limits=self.limits,
            tell=self._tell,
        )

    def _checked_bounds(self, parameters: Mapping[str, Any]) -> Bounds | None:
        """Return what is needed at most, where there is a limit; TooLarge if it is beyond that."""
        if self.limits.memory is None:
            return None
        known = len(self.journal.labels()) if (self.folder / NAME).exists() else 0
        bounds = bounds_of(parameters, self.limits, known=known)
        bounds.check(self.limits.memory)
        return bounds

    def _model(self) -> tuple[EARLClassifier, int]:
        """Return the model as it was saved last, and the operation after which that was."""
        found = snapshots.load(self.folder, self.journal.id)
        clf, applied = found or (EARLClassifier(**self.journal.parameters), 0)
        last, trimmed = self.journal.last(), self.journal.trimmed()
        if not trimmed <= applied <= last:
            raise SnapshotError(
                f"the newest snapshot in {self.folder} was made after operation {applied}, but the "
                f"journal has operations {trimmed + 1} to {last}; put back what belongs together"
            )
        return clf, applied

    def start(self) -> None:
        try:
            self.writer.start()
        except sqlite3.Error as error:
            raise unusable(self.folder, error) from error
        self.learner.start()

    def stop(self) -> None:
        """Finish the present step, save, and let the directory go."""
        self.learner.end()
        if self.learner.failed is None:
            self.learner.snapshot()
            self.snapshots.wait()
        self.journal.close()
        self.writer.stop()
        self._held.close()

    # ---- teaching

    def learn(
        self, wishes: Sequence[Wish], admit: Admit = lambda new: None
    ) -> "Future[list[Receipt]]":
        """Have samples written to the disk, all or none; they are learned in that order.

        `admit` is told which labels are new, and may raise Refused.
        """
        self.check_can_learn(len(wishes))

        def all_admit(new: Sequence[str]) -> None:
            self.check_can_learn(len(wishes))
            self._check_room(new)
            admit(new)

        return self.writer.submit(wishes, all_admit)

    def check_can_learn(self, count: int = 1) -> None:
        """Raise Refused unless so many operations can be taken now."""
        if self.learner.failed is not None or not (self.learner.is_alive()):
            detail = "learning has stopped; see /status, then start the service again"
            raise Refused(503, "learner_stopped", detail)
        if self.learner.paused is not None:
            raise Refused(503, "learning_paused", f"learning pauses: {self.learner.paused}")
        waiting = self.writer.last - self.learner.applied  # with those of the open transaction
        if waiting + count > self.limits.waiting:
            seconds = min(60, 1 + int(count / max(self.learner.rate, 0.1)))
            detail = f"{waiting} samples wait to be learned; try again in {seconds} s"
            raise Refused(429, "too_many_waiting", detail, retry_after=seconds)

    def _check_room(self, new: Sequence[str]) -> None:
        known = len(self.writer.labels)
        if self.capacity is not None and known + len(new) > self.capacity and new:
            detail = f"there is room for {self.capacity} classes, and {known} were taught already"
            raise Refused(409, "class_capacity", detail)

    def _room(self) -> str | None:
        """Return why nothing may be written, or None: snapshots need room beside the journal."""
        free = shutil.disk_usage(self.folder).free
        needed = self._free + 2 * self.snapshots.bytes
        if free >= needed:
            return None
        return f"the disk has {free:,} bytes left, and {needed:,} are kept free; make room"

    # ---- asking

    @property
    def published(self) -> Published:
        return self.learner.published

    @property
    def acknowledged(self) -> int:
        return self.writer.committed

    @property
    def applied(self) -> int:
        return self.learner.applied

    @property
    def waiting(self) -> int:
        return self.writer.committed - self.learner.applied

    @property
    def catching_up(self) -> bool:
        """Whether operations of before this start are still to be done."""
        return self.learner.applied < self.target

    @property
    def rate(self) -> float:
        return self.learner.rate

    @property
    def skipped(self) -> int:
        """Operations that could not be done, and training steps that were undone."""
        return self.learner.skipped + self.published.model.skipped_steps

    @property
    def reading(self) -> Reading:
        return self.learner.gauge.reading

    def since(self) -> dict[str, int]:
        """Return for every label the operation that brought it."""
        return self.journal.labels()

    def journal_bytes(self) -> int:
        return self.journal.size()

    @property
    def image_size(self) -> int:
        return image_size(self.published.model)

    def reasons(self) -> list[str]:
        """Return what is wrong; nothing if all is well."""
        learner = self.learner
        found = [
            f"storage failed: {self.writer.failed}" if self.writer.failed else None,
            f"learning has stopped: {learner.failed}" if learner.failed else None,
            "learning has stopped" if not learner.failed and not learner.is_alive() else None,
            f"learning pauses: {learner.paused}" if learner.paused else None,
            self.snapshots.failed,
            self._room(),
            "too many samples wait" if self.waiting >= self.limits.waiting else None,
        ]
        return [reason for reason in found if reason is not None]

    def sample(self, sample: int) -> dict[str, Any] | None:
        """Return what is known of a sample."""
        row = self.journal.sample(sample)
        return None if row is None else self._shown(row)

    def samples(self, where: Mapping[str, str | int], limit: int) -> list[dict[str, Any]]:
        return [self._shown(row) for row in self.journal.samples(where, limit)]

    def _shown(self, row: sqlite3.Row) -> dict[str, Any]:
        learned = "learned" if row["id"] <= self.applied else "waiting"
        fresh = self.writer.noted(row["id"])
        right = row["right"] if fresh is None else fresh.right
        return {
            "id": row["id"],
            "label": row["label"],
            "taught": row["taught"],
            "source": row["source"],
            "state": "forgotten" if row["forgotten"] else learned,
            "predicted": row["predicted"] if fresh is None else fresh.predicted,
            "right": None if right is None else bool(right),
            "bytes": row["bytes"],
            "error": row["error"] if fresh is None else fresh.error,
        }
