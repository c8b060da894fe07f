"""CIFAR-10 and CIFAR-100: 32-pixel images in their authors' two formats, as tables or as files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from earl.data import decode as images
from earl.data.cache import open_dataset
from earl.data.dataset import Dataset
from earl.data.decode import Pixels
from earl.data.parts import Part
from earl.data.sets import cifar_pickle
from earl.data.sets.folder import find_folder
from earl.data.sets.parquet import find_parquet
from earl.data.source import (
    Contents,
    Found,
    Labels,
    Layout,
    Listing,
    Source,
    fingerprint,
    locate,
)
from earl.errors import DataNotFound, InvalidInput
from earl.storage.reading import read_text

PIXELS = 3 * 32 * 32
RECORDS_IN_A_PART = 10_000
LARGEST_NAMES = 1 << 20  # bytes of the file that names the classes


@dataclass(frozen=True)
class Version:
    """What differs between CIFAR-10 and CIFAR-100."""

    name: str
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    binary: str
    binary_train: tuple[str, ...]
    binary_test: str
    binary_names: str
    label_bytes: int  # before the pixels of a record; the last of them is the class
    python: str
    python_train: tuple[str, ...]
    python_test: str
    python_names: tuple[str, str]  # file and key
    python_labels: str


CIFAR10 = Version(
    name="cifar10",
    classes=10,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
    binary="cifar-10-batches-bin",
    binary_train=tuple(f"data_batch_{n}.bin" for n in range(1, 6)),
    binary_test="test_batch.bin",
    binary_names="batches.meta.txt",
    label_bytes=1,
    python="cifar-10-batches-py",
    python_train=tuple(f"data_batch_{n}" for n in range(1, 6)),
    python_test="test_batch",
    python_names=("batches.meta", "label_names"),
    python_labels="labels",
)
CIFAR100 = Version(
    name="cifar100",
    classes=100,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
    binary="cifar-100-binary",
    binary_train=("train.bin",),
    binary_test="test.bin",
    binary_names="fine_label_names.txt",
    label_bytes=2,
    python="cifar-100-python",
    python_train=("train",),
    python_test="test",
    python_names=("meta", "fine_label_names"),
    python_labels="fine_labels",
)


def cifar10(source: Source) -> Dataset:
    """Load CIFAR-10: 50 000 + 10 000 images of 10 classes."""
    return load(CIFAR10, source)


def cifar100(source: Source) -> Dataset:
    """Load CIFAR-100: 50 000 + 10 000 images of 100 classes."""
    return load(CIFAR100, source)


def load(version: Version, source: Source) -> Dataset:
    found = find(version, source)
    return open_dataset(found, source, size=32, mean=version.mean, std=version.std)


def find10(source: Source) -> Found:
    """Find CIFAR-10."""
    return find(CIFAR10, source)


def find100(source: Source) -> Found:
    """Find CIFAR-100."""
    return find(CIFAR100, source)


def find(version: Version, source: Source) -> Found:
    """Find a CIFAR in the data root, in whatever layout."""
    name, root = version.name, source.root
    layouts = [
        Layout(f"{version.binary}/", lambda folder: find_binary(version, folder)),
        Layout(f"{version.python}/", lambda folder: find_python(version, folder)),
        Layout(
            f"{name}/train-*.parquet",
            lambda folder: find_parquet(name, folder, source) if folder.name == name else None,
        ),
        Layout(
            f"{name}/train/<class>/<image>",
            lambda folder: find_folder(name, folder, source) if folder.name == name else None,
        ),
    ]
    get = f"Get it with: earl data download {name}"
    return locate(name, root, ("", name), layouts, get)


def find_binary(version: Version, folder: Path) -> Found | None:
    """Find the authors' binary version: records of label bytes and pixels, red plane first."""
    train = [folder / version.binary / name for name in version.binary_train]
    test, names = (folder / version.binary / n for n in (version.binary_test, version.binary_names))
    if not (folder / version.binary).is_dir():
        return None
    files = present([*train, test, names])

    def contents() -> Contents:
        found = read_text(names, LARGEST_NAMES).split()
        labels = len(found), version.classes
        if labels[0] != labels[1]:
            raise InvalidInput(f"{names} names {labels[0]} classes; {labels[1]} are expected")
        return described(
            tuple(found),
            read_records(version, train),
            read_records(version, [test]),
        )

    return Found(
        version.name, "binary", folder / version.binary, lambda: fingerprint(files), contents
    )


@dataclass(frozen=True)
class Records:
    """Consecutive records of a file of the binary version."""

    file: str
    label_bytes: int
    first: int
    count: int

    def __len__(self) -> int:
        return self.count

    def name(self, row: int) -> str:
        return f"{self.file}, record {self.first + row}"

    def rows(self) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
        """Return the raw records, (count, label_bytes + 3072)."""
        width = self.label_bytes + PIXELS
        raw = np.fromfile(self.file, np.uint8, self.count * width, offset=self.first * width)
        if len(raw) != self.count * width:
            raise InvalidInput(f"{self.file} became shorter while it was read")
        return raw.reshape(self.count, width)

    def decode(self, into: Pixels) -> dict[int, str]:
        pixels = self.rows()[:, self.label_bytes :].reshape(-1, 3, 32, 32)
        into[:] = images.resize(pixels, into.shape[-1])
        return {}


def read_records(version: Version, files: list[Path]) -> Listing:
    """Return the records of some files, whose labels are checked."""
    width = version.label_bytes + PIXELS
    parts: list[Records] = []
    for file in files:
        size = file.stat().st_size
        if not size or size % width:
            raise InvalidInput(
                f"{file} has {size:,} bytes, which is no number of whole records of {width} bytes; "
                f"get it again with: earl data download {version.name}"
            )
        for first in range(0, size // width, RECORDS_IN_A_PART):
            count = min(RECORDS_IN_A_PART, size // width - first)
            parts.append(Records(str(file), version.label_bytes, first, count))
    labels = [part.rows()[:, version.label_bytes - 1].astype(np.int64) for part in parts]
    return Listing(parts, checked(np.concatenate(labels), version, files[0]))


def find_python(version: Version, folder: Path) -> Found | None:
    """Find the authors' python version."""
    base = folder / version.python
    if not base.is_dir():
        return None
    train = [base / name for name in version.python_train]
    file, key = base / version.python_names[0], version.python_names[1]
    files = present([*train, base / version.python_test, file])

    def contents() -> Contents:
        names = cifar_pickle.class_names(cifar_pickle.read_batch(file), key, file)
        if len(names) != version.classes:
            raise InvalidInput(f"{file} names {len(names)} classes, not {version.classes}")
        return described(
            names, read_pickles(version, train), read_pickles(version, [base / version.python_test])
        )

    return Found(version.name, "python", base, lambda: fingerprint(files), contents)


@dataclass(frozen=True)
class Pickled:
    """The images of a file of the python version, which is read anew when it is decoded."""

    file: str
    count: int

    def __len__(self) -> int:
        return self.count

    def name(self, row: int) -> str:
        return f"{self.file}, image {row}"

    def decode(self, into: Pixels) -> dict[int, str]:
        path = Path(self.file)
        pixels = cifar_pickle.pixels(cifar_pickle.read_batch(path), path)
        into[:] = images.resize(pixels, into.shape[-1])
        return {}


def read_pickles(version: Version, files: list[Path]) -> Listing:
    """Return the images of some files, after a look at all of them."""
    parts: list[Part] = []
    labels: list[Labels] = []
    for file in files:
        batch = cifar_pickle.read_batch(file)
        found = np.array(cifar_pickle.class_ids(batch, version.python_labels, file), np.int64)
        images_found = len(cifar_pickle.pixels(batch, file))
        if len(found) != images_found or not images_found:
            raise InvalidInput(f"{file} holds {images_found} images and {len(found)} labels")
        parts.append(Pickled(str(file), images_found))
        labels.append(checked(found, version, file))
    return Listing(parts, np.concatenate(labels))


def checked(labels: Labels, version: Version, file: Path) -> Labels:
    """Return labels that all are classes of this version."""
    if labels.min() < 0 or labels.max() >= version.classes:
        raise InvalidInput(
            f"{file} holds a label {labels.max()}; {version.name} has {version.classes} classes"
        )
    return labels


def present(files: list[Path]) -> list[Path]:
    """Return the files, all of which must be there."""
    for file in files:
        if not file.is_file():
            raise DataNotFound(
                f"{file} is missing, although its folder is there; unpack the archive again"
            )
    return files


def described(names: tuple[str, ...], train: Listing, test: Listing) -> Contents:
    """Return contents with a note if they are not the whole CIFAR."""
    sizes = len(train), len(test)
    whole = sizes == (50_000, 10_000)
    note = f"not the whole data set: {sizes[0]} + {sizes[1]} images instead of 50000 + 10000"
    return Contents(names, train, test, () if whole else (note,))
