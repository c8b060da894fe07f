"""Your own images in folders: <split>/<class>/<image>, or <class>/<image>."""

from pathlib import Path

from earl.datasets.cache import open_dataset
from earl.datasets.dataset import Dataset
from earl.datasets.files import FileList, Rows, folders, found_files
from earl.datasets.source import Found, Source, slug
from earl.errors import DataNotFound

TRAIN = ("train", "training")
TEST = ("test", "testing", "val", "valid", "validation", "eval")
EXPECTED = "<class>/<image>, or train/<class>/<image> beside test/<class>/<image>"


def load(source: Source) -> Dataset:
    """Load a folder of folders of images."""
    return open_dataset(find(source), source)


def find(source: Source) -> Found:
    """Find a folder of the user's."""
    path = source.own()
    if not path.is_dir():
        raise DataNotFound(f"{path} is not a folder; expected one with {EXPECTED}")
    found = find_folder(f"folder-{slug(path.resolve().name)}", path, source)
    if found is None:
        raise DataNotFound(f"{path} holds no folders; expected {EXPECTED}")
    return found


def find_folder(name: str, path: Path, source: Source) -> Found | None:
    """Find images in folders; a folder without folders is none of them."""
    if not path.is_dir() or not (there := folders(path)):
        return None
    train = next((split for split in TRAIN if split in there), None)
    if train is None:
        layout = f"<class>/<image>, {source.hold_out:g} held out"
        return found_files(name, layout, path, lambda: walk_classes(path, source))
    test = next((split for split in TEST if split in there), None)
    layout = f"{train}/<class>/<image>" + ("" if test else f", {source.hold_out:g} held out")
    return found_files(name, layout, path, lambda: walk_splits(path, train, test, source))


def walk_classes(path: Path, source: Source) -> FileList:
    """List <class>/<image>; a fixed share of every class tests."""
    found = FileList()
    add_classes(found, found.train, path, "")
    found.hold_out(source.hold_out)
    return found


def walk_splits(path: Path, train: str, test: str | None, source: Source) -> FileList:
    """List <split>/<class>/<image>; without a test split a share of every class is held out."""
    found = FileList()
    add_classes(found, found.train, path, f"{train}/")
    if test is None:
        found.hold_out(source.hold_out)
        found.notes.append(f"there is no test split: {source.hold_out:g} of each class is held out")
        return found
    add_classes(found, found.test, path, f"{test}/")
    unused = [other for other in TEST if other != test and (path / other).is_dir()]
    if unused:
        found.notes.append(f"{test} is the test split; not used: {', '.join(unused)}")
    return found


def add_classes(found: FileList, rows: Rows, path: Path, prefix: str) -> None:
    """Add every class folder; an empty one is no class, and is noted."""
    names = folders(path / prefix)
    empty = [n for n in names if not found.add_folder(rows, path, prefix + n, n)]
    if empty:
        found.notes.append(f"without images, and left out: {', '.join(prefix + n for n in empty)}")
