"""A3 and A5: power cuts on a disk of its own, and a disk that is nearly full.

A cut is a copy of the disk's image while the service stands still: what had not been flushed is
not in it. That is a disk that honours flushes and loses all else; it does not mix up the order of
writes. Making disks needs root: elsewhere these harnesses say that they are skipped.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from earl.crashtest.exactly_once import compare
from earl.crashtest.harness import Found, Trial
from earl.crashtest.lives import pause
from earl.crashtest.sabotage import put
from earl.crashtest.serving import Poster, Server
from earl.crashtest.small import ready, stream
from earl.service import journal, writer
from earl.service.limits import Limits
from earl.service.refusals import StorageFailed
from earl.service.session import Session
from earl.service.writer import Writer

MEGABYTES = 48  # of the disk that is cut
LONGEST = 0.2  # seconds between the last answer and the cut
PATIENCE = 20.0  # seconds until samples must be acknowledged
SMALL_DISK, BALLAST = "8m", 4 << 20  # of the disk that is nearly full


def run(*words: str) -> bool:
    """Carry out a command of the system; tell whether it went well."""
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def mounted(place: Path, *words: str) -> Iterator[bool]:
    """Mount something while this context lasts; tell whether that is possible here."""
    place.mkdir(exist_ok=True)
    there = run("mount", *words, str(place))
    try:
        yield there
    finally:
        if there:
            run("umount", "-l", str(place))


def skipped(trial: Trial) -> Found:
    return trial.found(skipped="mounting-needs-root")


def power_cuts(trial: Trial) -> Found:
    """Cut the power while a client posts; the sabotage flushes nothing."""
    image, place = trial.place / "disk", trial.place / "mounted"
    with image.open("wb") as file:
        file.truncate(MEGABYTES << 20)
    if not run("mkfs.ext4", "-q", str(image)):
        return skipped(trial)
    with mounted(place, "-o", "loop", str(image)) as there:
        if not there:
            return skipped(trial)
    ready()
    samples = 5 * trial.count
    server = Server(place / "state", sabotage=unflushed if trial.sabotage else None)
    poster = Poster(
        server.port, "client0", stream(samples), range(samples), trial.place / "log", trial.seed
    )
    poster.begin()
    found, rng = trial.found(cuts=0, samples=samples, early=0), trial.rng
    for _ in range(trial.count):
        with mounted(place, "-o", "loop", str(image)):
            lived = cut(server, poster, rng, image)
        image.with_suffix(".cut").replace(image)
        found.figures["cuts"] += 1
        found.figures["early"] += lived < 1
    with mounted(place, "-o", "loop", str(image)):
        server.start()
        found.expect(poster.wait() == 0, "the client has failed")
        server.settle()
        found.expect(server.stop() == 0, "the service did not end in peace")
        compare(server.folder, [poster], samples, found)
    return found


def cut(server: Server, poster: Poster, rng: random.Random, image: Path) -> float:
    """Live until some samples are acknowledged, then keep what a power cut leaves of the disk.

    Return the seconds of that life after it listened.
    """
    life = server.start().life
    assert life is not None
    began, wanted = time.monotonic(), len(poster.acknowledged()) + rng.randint(0, 4)
    poster.allow(5)
    while len(poster.acknowledged()) < wanted and time.monotonic() - began < PATIENCE:
        pause(0.01)
    pause(rng.random() * LONGEST)
    os.kill(life.pid, signal.SIGSTOP)
    lived = time.monotonic() - began
    shutil.copyfile(image, image.with_suffix(".cut"))
    life.kill()
    return lived


def unflushed() -> None:
    """The sabotage: SQLite does not wait for the disk, and neither do we."""
    connect = journal.connect

    def careless(path: Path, *, read_only: bool = True) -> object:
        db = connect(path, read_only=read_only)
        db.execute("PRAGMA synchronous=OFF")
        return db

    for module in (journal, writer):
        put(module, "connect", careless)
    put(os, "fsync", lambda fd: None)


def disk_full(trial: Trial) -> Found:
    """Fill a small disk with samples; the sabotage keeps no room free and has no cap."""
    ready()
    with mounted(trial.place / "mounted", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "x") as there:
        return filled(trial) if there else skipped(trial)


def filled(trial: Trial) -> Found:
    """Post until the disk is full, ask meanwhile, make room, and go on without a restart."""
    folder, ballast = trial.place / "mounted" / "state", trial.place / "mounted" / "ballast"
    ballast.write_bytes(bytes(BALLAST))
    server = Server(folder, Limits(snapshot_seconds=1.0))
    server.sabotage = boundless if trial.sabotage else None
    server.start()
    found = trial.found(posted=0, refused=0, asked=0, answered=0, resumed=0)
    for number in range(trial.count):
        if not post(server, number, found):
            break
    found.expect(found.figures["refused"] > 0, "the disk never became full; post more")
    for number in range(10):
        post(server, trial.count + number, found)
    ballast.unlink()
    for number in range(5):
        found.figures["resumed"] += post(server, 2 * trial.count + number, found)
    found.expect(found.figures["resumed"] == 5, "after room was made it does not go on")
    server.settle()
    found.expect(server.stop() == 0, "the service did not end in peace")
    compare(folder, [], found.figures["posted"], found)
    return found


def post(server: Server, number: int, found: Found) -> bool:
    """Post one large image and ask one question; tell whether the image was taken."""
    samples = stream(8)
    large = samples.images[number % 8].repeat(40, axis=0).repeat(40, axis=1) ^ noise(number)
    status, answer = server.learn(large, "a", f"sample-{number}")
    taken = status == 202
    found.figures["posted" if taken else "refused"] += 1
    found.expect(status in (202, 429, 507), f"sample {number}: {status} {str(answer)[:100]}")
    status, answer = server.predict(large)
    found.figures["asked"] += 1
    found.figures["answered"] += status in (200, 409)  # 409: before the first class
    found.expect(status in (200, 409), f"question {number}: {status} {str(answer)[:100]}")
    return taken


def noise(seed: int) -> NDArray[np.uint8]:
    """Return bytes that do not compress."""
    return np.random.default_rng(seed).integers(0, 256, (320, 320, 3), dtype=np.uint8)


def boundless() -> None:
    """The sabotage: no room is kept free, and a disk that is full counts as one that has failed."""
    put(Session, "_room", lambda session: None)
    put(Writer, "_explained", failed)


def failed(self: Writer, db: object, error: Exception) -> StorageFailed:
    """Give up for good."""
    self.failed = str(error)
    return StorageFailed(self.failed)
