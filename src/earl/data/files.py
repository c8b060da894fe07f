"""Data sets that consist of image files: their lists of files become the contents of a data set."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from pathlib import Path

import numpy as np

from earl.data.decode import ENDINGS
from earl.data.parts import file_parts
from earl.data.source import Contents, Fingerprint, Found, Labels, Listing, hold_out, untaught_note
from earl.errors import DataNotFound


@dataclass
class Rows:
    """Image files of one split: paths relative to the data set's folder, with their labels."""

    paths: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    domains: list[int] = field(default_factory=list)  # one for each, or none at all

    def add(self, path: str, label: str) -> None:
        self.paths.append(path)
        self.labels.append(label)

    def where(self, keep: Sequence[bool]) -> "Rows":
        """Return the rows for which `keep` is true."""
        return Rows(
            list(compress(self.paths, keep)),
            list(compress(self.labels, keep)),
            list(compress(self.domains, keep)),
        )


@dataclass
class FileList:
    """The files of a data set, with their labels and splits."""

    train: Rows = field(default_factory=Rows)
    test: Rows = field(default_factory=Rows)
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    notes: list[str] = field(default_factory=list)
    list_file: Path | None = (
        None  # the file that lists the images; None if they were found in folders
    )
    missing: list[str] = field(default_factory=list)  # files that it lists and that do not exist
    held_out: bool = False

    def add_folder(self, rows: Rows, root: Path, folder: str, label: str) -> int:
        """Add every image below a folder; return how many there are."""
        before = len(rows.paths)
        for name, found in pictures(root / folder):
            rows.add(f"{folder}/{name}", label)
            self.fingerprint.add(rows.paths[-1], found.st_size, found.st_mtime_ns)
        return len(rows.paths) - before

    def hold_out(self, share: float) -> None:
        """Move a share of the training images to the test split."""
        self.held_out = True
        test = hold_out(self.train.paths, self.train.labels, share).tolist()
        self.test, self.train = self.train.where(test), self.train.where([not t for t in test])


def pictures(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the image files below a folder, in the order of their names."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            for name, info in pictures(Path(entry.path)):
                yield f"{entry.name}/{name}", info
        elif os.path.splitext(entry.name)[1].lower() in ENDINGS:  # noqa: PTH122 (a million times)
            try:
                yield entry.name, entry.stat()
            except OSError:  # a link whose target is missing: later reported as a broken image
                yield entry.name, entry.stat(follow_symlinks=False)


def folders(path: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted; a link to a folder is one."""
    with os.scandir(path) as entries:
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))


def found_files(name: str, layout: str, root: Path, walk: Callable[[], FileList]) -> Found:
    """Return a data set of image files; its files are listed when needed, and only once."""
    walk = cache(walk)
    return Found(
        name,
        layout,
        root,
        fingerprint=lambda: str(walk().fingerprint),
        contents=lambda: contents(root, walk()),
    )


def contents(root: Path, found: FileList) -> Contents:
    """Number the classes in the order of their names, also those that only have test images."""
    if not found.train.paths or not found.test.paths:
        raise DataNotFound(why_empty(root, found))
    names = sorted({*found.train.labels, *found.test.labels})
    ids = {name: number for number, name in enumerate(names)}
    untaught = sorted(set(found.test.labels) - set(found.train.labels))
    notes = list(found.notes)
    if untaught:
        notes.append(untaught_note(untaught))
    return Contents(
        class_names=tuple(names),
        train=listing(root, found.train, ids),
        test=listing(root, found.test, ids),
        notes=tuple(notes),
    )


def why_empty(root: Path, found: FileList) -> str:
    """Say why there are no images to train on, or none to test with."""
    place, there = found.list_file or root, found.train.paths
    if found.missing:
        count = f"{len(found.missing)} of the {len(there) + len(found.test.paths)} files it names"
        return f"{place} names {found.missing[0]}, which is not there; {count} are missing"
    if there and found.held_out:
        return (
            f"{place} holds no 2 images of any class, of which one could be held out as a test; "
            "add some, or a test split"
        )
    return f"{place} holds no {'test' if there else 'training'} images"


def listing(root: Path, rows: Rows, ids: dict[str, int]) -> Listing:
    labels: Labels = np.array([ids[label] for label in rows.labels], np.int64)
    domains: Labels | None = np.array(rows.domains, np.int64) if rows.domains else None
    return Listing(file_parts(root, rows.paths), labels, domains, rows.paths)
