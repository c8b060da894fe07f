"""Reading what the cache holds: images mapped from it, or decoded when they are asked for."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earl.data.dataset import Dataset, Images, Split
from earl.data.lazy import of_blob, of_files
from earl.data.parts import Hashes
from earl.data.seals import check_files, read_manifest
from earl.data.source import Found, Labels, Source

SPLITS = ("train", "test")


def read(
    entry: Path,
    found: Found,
    source: Source,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    *,
    check: bool = True,
) -> Dataset:
    """Return a prepared data set; ValueError says what is damaged, if its hashes are compared."""
    manifest = read_manifest(entry / "manifest.json")
    if check:
        check_files(entry, manifest["files"])
    size = manifest["image"][-1]

    def split(name: str) -> Split:
        labels = np.load(entry / f"{name}.labels.npy")
        domains = entry / f"{name}.domains.npy"
        files = read_files(entry, name)
        return Split(
            images_of(entry, name, found, size, source.workers),
            torch.from_numpy(labels),
            torch.from_numpy(np.load(domains)) if domains.exists() else None,
            tuple(stem(file) for file in files) if files else None,
        )

    return Dataset(
        name=found.name,
        train=split("train"),
        test=split("test"),
        class_names=tuple(manifest["class_names"]),
        mean=source.mean or mean or tuple(manifest["mean"]),
        std=source.std or std or tuple(manifest["std"]),
        source=f"{found.path} ({found.layout})",
        skipped=tuple(skipped(manifest)),
        notes=tuple(manifest["notes"]),
        words=words_of(manifest["class_names"], found),
        images_sha256=manifest["images_sha256"],
    )


def words_of(names: list[str], found: Found) -> tuple[str, ...]:
    """Return the words of each class name, or () if there are none for any."""
    known = found.words()
    words = tuple(known.get(name, "") for name in names)
    return words if any(words) else ()


def skipped(manifest: dict[str, Any]) -> list[str]:
    return [name for split in SPLITS for name in manifest["splits"][split]["skipped"]]


def images_of(entry: Path, split: str, found: Found, size: int, workers: int) -> Images:
    """Return the images of a prepared split: mapped from the cache, or read when asked for."""
    if (entry / f"{split}.images.npy").exists():
        return mapped(entry / f"{split}.images.npy")
    hashes = hashes_of(entry, split)
    if (entry / f"{split}.blob").exists():
        offsets: Labels = np.load(entry / f"{split}.offsets.npy")
        return of_blob(entry / f"{split}.blob", offsets, hashes, size, workers)
    return of_files(found.path, read_files(entry, split), hashes, size, workers)


def hashes_of(entry: Path, split: str) -> Hashes:
    """Return the hashes of images that stay encoded."""
    hashes: Hashes = np.load(entry / f"{split}.hashes.npy")
    return hashes


def content_of(entry: Path, split: str) -> Tensor | Hashes:
    """Return what the fingerprint is made of: all pixels, or the hashes of encoded images."""
    decoded = entry / f"{split}.images.npy"
    return mapped(decoded) if decoded.exists() else hashes_of(entry, split)


def mapped(file: Path) -> Tensor:
    """Return a .npy file as a tensor whose pages are read when they are touched."""
    return torch.from_numpy(np.load(file, mmap_mode="c"))  # torch warns of read-only memory


def read_files(entry: Path, split: str) -> tuple[str, ...]:
    file = entry / f"{split}.files.json"
    return tuple(json.loads(file.read_bytes())) if file.exists() else ()


def stem(path: str) -> str:
    """Return a file's name without folder and ending."""
    return os.path.splitext(path.rpartition("/")[2])[0]  # noqa: PTH122 (a million times)
