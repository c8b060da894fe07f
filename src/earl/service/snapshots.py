"""Snapshots of the service: made between two steps, written by a thread, read at the start."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from earl.errors import EarlError, SnapshotError
from earl.estimator import EARLClassifier
from earl.estimator.model import Model
from earl.estimator.saving import Save
from earl.storage.background import Background
from earl.storage.files import FlushFailed
from earl.storage.manifest import Json, read_about, snapshots_in, step_of
from earl.storage.snapshot import write_snapshot
from earl.storage.state import State, copied

COST = 30.0  # so many times longer than a snapshot stops learning, it waits until the next


def load(folder: Path, journal: str) -> tuple[EARLClassifier, int] | None:
    """Return the model of the newest whole snapshot and the operation it was made after."""
    if not snapshots_in(folder) and not list(folder.glob("bad-snap-*")):
        return None
    found = read_about(folder)
    if found is not None and found[1].get("journal") != journal:
        raise SnapshotError(
            f"{found[0]} belongs to another journal than {folder / 'journal.db'}; put the right "
            "one back, or choose another directory"
        )
    clf = EARLClassifier.load(folder)
    assert clf._home is not None
    return clf, clf._home[1]


class Snapshots:
    """Writes snapshots of a model, one at a time; learning waits only while its state is copied."""

    def __init__(
        self, folder: Path, journal: str, seconds: float, give_up: Callable[[str], None]
    ) -> None:
        self.folder, self.journal, self.seconds = folder, journal, seconds
        self.give_up = give_up  # told why the disk can be trusted no more
        self.failed: str | None = None  # why the last one could not be written
        self.broken = False  # the disk did not take one: no other is tried
        self.bytes = 0
        self.newest = max((step_of(path) for path in snapshots_in(folder)), default=-1)
        self._background = Background()
        self._next = time.monotonic() + seconds

    @property
    def older(self) -> int:
        """The operation of the snapshot before the newest: what is before it is needed no more."""
        steps = sorted((step_of(path) for path in snapshots_in(self.folder)), reverse=True)
        return steps[1] if len(steps) > 1 else 0

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        return not self._background.busy and time.monotonic() >= self._next

    def take(self, model: Model, seq: int) -> None:
        """Copy the state as it is now, and have it written."""
        self.wait()
        if seq == self.newest or self.broken:
            return
        began = time.monotonic()
        save = Save.of(model)
        state, about = copied(save.state), {**save.about, "journal": self.journal}
        now = time.monotonic()
        self._next = now + max(self.seconds, COST * (now - began))
        self._background.start(partial(self._write, seq, state, about))

    def wait(self) -> None:
        """Wait until the snapshot that is being written is on the disk, or cannot be."""
        self._background.wait()

    def _write(self, seq: int, state: State, about: dict[str, Json]) -> None:
        try:
            path = write_snapshot(self.folder, seq, state, about=about)
            self.bytes = sum(file.stat().st_size for file in path.iterdir())
        except (OSError, EarlError) as error:  # the journal still holds everything
            self.failed = f"a snapshot cannot be written: {error}"[:200]
            if isinstance(error, FlushFailed):
                self.broken = True
                self.give_up(self.failed)
        else:
            self.newest, self.failed = seq, None
