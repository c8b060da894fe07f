"""A disk that fails on purpose: the system's calls, counted, and made to fail or to be the last."""

import errno
import fcntl
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# What runs ask of a disk, by module. Calls that name an open file are those of a file from here.
CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("open", "write", "fsync", "mkdir", "rename", "replace")),
    *((os, name) for name in ("unlink", "rmdir", "listdir", "scandir")),
    (io, "open"),
    (fcntl, "flock"),
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("write", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir")
DEAD = 250  # the exit code of a process that died at an operation

Act = Callable[[int, str, tuple[Any, ...]], None]


class Disk:
    """Counts the calls that concern a folder, and does something about each before it happens."""

    def __init__(self, folder: Path, act: Act) -> None:
        self.folder, self.act = str(folder), act
        self.calls: list[str] = []
        self._files: set[int] = set()

    def wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **named: Any) -> Any:
            if not self.concerns(target):
                return real(target, *rest, **named)
            self.calls.append(name)
            self.act(len(self.calls) - 1, name, (target, *rest))
            result = real(target, *rest, **named)
            if name == "open" and isinstance(result, int):
                self._files.add(result)
            return result

        return call

    def concerns(self, target: Any) -> bool:
        if isinstance(target, int):
            return target in self._files
        return str(os.fspath(target)).startswith(self.folder)


@contextmanager
def watched(folder: Path, act: Act) -> Iterator[Disk]:
    """Within this context calls below a folder go through `act`, which may raise."""
    disk, real = Disk(folder, act), {call: getattr(*call) for call in CALLS}
    try:
        for (module, name), function in real.items():
            setattr(module, name, disk.wrapped(name, function))
        yield disk
    finally:
        for (module, name), function in real.items():
            setattr(module, name, function)


def nothing(number: int, name: str, words: tuple[Any, ...]) -> None:
    """Let every call happen."""


def fail(at: int, code: int, for_good: bool) -> Act:
    """Return what lets one call fail, or that one and all that write after it."""

    def act(number: int, name: str, words: tuple[Any, ...]) -> None:
        if number == at or (for_good and number > at and changes(name, words)):
            named = () if isinstance(words[0], int) else (str(words[0]),)
            raise OSError(code, os.strerror(code), *named)

    return act


def read_only(number: int, name: str, words: tuple[Any, ...]) -> None:
    """Refuse whatever would change the disk."""
    if changes(name, words):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(words[0]))


def remove(at: int, folder: Path) -> Act:
    """Return what takes a folder away, with all that is in it, before one of the calls."""

    def act(number: int, name: str, words: tuple[Any, ...]) -> None:
        if number == at:
            shutil.rmtree(folder, ignore_errors=True)

    return act


def changes(name: str, words: tuple[Any, ...]) -> bool:
    """Tell whether a call changes what is on the disk, or makes room for it."""
    if name == "open" and len(words) > 1:
        mode = words[1]
        return bool(mode & WRITES) if isinstance(mode, int) else bool(set("wax+") & set(mode))
    return name in CHANGES


def die_at(point: tuple[int, str] | None) -> Callable[[], int]:
    """Count what changes any disk, and end this process before or after one: (number, when).

    This is for a child that is forked for it: nothing is put back. Return what tells the number.
    """
    number = 0

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            nonlocal number
            if not changes(name, words):
                return real(*words, **named)
            number += 1
            mine = number
            if (mine, "before") == point:
                os._exit(DEAD)
            try:
                return real(*words, **named)
            finally:
                if (mine, "after") == point:
                    os._exit(DEAD)

        return call

    for module, name in CALLS:
        setattr(module, name, wrapped(name, getattr(module, name)))
    return lambda: number
