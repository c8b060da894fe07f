"""One call of the system that fails, of all that a service asks of its disk, SQLite's included."""

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from earl.crashtest.disk import CALLS, changes
from earl.crashtest.sqlite_disk import SHORT, install, name_of

FAULT = "fault"  # the line of a log that says that the call failed
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "short": SHORT}
OTHERS = ("EIO", "ENOSPC")  # what calls can meet that are neither of the following
OF_CALL = {
    "write": ("EIO", "ENOSPC", "EINTR", "short"),
    "open": ("EIO", "ENOSPC", "EINTR"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
}


class Point(NamedTuple):
    """The n-th call of a kind that concerns one kind of file."""

    file: str
    call: str
    number: int

    @property
    def errors(self) -> tuple[str, ...]:
        """What can happen there; to SQLite all errors of `fsync` are one."""
        if self.call == "fsync" and self.journal:
            return ("EIO",)
        return OF_CALL.get(self.call, OTHERS)

    @property
    def journal(self) -> bool:
        """Whether it is SQLite's."""
        return self.file.startswith("journal.db")


def kind_of(path: Path) -> str:
    """Return which kind of file a path below a state is; snapshots are alike, whenever made."""
    if path.parent.name.lstrip(".").startswith(("tmp-snap-", "snap-")):
        return f"snapshot/{path.name}"
    return "snapshot" if "snap-" in path.name else path.name


@dataclass
class Faults:
    """Writes a log of all calls that change something below a folder; one of them fails."""

    folder: Path
    log: Path
    point: Point | None = None
    error: str = ""
    retries: bool = False  # the sabotage: a flush that has failed is tried again, and succeeds
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self) -> None:
        """Begin, in a child that is forked for it: nothing is put back."""
        self._fd = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write = os.write
        for module, name in CALLS:
            setattr(module, name, self.wrapped(name, getattr(module, name)))
        install(self.meet)

    def meet(self, path: str, call: str) -> int | None:
        """Count a call; return the error that it meets."""
        if not path.startswith(str(self.folder)):
            return None
        kind = kind_of(Path(path))
        with self._lock:
            self._counts[kind, call] += 1
            here = Point(kind, call, self._counts[kind, call])
        self.tell(f"{here.file} {here.call} {here.number}")
        if here != self.point:
            return None
        self.tell(f"{FAULT} {call}")
        if self.retries and call == "fsync":
            return self.meet(path, call)
        return ERRORS[self.error]

    def tell(self, line: str) -> None:
        self._write(self._fd, f"{line}\n".encode())

    def wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            if not changes(name, words):
                return real(*words, **named)
            error = self.meet(path_of(words[0], named.get("dir_fd")), name)
            if error == SHORT:
                fd, data = words
                return real(fd, memoryview(data)[: max(1, len(data) // 2)])
            if error is not None:
                raise OSError(error, os.strerror(error))
            return real(*words, **named)

        return call


def path_of(target: Any, folder: int | None) -> str:
    """Return the path that a call is about, which may name an open file or folder."""
    if isinstance(target, int):
        return name_of(target)
    path = os.fspath(target)
    return path if folder is None else f"{name_of(folder)}/{path}"


@dataclass(frozen=True)
class Seen:
    """What a log tells."""

    lines: list[str]

    @classmethod
    def of(cls, log: Path) -> "Seen":
        return cls(log.read_text(encoding="utf-8").splitlines() if log.exists() else [])

    @property
    def points(self) -> list[Point]:
        words = [line.rsplit(" ", 2) for line in self.lines if not line.startswith(FAULT)]
        return [Point(file, call, int(number)) for file, call, number in words]

    @property
    def failed(self) -> bool:
        """Whether the call has failed."""
        return any(line.startswith(FAULT) for line in self.lines)

    @property
    def flush_failed(self) -> bool:
        return f"{FAULT} fsync" in self.lines

    def flushes_after(self, point: Point) -> int:
        """Return how often something of the same kind was flushed after that had failed."""
        if not self.flush_failed:
            return 0
        later = Seen(self.lines[self.lines.index(f"{FAULT} fsync") + 1 :])
        return sum(p.call == "fsync" and p.journal == point.journal for p in later.points)
