"""What a service may need at most, computed before it starts: memory and disk, item by item."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from earl.errors import TooLarge
from earl.estimator.parameters import IMAGE_SIZE, Parameters
from earl.estimator.rehearsal import Needs, needs_of
from earl.nn.room import readable, room
from earl.service.events import BEHIND
from earl.service.gauge import AT_ONCE as GAUGED
from earl.service.heap import give_back
from earl.service.images import LARGE
from earl.service.journal import AT_ONCE, CONNECTIONS, NAME, PAGES, WAL_LIMIT
from earl.service.limits import MOST_IMAGES, THREADS, Limits
from earl.storage.snapshot import PIECE

CLASSES = 1000  # that are taken for granted where nothing bounds them
ASKED_AT_A_TIME = THREADS["ask"]
# The model that is asked and the one that is being made, those that questions still hold, and one
# whose samples are measured.
PUBLISHED = 3 + ASKED_AT_A_TIME
BYTES_OF_A_PIXEL = 16  # while an image is decoded, at most (WebP)
COPIES_OF_A_BODY = 2  # as it came, and what is made of it; twice more while it is parsed
BYTES_OF_A_CONNECTION = 128 << 10  # buffers of the socket and of the parser
BYTES_OF_AN_EVENT = 1 << 10
BYTES_OF_A_KEY, BYTES_OF_A_LABEL = 400, 1000  # in dicts of Python
BYTES_OF_A_ROW = 2000  # of an operation that waits, or whose outcome is not on the disk yet
BYTES_OF_AN_ANSWER = 2 << 20  # 64 images with their hundred likeliest classes
LOADED_LATER = 32 << 20  # by the first training step and the first requests
SPARE = 8  # an eighth of all but the program: free pieces that the heap cannot give back
SNAPSHOTS = 3  # two are kept, and one is being written
READ_TWICE = 2  # a snapshot that is read is there as bytes and as tensors


@dataclass(frozen=True)
class Item:
    """Something that takes bytes."""

    name: str
    bytes: int
    hint: str  # where it comes from, or what makes it smaller


@dataclass(frozen=True)
class Bounds:
    """What a service needs at most: resident memory, and its folder on the disk."""

    classes: int
    assumed: bool  # whether nothing but this assumption bounds the classes
    memory: Sequence[Item]
    disk: Sequence[Item]

    @property
    def most_memory(self) -> int:
        return sum(item.bytes for item in self.memory)

    @property
    def most_disk(self) -> int:
        return sum(item.bytes for item in self.disk)

    def line(self) -> str:
        """Return both sums as one line."""
        known = f"{self.classes:,} classes" + (" (assumed)" if self.assumed else "")
        memory, disk = readable(self.most_memory), readable(self.most_disk)
        return f"At most {memory} of memory and {disk} of disk, with {known}"

    def check(self, most: int | None) -> None:
        """Raise TooLarge if more memory may be needed than so many bytes."""
        if most is None or self.most_memory <= most:
            return
        largest = sorted(self.memory, key=lambda item: -item.bytes)[:3]
        named = ", ".join(f"{item.name} {readable(item.bytes)} ({item.hint})" for item in largest)
        raise TooLarge(
            f"this service may need {readable(self.most_memory)} of memory, and {readable(most)} "
            f"are allowed; the largest items: {named}. See all with --check"
        )


def bounds_of(
    parameters: Mapping[str, Any], limits: Limits, *, known: int = 0, replica: bool = False
) -> Bounds:
    """Return what a service with such a model and such limits needs at most.

    `known` classes were taught already. The model is not made in full, but rehearsed in small.
    """
    wanted = Parameters(**parameters)
    check_images(wanted, limits)
    program = of_program()  # before the rehearsal, whose heap is not the program's
    classes = wanted.max_classes or max(CLASSES, known)
    needs = needs_of(wanted, classes)
    give_back()
    assumed = wanted.max_classes is None and needs.classes == classes
    own = of_replica(needs) if replica else of_model(needs)
    items = [*own, *of_requests(needs, limits), *of_lists(needs, wanted.memory_size, limits)]
    spare = Item("heap", sum(i.bytes for i in items) // SPARE, "free pieces between others")
    disk = () if replica else of_disk(needs, limits)
    return Bounds(needs.classes, assumed, (program, *items, spare), disk)


def check_images(parameters: Parameters, limits: Limits) -> None:
    """Raise TooLarge if a batch of images alone is too large, before one is made."""
    side, batch = parameters.image_size or IMAGE_SIZE, int(parameters.of("setting")["batch_size"])
    least, most = 3 * 4 * batch * side**2, limits.memory or room()
    if most is not None and least > most:
        raise TooLarge(
            f"a batch of {batch:,} images of {side:,} pixels a side takes {readable(least)} of "
            f"memory, and {readable(most)} are allowed; choose a smaller --image-size or batch_size"
        )


def of_program() -> Item:
    """Return what the program itself takes, with what the first training step would import."""
    import_module("torch._dynamo")
    return Item("program", resident() + LOADED_LATER, "Python, torch and other libraries")


def resident() -> int:
    """Return the bytes that this process holds in memory."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 400 << 20  # as measured on Linux


def of_model(needs: Needs) -> list[Item]:
    """Return what a model takes that learns and is asked meanwhile."""
    held = needs.network + needs.learning + needs.memory
    copies, saved = PUBLISHED * needs.copy, needs.state + PIECE
    reading = READ_TWICE * needs.state - copies - saved - needs.step  # at the start, without these
    return [
        Item("weights", needs.network, "--backbone, --set depth=, width=, hidden=, d="),
        Item("training", held - needs.network - needs.memory, "gradients, moments; as weights"),
        Item("memory", needs.memory, "--memory-size, --image-size"),
        Item("step", needs.step, "--set batch_size=, --image-size"),
        Item("answering", copies, f"{PUBLISHED} copies of the model"),
        Item("snapshot", saved + max(0, reading), "the state while it is written or read"),
    ]


def of_replica(needs: Needs) -> list[Item]:
    """Return what a model takes that is read anew from time to time, and asked meanwhile."""
    models = PUBLISHED - 1  # nothing is measured
    return [
        Item("answering", models * (needs.state + needs.copy), f"{models} models"),
        Item("snapshot", READ_TWICE * needs.state, "the state while it is read"),
    ]


def of_requests(needs: Needs, limits: Limits) -> list[Item]:
    """Return what requests take, and the images that they bring."""
    asked = MOST_IMAGES * ASKED_AT_A_TIME
    pixels = limits.images.most_pixels + (ASKED_AT_A_TIME + THREADS["decode"]) * LARGE
    small = 3 * needs.side**2 * asked
    ahead = AT_ONCE + limits.images.most_bytes
    bodies = COPIES_OF_A_BODY * (limits.in_flight + limits.batch_body)
    passes = (asked + GAUGED + 1) * needs.answer + ASKED_AT_A_TIME * needs.seeing
    sockets = limits.connections * BYTES_OF_A_CONNECTION
    events = limits.listeners * BEHIND * BYTES_OF_AN_EVENT
    return [
        Item("questions", passes, "passes of images; --backbone, --image-size"),
        Item("requests", bodies + 8 * BYTES_OF_AN_ANSWER, "as they come, and their answers"),
        Item("images", pixels * BYTES_OF_A_PIXEL + small + ahead, "while they are decoded"),
        Item("connections", sockets + events, "and listeners to events"),
    ]


def of_lists(needs: Needs, memory_size: int, limits: Limits) -> list[Item]:
    """Return what keys, labels and waiting operations take, and the cache of SQLite."""
    keys = (2 * memory_size + 64) * BYTES_OF_A_KEY
    labels = needs.classes * BYTES_OF_A_LABEL
    waiting = limits.waiting * BYTES_OF_A_ROW
    return [
        Item("lists", (1 + PUBLISHED) * (keys + labels) + waiting, "keys, labels, what waits"),
        Item("SQLite", CONNECTIONS * PAGES + limits.images.most_bytes, "pages of the journal"),
    ]


def of_disk(needs: Needs, limits: Limits) -> list[Item]:
    """Return what a service writes to its folder."""
    log = WAL_LIMIT + 2 * limits.in_flight  # after a transaction; one holds what was in flight
    return [
        Item("journal", limits.journal, "--journal-gib; --retention keeps it shorter"),
        Item("log", log, "of SQLite, before it moves into the journal"),
        Item("snapshots", SNAPSHOTS * (needs.state + PIECE), f"{SNAPSHOTS} states"),
    ]


def disk_short(folder: Path, bounds: Bounds, limits: Limits) -> str | None:
    """Return how much the disk of a folder is short of what a service may write, or None.

    It starts all the same: samples are refused before the disk is full.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    have = shutil.disk_usage(there).free + used - limits.free
    if have >= bounds.most_disk:
        return None
    return (
        f"the disk has room for {readable(max(0, have))} of the {readable(bounds.most_disk)} that "
        f"{NAME} and snapshots may take; samples will be refused (507) before it is full"
    )
