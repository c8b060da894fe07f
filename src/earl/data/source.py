"""Sources: where a loader looks for a data set, with which options, and what it finds there."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from earl.data.parts import Part
from earl.errors import DataNotFound, InvalidSetting

Labels = NDArray[np.int64]
Progress = Callable[[str, int, int], None]  # what is being done, images done, images in all


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a loader is handed: folders, a path of the user's, and the options of the data set."""

    root: Path  # where data sets lie
    cache: Path  # where decoded copies go
    path: str = ""  # of "folder:" and others of the user's, what follows the colon
    workers: int = 1
    progress: Progress = silent
    image_size: int = 0  # 0: the data set's own
    skip_broken: bool = False
    hold_out: float = 0.2  # share of the images that test, where no test set is given
    class_list: str = ""
    image_column: str = ""
    label_column: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.image_size and not 4 <= self.image_size <= 1024:
            raise InvalidSetting(f"image_size = {self.image_size} must be from 4 to 1024 pixels")
        if not 0 < self.hold_out < 1:
            raise InvalidSetting(f"hold_out = {self.hold_out} must be between 0 and 1")
        if len(self.mean) not in (0, 3) or len(self.mean) != len(self.std):
            raise InvalidSetting("mean and std need three numbers each, such as 0.49,0.48,0.45")

    def own(self) -> Path:
        """Return the user's path, which must exist."""
        path = Path(self.path).expanduser()
        if not path.exists():
            raise DataNotFound(f"{path} does not exist; it should hold the data set")
        return path


@dataclass(frozen=True)
class Listing:
    """A split whose images are not decoded yet."""

    parts: Sequence[Part]
    labels: Labels
    domains: Labels | None = None
    files: Sequence[str] = ()  # relative to the data set's folder, if every image is a file

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Contents:
    """Everything of a data set but the pixels."""

    class_names: tuple[str, ...]
    train: Listing
    test: Listing
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A data set on disk. Its fingerprint is quick to compute, its contents may take a while."""

    name: str
    layout: str
    path: Path
    fingerprint: Callable[[], str]  # changes whenever a file of the data set does
    contents: Callable[[], Contents]
    words: Callable[[], Mapping[str, str]] = dict  # what class names such as n01443537 mean


@dataclass(frozen=True)
class Layout:
    """One way in which a data set may lie on disk."""

    expected: str  # for people: the names that are looked for
    find: Callable[[Path], Found | None]


def locate(
    name: str, root: Path, folders: Sequence[str], layouts: Sequence[Layout], get: str
) -> Found:
    """Return a data set from the first folder of the root that holds it in one of the layouts."""
    for layout in layouts:
        for folder in folders:
            found = layout.find(root / folder)
            if found is not None:
                return found
    expected = "; or ".join(layout.expected for layout in layouts)
    raise DataNotFound(f"{name} not found in {root}; expected there: {expected}. {get}")


@dataclass
class Fingerprint:
    """A hash over names, sizes and times of change of files."""

    _hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, name: str, size: int, changed: int) -> None:
        self._hash.update(encoded(f"{name}\0{size}\0{changed}\n"))

    def __str__(self) -> str:
        return self._hash.hexdigest()


def encoded(name: str) -> bytes:
    """Return the name of a file as bytes, also one that is not valid Unicode."""
    return name.encode("utf-8", "surrogateescape")


def fingerprint(paths: Sequence[Path]) -> str:
    """Return the fingerprint of a few files."""
    sum_ = Fingerprint()
    for path in paths:
        found = path.stat()
        sum_.add(path.name, found.st_size, found.st_mtime_ns)
    return str(sum_)


def hold_out(keys: Sequence[str], labels: Sequence[object], share: float) -> NDArray[np.bool_]:
    """Return which images test, (N,): of every class a fixed random share, and at least one of two.

    The order follows from the keys alone, so that new images hardly change which old ones test.
    """
    members: dict[object, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    test = np.zeros(len(keys), dtype=bool)
    for rows in members.values():
        if len(rows) > 1:
            rows.sort(key=lambda row: hashlib.sha256(encoded(keys[row])).digest())
            test[rows[: min(max(1, round(share * len(rows))), len(rows) - 1)]] = True
    return test


def held_out_note(share: float) -> str:
    return f"there is no test split: {share:g} of each class is held out"


def untaught_note(names: Sequence[str]) -> str:
    """Return the note about classes that have test images and no training images."""
    return f"never asked about, for lack of training images: {', '.join(names)}"
