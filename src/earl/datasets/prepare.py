"""Preparing a split: every image is decoded once, before any training, and the broken ones named.

Small images are decoded by several processes straight into one array on disk; threads would take
turns at the interpreter and be slower than one. Large ones are only checked, by threads, and are
decoded again when they are asked for.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from earl.datasets.parts import EncodedPart, Part, check_rows, encoded_rows
from earl.datasets.source import Listing, Source
from earl.errors import InvalidSetting

LARGEST_DECODED = 64  # pixels: larger images are not kept decoded
WORTH_PROCESSES = 20_000  # images: fewer are decoded before the processes have started

Jobs = list[Callable[[], dict[int, str]]]  # one per part: which rows are broken, and why


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
    array = open_memmap(target, mode="w+", dtype=np.uint8, shape=shape)
    array.flush()
    del array  # every worker maps it for itself
    slow = len(listing) >= WORTH_PROCESSES and isinstance(listing.parts[0], EncodedPart)
    workers = source.workers if slow else 1
    jobs: Jobs = [
        partial(decode_part, part, size, str(target), start) for start, part in with_starts(listing)
    ]
    try:
        with processes(workers) as pool:
            return run(jobs, listing, pool, source)
    except BrokenProcessPool:  # a script without the usual `if __name__ == "__main__"`, say
        return run(jobs, listing, None, source)


def decode_part(part: Part, size: int, target: str, start: int) -> dict[int, str]:
    """Write the images of a part to their rows of a .npy file; return why some are broken."""
    array = open_memmap(target, mode="r+")
    decoded = part.decode(size)
    array[start : start + len(part)] = decoded.pixels
    array.flush()
    return decoded.broken


def check_split(listing: Listing, source: Source) -> list[Broken]:
    """Find the images of a split that cannot be decoded, and keep none of them."""
    jobs: Jobs = [partial(check_rows, encoded(part)) for part in listing.parts]
    with ThreadPoolExecutor(source.workers) as pool:
        return run(jobs, listing, pool, source)


def store_encoded(listing: Listing, blob: Path, offsets: Path, source: Source) -> list[Broken]:
    """Write the encoded images of a split one behind the other, and where each of them ends."""
    ends, broken, size = [0], [], 0
    with blob.open("wb") as file:
        for start, part in with_starts(listing):
            for row, (data, why) in enumerate(encoded_rows(encoded(part))):
                size += file.write(data)
                ends.append(size)
                if why:
                    broken.append(Broken(start + row, part.name(row), why))
            source.progress("prepare", start + len(part), len(listing))
    np.save(offsets, np.array(ends, np.int64))
    return broken


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
def processes(workers: int) -> Iterator[Executor | None]:
    """Give a pool of processes, or None if there is to be one worker only."""
    if workers < 2:
        yield None
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def run(jobs: Jobs, listing: Listing, pool: Executor | None, source: Source) -> list[Broken]:
    """Run one job per part, in a pool or right here, and collect what is broken."""
    futures = [pool.submit(job) for job in jobs] if pool is not None else []
    results = (future.result() for future in futures) if futures else (job() for job in jobs)
    broken = []
    for (start, part), result in zip(with_starts(listing), results, strict=True):
        broken += [Broken(start + row, part.name(row), why) for row, why in result.items()]
        source.progress("prepare", start + len(part), len(listing))
    return broken
