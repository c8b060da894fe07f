"""Embeddings: what a backbone made of the images of a data set, as `earl data embed` writes it.

A folder with the features of each split, float32 (N, features), their labels, perhaps their time
buckets, and a manifest with the hashes of these files, which are compared when it is opened.
"""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

from earl.data.dataset import Dataset, Split
from earl.data.prepared import SPLITS, mapped
from earl.data.seals import check_files, read_manifest, write_manifest
from earl.data.source import Source
from earl.errors import DataNotFound, EarlError
from earl.storage.files import write_dir_atomically

KIND = "earl embeddings 1"
MANIFEST = "manifest.json"


def load(source: Source) -> Dataset:
    """Load a folder of embeddings; in place of images there is float32 (N, features, 1, 1)."""
    folder = source.own()
    if not (folder / MANIFEST).is_file():
        raise DataNotFound(
            f"{folder} holds no embeddings; write some with: earl data embed DATASET --backbone "
            f"NAME -o {folder}"
        )
    try:
        manifest = read_manifest(folder / MANIFEST)
        if manifest.get("kind") != KIND:
            raise ValueError(f"it is of the kind {manifest.get('kind')!r}, not {KIND!r}")
        check_files(folder, manifest["files"])
        train, test = (read_split(folder, name) for name in SPLITS)
    except (ValueError, KeyError, OSError) as error:
        raise EarlError(
            f"{folder} is damaged or of another version ({error}); write it anew with: earl data "
            "embed"
        ) from None
    return Dataset(
        name=manifest["name"],
        train=train,
        test=test,
        class_names=tuple(manifest["class_names"]),
        mean=(),  # they are not images: nothing is normalised
        std=(),
        source=f"{manifest['name']}, encoded by {manifest['backbone']}",
        notes=tuple(manifest["notes"]),
        words=tuple(manifest["words"]),
    )


def read_split(folder: Path, name: str) -> Split:
    features = mapped(folder / f"{name}.features.npy")
    domains = folder / f"{name}.domains.npy"
    return Split(
        features[:, :, None, None],
        torch.from_numpy(np.load(folder / f"{name}.labels.npy")),
        torch.from_numpy(np.load(domains)) if domains.exists() else None,
    )


def write(folder: Path, dataset: Dataset, backbone: str) -> None:
    """Write a data set whose images have become embeddings; the folder must be new."""
    files: dict[str, bytes] = {}
    for name in SPLITS:
        split: Split = getattr(dataset, name)
        columns = {"features": split.images, "labels": split.labels, "domains": split.domains}
        for column, values in columns.items():
            if isinstance(values, torch.Tensor):
                rows = values.flatten(1) if column == "features" else values
                files[f"{name}.{column}.npy"] = as_npy(rows.numpy())
    facts: dict[str, Any] = {
        "kind": KIND,
        "name": dataset.name,
        "backbone": backbone,
        "of_images_sha256": dataset.images_sha256,
        "class_names": list(dataset.class_names),
        "words": list(dataset.words),
        "notes": list(dataset.notes),
        "files": {name: seal(data) for name, data in files.items()},
    }
    write_dir_atomically(folder, {**files, MANIFEST: write_manifest(facts)})


def as_npy(values: "np.ndarray[Any, Any]") -> bytes:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(values))
    return file.getvalue()


def seal(data: bytes) -> dict[str, Any]:
    """Return size and hash of a file as `check_files` compares them."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
