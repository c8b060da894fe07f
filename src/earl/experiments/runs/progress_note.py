"""The note that a run leaves in its directory, for those who follow it from outside."""

import os
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from earl.evaluation.loop import Moment
from earl.storage.reading import read_regular

NOTE = "progress.txt"  # the file, in a run directory while the run goes on
NOTE_SECONDS = 1.0  # seconds between two notes
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, no waiting


def noted(moments: Generator[Moment], folder: Path) -> Generator[Moment]:
    """Yield the moments of a run; about every second a note in its directory tells how far it is.

    The note is gone when the run ends or stops. If it cannot be written, the run goes on
    without one: nothing depends on it.
    """
    last = -NOTE_SECONDS
    try:
        for moment in moments:
            if time.monotonic() - last >= NOTE_SECONDS:
                last = time.monotonic()
                write_note(folder, moment.step, moment.total)
            yield moment
    finally:
        moments.close()
        with suppress(OSError):
            (folder / NOTE).unlink()


def write_note(folder: Path, step: int, total: int) -> None:
    """Write over the note in one go, so that a reader finds the old or the new one."""
    with suppress(OSError):
        fd = os.open(folder / NOTE, os.O_WRONLY | os.O_CREAT | _SAFELY, 0o666)
        try:
            os.write(fd, f"{step:12} of {total:12}\n".encode())
        finally:
            os.close(fd)


def read_note(folder: Path) -> tuple[int, int] | None:
    """Return the step and the samples of the stream that a run has noted, if it has."""
    try:
        step, total = read_regular(folder / NOTE, limit=100).decode().split(" of ")
        return int(step), int(total)
    except (OSError, ValueError):
        return None
