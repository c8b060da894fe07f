"""The thread that learns: it takes operations from the journal, in order, and publishes models."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from earl.errors import EarlError, NoProgress
from earl.estimator import EARLClassifier
from earl.service.gauge import Gauge, choose
from earl.service.images import decoded
from earl.service.journal import Journal
from earl.service.limits import Limits
from earl.service.operations import Operation, Outcome, apply
from earl.service.published import Published, image_size
from earl.service.snapshots import Snapshots
from earl.service.writer import Writer

PATIENCE = 25.0  # so many times longer than making a published model, it waits until the next
RECENT = 64  # operations whose times tell the rate

Tell = Callable[[str, dict[str, Any]], None]
log = logging.getLogger("earl.service")


class LearnerThread(threading.Thread):
    """Learns; `applied` is the last operation that was done, `published` the model to be asked."""

    def __init__(
        self,
        clf: EARLClassifier,
        applied: int,
        journal: Journal,
        writer: Writer,
        snapshots: Snapshots,
        *,
        limits: Limits,
        tell: Tell,
    ) -> None:
        super().__init__(name="earl-learner", daemon=True)
        self.clf, self.applied = clf, applied
        self.journal, self.writer, self.snapshots = journal, writer, snapshots
        self.publish_seconds, self.retention = limits.publish_seconds, limits.retention
        self.tell = tell
        self.published = Published.of(clf._current(), applied)
        self.stopping = False
        self.failed: str | None = None  # why it has ended by itself
        self.paused: str | None = None
        self.skipped = 0  # operations that came to nothing
        self.gauge = Gauge()
        self._cost, self._published_at = 0.0, time.monotonic()
        self._times: deque[float] = deque(maxlen=RECENT)

    def run(self) -> None:
        self.gauge.start()
        try:
            while not self.stopping and self.paused is None:
                if not self._work():
                    self._publish()
                    self._rest()
        except Exception as error:  # whatever it is, health must tell it; the state is as it was
            self.failed = f"{type(error).__name__}: {error}"[:200]
            log.exception("learner_failed", extra={"seq": self.applied})
        finally:
            self.gauge.end()

    def end(self) -> None:
        """End after the present step."""
        self.stopping = True
        with self.writer.written:
            self.writer.written.notify_all()
        if self.is_alive():
            self.join()

    @property
    def rate(self) -> float:
        """Operations a second, of the last ones; 0 if there was none for long."""
        times = list(self._times)
        if len(times) < 2 or time.monotonic() - times[-1] > 5:
            return 0.0
        return (len(times) - 1) / max(1e-9, times[-1] - times[0])

    def _work(self) -> bool:
        """Do some operations; tell whether there were any."""
        found = False
        for operation in self.journal.after(self.applied):
            if self.stopping:
                break
            found = True
            try:
                outcome = self._do(operation)
            except NoProgress as error:  # it may be tried again by another start
                self.paused = str(error)
                log.error("paused", extra={"seq": self.applied, "why": str(error)})
                break
            self.applied = operation.seq
            self._times.append(time.monotonic())
            self._announce(operation, outcome)
            if time.monotonic() - self._published_at >= self._interval():
                self._publish()
            if self.snapshots.due:
                self.snapshot()
        return found

    def _do(self, operation: Operation) -> Outcome:
        """Do one operation; one that cannot be done is skipped, here and in every replay."""
        try:
            image, size = operation.image, image_size(self.clf._current())
            return apply(self.clf, operation, None if image is None else decoded(image, size))
        except NoProgress:
            raise
        except EarlError as error:
            self.skipped += 1
            log.warning("skipped", extra={"seq": operation.seq, "why": str(error)[:200]})
            return Outcome(error=str(error)[:200])

    def _announce(self, operation: Operation, outcome: Outcome) -> None:
        about: dict[str, Any] = {"id": operation.id, "seq": operation.seq}
        if operation.kind == "learn" or outcome.error is not None:
            self.writer.note(operation.id, outcome)
        if operation.kind == "learn":
            about |= {"label": operation.label, "predicted": outcome.predicted}
            about |= {"right": outcome.right, "recent": self.clf._current().history.all.recent}
            self.tell("learned", about)
        else:
            self.tell("changed", {**about, "kind": operation.kind})

    def _interval(self) -> float:
        """Return the seconds between two published models: short where they cost little."""
        return min(self.publish_seconds, PATIENCE * self._cost)

    def _publish(self) -> None:
        if self.published.seq == self.applied:
            return
        began = time.thread_time()  # not the wall's: a busy machine must not look costly
        self.published = Published.of(self.clf._current(), self.applied)
        self._cost = time.thread_time() - began
        self._published_at = time.monotonic()
        self.tell("published", {"seq": self.applied})
        self._measure()

    def _measure(self) -> None:
        """Have it measured how well the published model has learned, now and then."""
        if self.gauge.due and self.gauge.reading.seq != self.published.seq:
            self.gauge.show(choose(self.clf._current(), self.published))

    def snapshot(self) -> None:
        """Have the state as it is now written, and with it the outcomes so far.

        After an error of the disk nothing is written any more.
        """
        if self.writer.failed is not None:
            return
        self.writer.flush()
        self.snapshots.take(self.clf._current(), self.applied)
        if self.retention is not None:
            kept = self.writer.committed - self.retention
            self.writer.trim_to = max(self.writer.trim_to, min(kept, self.snapshots.older))

    def _rest(self) -> None:
        """Wait for the next operation; a state that rests is measured and saved when it is time."""
        self._measure()
        if self.snapshots.due and self.applied > self.snapshots.newest:
            self.snapshot()
        with self.writer.written:
            self.writer.written.wait_for(
                lambda: self.stopping or self.writer.committed > self.applied, timeout=1.0
            )
