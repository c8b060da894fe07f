"""Preparing a split: every image is decoded once, before any training, and the broken ones named.

Threads take one part at a time: Pillow lets go of the interpreter while it decodes. Small images go
straight into one array on disk. Large ones are only checked, and are decoded again when they are
asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from earl.data.parts import (
    BYTES_OF_A_HASH,
    EncodedPart,
    Hashes,
    Part,
    check_rows,
    encoded_rows,
    hash_image,
)
from earl.data.source import Listing, Source
from earl.errors import InvalidSetting

LARGEST_DECODED = 64  # pixels: larger images are not kept decoded

Job = Callable[[], dict[int, str]]  # of a part: it returns which rows are broken, and why


@dataclass(frozen=True)
class Broken:
    """An image of a split that cannot be used."""

    row: int
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def decode_split(listing: Listing, size: int, target: Path, source: Source) -> list[Broken]:
    """Write all images of a split to one .npy file, uint8 (N, 3, size, size)."""
    shape = (len(listing), 3, size, size)
    open_memmap(target, mode="w+", dtype=np.uint8, shape=shape).flush()
    jobs = [partial(decode_part, part, target, start) for start, part in with_starts(listing)]
    return run(jobs, listing, source)


def decode_part(part: Part, target: Path, start: int) -> dict[int, str]:
    """Decode a part to its rows of a .npy file, which is mapped only meanwhile: it may be large."""
    array = open_memmap(target, mode="r+")
    return part.decode(array[start : start + len(part)])


def check_split(listing: Listing, source: Source) -> tuple[Hashes, list[Broken]]:
    """Return the hashes of all images of a split, and those that cannot be decoded."""
    hashes = np.zeros((len(listing), BYTES_OF_A_HASH), np.uint8)
    jobs = [
        partial(check_rows, encoded(part), hashes[start : start + len(part)])
        for start, part in with_starts(listing)
    ]
    return hashes, run(jobs, listing, source)


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


def run(jobs: Sequence[Job], listing: Listing, source: Source) -> list[Broken]:
    """Run one job per part in threads; return what is broken, in the order of the rows.

    A job reads its part when it begins, so that only one part per thread is in memory.
    """
    broken: list[Broken] = []
    pool = ThreadPoolExecutor(source.workers, thread_name_prefix="earl-prepare")
    try:
        results = pool.map(lambda job: job(), jobs)
        for (start, part), result in zip(with_starts(listing), results, strict=True):
            broken += [Broken(start + row, part.name(row), result[row]) for row in sorted(result)]
            source.progress("prepare", start + len(part), len(listing))
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, nothing else is begun
    return broken
