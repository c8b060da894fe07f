"""Seals: SHA-256 hashes of what was prepared, which show whether anything has changed since.

The manifest holds the hash of every file of the cache and, at its end, its own. They are compared
when a data set is opened. To hash all images that stay encoded would take minutes: each of them has
its own hash, which is compared when it is read. The fingerprint of all images goes into the record
of a run.
"""

import errno
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earl.data.dataset import Images
from earl.data.parts import Hashes
from earl.storage.reading import open_regular, read_bounded

SAMPLE = 256  # images of a split that are hashed, where hashing all would take too long
LARGEST = 256 << 20  # bytes of a manifest; a million broken images have some 100 million
SLOW = ".blob"  # ending of files whose images have hashes of their own


def seal_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the size of every file of a folder, and its hash where that is quick enough."""
    return {file.name: seal_of(file) for file in sorted(folder.iterdir())}


def seal_of(file: Path) -> dict[str, Any]:
    size = {"bytes": file.stat().st_size}
    if file.suffix == SLOW:
        return size
    with open_regular(file, sys.maxsize) as opened:
        return size | {"sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def check_files(folder: Path, seals: Mapping[str, Any]) -> None:
    """Raise ValueError if a file is not what it was when it was sealed."""
    for name, seal in seals.items():
        if seal_of(folder / name) != seal:
            raise ValueError(f"{name} does not match its size and SHA-256")


def write_manifest(manifest: Mapping[str, Any]) -> bytes:
    """Return a manifest as JSON with its own hash."""
    return json.dumps(dict(manifest) | {"sha256": hash_manifest(manifest)}, indent=1).encode()


def read_manifest(file: Path) -> dict[str, Any]:
    """Return a manifest; ValueError if it does not match its own hash, or has none."""
    data = read_bounded(file, LARGEST)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    found = json.loads(data)
    if not isinstance(found, dict) or found.pop("sha256", "") != hash_manifest(found):
        raise ValueError(f"{file.name} does not match its SHA-256")
    return found


def hash_manifest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def fingerprint(train: Images | Hashes, test: Images | Hashes) -> str:
    """Return one SHA-256 of the pixels of both splits, or of the hashes of their encoded images.

    Of images that are neither in memory nor hashed, every n-th is taken.
    """
    sum_ = hashlib.sha256()
    for images in (train, test):
        if not isinstance(images, np.ndarray | Tensor):
            count = images.shape[0]
            images = images[torch.arange(0, count, max(1, count // SAMPLE))]
        sum_.update(np.ascontiguousarray(np.asarray(images)).data)
    return sum_.hexdigest()
