"""Preparing a split: every image is decoded once, before any training, and broken ones are named.

Each thread works on one part at a time; Pillow releases the interpreter lock while it decodes.
Small images are written to one array on disk. Large ones are only checked here, and are decoded
again when they are asked for.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

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


def write_split(
    folder: Path, split: str, listing: Listing, size: int, source: Source
) -> list[Broken]:
    """Write all files of a split; return the images that are broken."""
    images_file = folder / f"{split}.images.npy"
    if size <= LARGEST_DECODED:
        broken = decode_split(listing, size, images_file, source)
    elif listing.files:
        hashes, broken = check_split(listing, source)
    else:
        blob, offsets = folder / f"{split}.blob", folder / f"{split}.offsets.npy"
        hashes, broken = store_encoded(listing, blob, offsets, source)
    keep = np.ones(len(listing), dtype=bool)
    keep[[b.row for b in broken]] = False
    if size > LARGEST_DECODED:
        np.save(folder / f"{split}.hashes.npy", hashes[keep])
    if broken and images_file.exists():
        drop_rows(images_file, keep)
    if broken and (folder / f"{split}.offsets.npy").exists():
        drop_empty(folder / f"{split}.offsets.npy", keep)
    np.save(folder / f"{split}.labels.npy", listing.labels[keep])
    if listing.domains is not None:
        np.save(folder / f"{split}.domains.npy", listing.domains[keep])
    if listing.files:
        kept = [name for name, k in zip(listing.files, keep.tolist(), strict=True) if k]
        text = json.dumps(kept)  # ASCII, so that a name that is not valid Unicode survives
        (folder / f"{split}.files.json").write_text(text, encoding="ascii")
    return broken


def drop_rows(file: Path, keep: NDArray[np.bool_]) -> None:
    """Rewrite an array without the rows of broken images."""
    old = np.load(file, mmap_mode="r")
    rows = keep.nonzero()[0]
    shape = (len(rows), *old.shape[1:])
    new = open_memmap(file.with_suffix(".new"), "w+", old.dtype, shape)
    for start in range(0, len(rows), 1000):
        new[start : start + 1000] = old[rows[start : start + 1000]]
    new.flush()
    file.with_suffix(".new").replace(file)


def drop_empty(file: Path, keep: NDArray[np.bool_]) -> None:
    """Rewrite the offsets of encoded images without the broken ones, whose length is 0."""
    ends = np.load(file)
    np.save(file, np.concatenate([ends[:1], ends[1:][keep]]))


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
    """Write the encoded images of a split one after the other; return hashes and broken ones.

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
