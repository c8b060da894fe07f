"""A replica: it answers from the newest snapshot of a session, and follows it; it never learns."""

import logging
import threading
from pathlib import Path

import torch

from earl.errors import SnapshotError
from earl.estimator.model import Model
from earl.estimator.saving import model_from
from earl.service.bounds import Bounds, bounds_of
from earl.service.gauge import Reading
from earl.service.journal import NAME
from earl.service.learner import Tell
from earl.service.limits import Limits
from earl.service.published import Published, capacity, image_size
from earl.storage.manifest import newest_step
from earl.storage.snapshot import Snapshot, peek_newest

SECONDS = 1.0  # between two looks for a newer snapshot

log = logging.getLogger("earl.service")


class Replica:
    """Serves the newest snapshot in a directory that another process writes, and only reads it."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        tell: Tell = lambda kind, data: None,
        seconds: float = SECONDS,
    ) -> None:
        self.folder, self.limits, self._tell, self.seconds = (
            folder,
            limits or Limits(),
            tell,
            seconds,
        )
        self._stop = threading.Event()
        self.failed: str | None = None
        found = peek_newest(folder)
        if found is None:
            raise SnapshotError(f"{folder} holds no snapshot yet; start the service that writes it")
        self.bounds = self._checked_bounds(found)
        self.published = self._read(found)
        model = self.published.model
        torch.set_num_threads(model.threads or 1)
        self._thread = threading.Thread(target=self._follow, name="earl-replica", daemon=True)

    def _checked_bounds(self, found: Snapshot) -> Bounds | None:
        """Return what is needed at most, where there is a limit; TooLarge if it is beyond that."""
        if self.limits.memory is None:
            return None
        known = found.about["classes"]
        assert isinstance(known, int)
        bounds = bounds_of(found.state["parameters"], self.limits, known=known, replica=True)
        bounds.check(self.limits.memory)
        return bounds

    def _read(self, found: Snapshot) -> Published:
        model: Model = model_from(found.state, None, {})
        return Published.of(model, found.step)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _follow(self) -> None:
        while not self._stop.wait(self.seconds):
            try:
                if newest_step(self.folder) != self.published.seq:
                    self.look()
            except (SnapshotError, OSError) as error:  # the next look may find it whole
                self.failed = f"the newest snapshot cannot be read: {error}"[:200]
                log.warning("replica", extra={"why": self.failed})

    def look(self) -> None:
        """Take over the newest snapshot, if there is a newer one."""
        found = peek_newest(self.folder)
        if found is not None and found.step != self.published.seq:
            self.published = self._read(found)
            self._tell("published", {"seq": found.step})
        self.failed = None

    # ---- as of a session

    @property
    def acknowledged(self) -> int:
        return self.published.seq

    @property
    def applied(self) -> int:
        return self.published.seq

    @property
    def waiting(self) -> int:
        return 0

    @property
    def catching_up(self) -> bool:
        return False

    @property
    def rate(self) -> float:
        return 0.0

    @property
    def skipped(self) -> int:
        return self.published.model.skipped_steps

    @property
    def capacity(self) -> int | None:
        return capacity(self.published.model)

    @property
    def reading(self) -> Reading:
        return Reading()

    @property
    def image_size(self) -> int:
        return image_size(self.published.model)

    def reasons(self) -> list[str]:
        dead = None if self._thread.is_alive() else "it does not follow its writer any more"
        return [reason for reason in (self.failed, dead) if reason is not None]

    def since(self) -> dict[str, int]:
        return {}

    def journal_bytes(self) -> int:
        path = self.folder / NAME
        return path.stat().st_size if path.exists() else 0
