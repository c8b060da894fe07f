"""The cache: data sets that were prepared once, each in a folder that is complete or missing.

manifest.json      where it came from, class names, mean and std, how many images, which were
                   broken, and the hashes of all files (`seals`)
train.labels.npy   class ids; likewise test, and .domains.npy for time buckets
train.images.npy   decoded images, uint8 (N, 3, H, W), up to 64 pixels; larger ones stay encoded:
train.files.json   as files, or, where they came from tables, in train.blob and train.offsets.npy;
train.hashes.npy   the hash of each
"""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from earl.data import decode as images
from earl.data import seals
from earl.data.dataset import Dataset, Images
from earl.data.parts import EncodedPart
from earl.data.prepare import Broken, write_split
from earl.data.prepared import SPLITS, content_of, images_of, read
from earl.data.source import Contents, Found, Listing, Source
from earl.errors import BrokenImage, DataNotFound, EarlError
from earl.storage import wall_clock
from earl.storage.files import entries, fsync_dir, make_directory, remove, write_file
from earl.storage.printable import printable
from earl.storage.reading import read_bounded

FORMAT = 2
STALE = 24 * 3600  # seconds after which an unfinished folder is garbage
NAMED = 5  # broken images that an error names
SAMPLE = 2000  # training images from which mean and std are computed
DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError, EarlError)


def open_dataset(
    found: Found,
    source: Source,
    *,
    size: int = 0,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
) -> Dataset:
    """Return a data set from the cache, after preparing it if it has changed or is not there."""
    entry = entry_path(found, source, size)
    damage = ""
    try:
        dataset = read(entry, found, source, mean, std)
        if source.skip_broken or not dataset.skipped:
            return dataset
    except FileNotFoundError as error:
        damage = f"{Path(error.filename).name} is missing" if entry.exists() else ""
    except DAMAGED as error:  # it can be prepared again
        damage = str(error)
    remove(entry)
    build(entry, found, source, source.image_size or size)
    try:
        dataset = read(entry, found, source, mean, std, check=False)  # it has just been hashed
    except DAMAGED as error:
        raise EarlError(
            f"{entry} does not keep what is written ({error}); pass another --cache-root"
        ) from None
    note = f"the prepared copy was damaged and was made anew: {damage}"
    return replace(dataset, notes=(*dataset.notes, note)) if damage else dataset


def entry_path(found: Found, source: Source, size: int = 0) -> Path:
    """Return the folder of the cache for a data set as it is now."""
    identity = (FORMAT, found.layout, source.image_size or size, found.fingerprint())
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return source.cache / f"{found.name}-{key[:16]}"


def read_manifest(entry: Path) -> dict[str, Any] | None:
    """Return what is known about a prepared data set, or None if there is none."""
    try:
        manifest = seals.read_manifest(entry / "manifest.json")
        return manifest if manifest["format"] == FORMAT else None
    except (OSError, *DAMAGED):
        return None


def build(entry: Path, found: Found, source: Source, size: int) -> None:
    """Prepare a data set in a temporary folder, then rename the folder."""
    contents = found.contents()
    check_classes(contents, found)
    size = size or fitting_size(contents.train)
    make_directory(source.cache)
    for old in entries(source.cache, ".tmp-"):
        if wall_clock.now().timestamp() - old.stat().st_mtime > STALE:
            remove(old)
    folder = source.cache / f".tmp-{entry.name}-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        broken = {s: write_split(folder, s, getattr(contents, s), size, source) for s in SPLITS}
        check_broken(broken, contents, source)
        manifest = describe(folder, found, contents, size, broken, source)
        write_file(folder / "manifest.json", seals.write_manifest(manifest))
        for file in folder.iterdir():
            flush(file)
        fsync_dir(folder)
        with contextlib.suppress(FileExistsError, OSError):  # another process was faster
            folder.rename(entry)
        fsync_dir(source.cache)
        remove_outdated(entry, manifest)
    finally:
        remove(folder)
    if read_manifest(entry) is None:
        raise EarlError(f"{entry} could not be written; pass another --cache-root")


def check_classes(contents: Contents, found: Found) -> None:
    """Stop if there is only one class: every answer would be right."""
    taught = np.unique(contents.train.labels)
    if len(taught) < 2:
        raise DataNotFound(
            f"{found.path} ({found.layout}) holds training images of 1 class only: "
            f"{contents.class_names[int(taught[0])]}; at least 2 classes are needed"
        )


def remove_outdated(entry: Path, manifest: dict[str, Any]) -> None:
    """Remove what was prepared from the same place before its files, or the format, changed."""
    for other in entries(entry.parent, f"{manifest['name']}-"):
        try:
            old = json.loads(read_bounded(other / "manifest.json", seals.LARGEST) or b"{}")
        except (EarlError, ValueError, RecursionError):
            continue
        same = isinstance(old, dict) and other != entry
        if same and all(old.get(k) == manifest[k] for k in ("source", "layout", "image")):
            remove(other)


def check_broken(broken: dict[str, list[Broken]], contents: Contents, source: Source) -> None:
    """Stop with the names of broken images, unless they are to be skipped."""
    found = [b for split in SPLITS for b in broken[split]]
    total = len(contents.train) + len(contents.test)
    if found and not source.skip_broken:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise BrokenImage(
            f"{len(found)} of {total} images cannot be used: "
            f"{'; '.join(map(str, found[:NAMED]))}{more}. Repair or remove them, or leave them "
            "out with --skip-broken"
        )
    for split in SPLITS:
        if len(broken[split]) == len(getattr(contents, split)):
            raise BrokenImage(f"no {split} image can be read; the first one is {broken[split][0]}")


def describe(
    folder: Path,
    found: Found,
    contents: Contents,
    size: int,
    broken: dict[str, list[Broken]],
    source: Source,
) -> dict[str, Any]:
    """Return the manifest."""
    splits = {
        split: {
            "images": len(getattr(contents, split)) - len(broken[split]),
            "skipped": [printable(str(b)) for b in broken[split]],
        }
        for split in SPLITS
    }
    train = images_of(folder, "train", found, size, source.workers)
    mean, std = mean_and_std(train)
    content = {split: content_of(folder, split) for split in SPLITS}
    with ThreadPoolExecutor(1) as pool:  # both read all pixels
        images_sha256 = pool.submit(seals.fingerprint, **content)
        files = seals.seal_files(folder)
    return {
        "format": FORMAT,
        "name": found.name,
        "source": str(found.path),
        "layout": found.layout,
        "fingerprint": found.fingerprint(),
        "image": [3, size, size],
        "class_names": [printable(name) for name in contents.class_names],
        "mean": mean,
        "std": std,
        "notes": [printable(note) for note in contents.notes],
        "splits": splits,
        "images_sha256": images_sha256.result(),
        "files": files,
    }


def mean_and_std(train: Images) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of the channels over a fixed sample of the images."""
    count = train.shape[0]
    step = max(1, count // SAMPLE)
    total = torch.zeros(2, 3, dtype=torch.float64)
    rows = torch.arange(0, count, step)
    for index in rows.split(16):
        x = train[index].double() / 255
        total += torch.stack([x.mean((2, 3)).sum(0), x.square().mean((2, 3)).sum(0)])
    mean, square = total / len(rows)
    std = (square - mean.square()).clamp(min=1e-6).sqrt()
    return [round(v, 4) for v in mean.tolist()], [round(v, 4) for v in std.tolist()]


def fitting_size(train: Listing) -> int:
    """Return the side for images of any size: 32, 64 or 224, by the median of a sample."""
    sides = []
    for part in train.parts[:: max(1, len(train.parts) // 20)]:
        if isinstance(part, EncodedPart):
            load = part.loader()
            for row in range(0, len(part), max(1, len(part) // 10)):
                with contextlib.suppress(BrokenImage):  # named later
                    sides.append(images.side(load(row)))
    median = sorted(sides)[len(sides) // 2] if sides else 32
    return 32 if median <= 48 else 64 if median <= 96 else 224


def flush(file: Path) -> None:
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def cached_entries(cache: Path, name: str) -> Sequence[Path]:
    """Return the folders of the cache that hold a data set of this name."""
    return [e for e in entries(cache, f"{name}-") if read_manifest(e) is not None]
