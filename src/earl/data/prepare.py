"""Preparing a split: every image is decoded once, before any training, and the broken ones named.

Small images are decoded by several processes straight into one array on disk, of which this one
works while the others are still starting; threads would take turns at the interpreter and be
slower than one. Large ones are only checked, by threads, and are decoded again when they are asked
for.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from earl.data.decoders import Decoders, Decoding, Job, Pool
from earl.data.parts import (
    BYTES_OF_A_HASH,
    EncodedPart,
    Hashes,
    Part,
    check_rows,
    encoded_rows,
    hash_image,
)
from earl.data.source import Contents, Listing, Source
from earl.errors import InvalidSetting

LARGEST_DECODED = 64  # pixels: larger images are not kept decoded
WORTH_PROCESSES = 5_000  # images: fewer are decoded before other processes have started

Jobs = Sequence[Job]  # one per part


@dataclass(frozen=True)
class Broken:
    """An image of a split that cannot be used."""

    row: int
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def decode_split(
    listing: Listing, size: int, target: Path, source: Source, pool: Pool | None
) -> list[Broken]:
    """Write all images of a split to one .npy file, uint8 (N, 3, size, size)."""
    shape = (len(listing), 3, size, size)
    array = open_memmap(target, mode="w+", dtype=np.uint8, shape=shape)
    array.flush()
    del array  # every job maps it for itself
    jobs = [Decoding(part, str(target), start) for start, part in with_starts(listing)]
    return run(jobs, listing, pool, source)


def check_split(listing: Listing, source: Source) -> tuple[Hashes, list[Broken]]:
    """Return the hashes of all images of a split, and those that cannot be decoded."""
    hashes = np.zeros((len(listing), BYTES_OF_A_HASH), np.uint8)
    jobs: Jobs = [
        partial(check_rows, encoded(part), hashes[start : start + len(part)])
        for start, part in with_starts(listing)
    ]
    with ThreadPoolExecutor(max(1, source.workers - 1)) as pool:  # this thread works as well
        return hashes, run(jobs, listing, pool, source)


def store_encoded(
    listing: Listing, blob: Path, offsets: Path, source: Source
) -> tuple[Hashes, list[Broken]]:
    """Write the encoded images of a split one behind the other; return hashes and broken ones.

    The offsets say where each image ends.
    """
    hashes = np.zeros((len(listing), BYTES_OF_A_HASH), np.uint8)
    ends, broken, size = [0], [], 0
    with blob.open("wb") as file:
        for start, part in with_starts(listing):
            for row, (data, why) in enumerate(encoded_rows(encoded(part))):
                hashes[start + row] = np.frombuffer(hash_image(data), np.uint8)
                size += file.write(data)
                ends.append(size)
                if why:
                    broken.append(Broken(start + row, part.name(row), why))
            source.progress("prepare", start + len(part), len(listing))
    np.save(offsets, np.array(ends, np.int64))
    return hashes, broken


def encoded(part: Part) -> EncodedPart:
    if not isinstance(part, EncodedPart):
        raise InvalidSetting(
            f"this data set comes as decoded images; image_size may be at most {LARGEST_DECODED}"
        )
    return part


def with_starts(listing: Listing) -> Iterator[tuple[int, Part]]:
    """Yield each part with the number of the images before it."""
    start = 0
    for part in listing.parts:
        yield start, part
        start += len(part)


@contextmanager
def processes(contents: Contents, size: int, source: Source) -> Iterator[Pool | None]:
    """Give a pool of processes that decode beside this one, or None where it would not pay."""
    many = len(contents.train) + len(contents.test) >= WORTH_PROCESSES
    slow = size <= LARGEST_DECODED and isinstance(contents.train.parts[0], EncodedPart)
    if source.workers < 2 or not (many and slow):
        yield None
        return
    with Decoders(source.workers - 1) as pool:
        yield pool if len(pool) else None


def run(jobs: Jobs, listing: Listing, pool: Pool | None, source: Source) -> list[Broken]:
    """Run one job per part and collect what is broken, in the order of the rows."""
    parts = list(with_starts(listing))
    broken, done = [], 0
    for number, result in finished(jobs, pool, source.workers - 1):
        start, part = parts[number]
        broken += [Broken(start + row, part.name(row), why) for row, why in result.items()]
        done += len(part)
        source.progress("prepare", done, len(listing))
    return sorted(broken, key=lambda b: b.row)


def finished(jobs: Jobs, pool: Pool | None, workers: int) -> Iterator[tuple[int, dict[int, str]]]:
    """Yield the number and the result of each job as they end; this process works with the pool.

    The pool has two jobs per worker at a time: it never waits, and leaves the others to this one.
    """
    waiting = deque(enumerate(jobs))
    begun: deque[tuple[int, Future[dict[int, str]]]] = deque()
    while waiting or begun:
        while pool is not None and waiting and len(begun) < 2 * workers:
            number, job = waiting.popleft()
            begun.append((number, pool.submit(job)))
        if waiting:
            number, job = waiting.popleft()
            yield number, job()
        while begun and (begun[0][1].done() or not waiting):
            number, future = begun.popleft()
            yield number, future.result()
