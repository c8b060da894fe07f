"""Your own images in folders: <split>/<class>/<image>, or <class>/<image>."""

from pathlib import Path

from earl.data.cache import open_dataset
from earl.data.dataset import Dataset
from earl.data.files import FileList, Rows, folders, found_files, pictures
from earl.data.source import Found, Source, held_out_note
from earl.data.splits import TESTS, meaning, resembles
from earl.errors import DataNotFound
from earl.storage.printable import slug

INNER = ("images", "image", "img", "imgs", "photos", "pictures")  # folders that are no classes
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
    splits = find_splits(path, there)
    train = splits.pop("train", None)
    if train is None:
        refuse_splits(path, there)
        layout = f"<class>/<image>, {source.hold_out:g} held out"
        return found_files(name, layout, path, lambda: walk_classes(path, source))
    test = next((splits[split] for split in TESTS if split in splits), None)
    layout = f"{train}/<class>/<image>" + ("" if test else f", {source.hold_out:g} held out")
    unused = [other for other in there if other not in (train, test)]
    if test is None and (others := [o for o in unused if any(pictures(path / o))]):
        raise DataNotFound(
            f"{path} holds {train} beside {', '.join(others)}: is {train} a split or a class? "
            f"Expected is {EXPECTED}"
        )
    return found_files(name, layout, path, lambda: walk_splits(path, train, test, unused, source))


def find_splits(path: Path, there: list[str]) -> dict[str, str]:
    """Return the folders that are splits, by meaning: a class called "train" holds no folders."""
    found: dict[str, str] = {}
    for folder in there:
        split = meaning(folder)
        if split and folders(path / folder):
            if split in found:
                raise DataNotFound(
                    f"{path} holds {found[split]} and {folder}, which both look like the {split} "
                    "split; leave only one of them there"
                )
            found[split] = folder
    return found


def refuse_splits(path: Path, there: list[str]) -> None:
    """Raise if what would be the classes are splits by their names."""
    if all(map(resembles, there)):
        count = "1 class" if len(there) == 1 else f"{len(there)} classes"
        raise DataNotFound(
            f"{path} holds {count}: {', '.join(there)} – these look like splits; expected is "
            f"{EXPECTED}"
        )


def walk_classes(path: Path, source: Source) -> FileList:
    """List <class>/<image>; a fixed share of every class tests."""
    found = FileList()
    add_classes(found, found.train, path, "")
    found.hold_out(source.hold_out)
    return found


def walk_splits(
    path: Path, train: str, test: str | None, unused: list[str], source: Source
) -> FileList:
    """List <split>/<class>/<image>; without a test split a share of every class is held out."""
    found = FileList()
    add_classes(found, found.train, path, f"{train}/")
    if test is None:
        found.hold_out(source.hold_out)
        found.notes.append(held_out_note(source.hold_out))
    else:
        add_classes(found, found.test, path, f"{test}/")
    if unused:
        used = f"{test} is the test split" if test else f"{train} is the training split"
        found.notes.append(f"{used}; not used: {', '.join(unused)}")
    return found


def add_classes(found: FileList, rows: Rows, path: Path, prefix: str) -> None:
    """Add every class folder; an empty one is no class, and is noted, as are folders within."""
    names = folders(path / prefix)
    empty, deep = [], []
    for name in names:
        before = len(rows.paths)
        if not found.add_folder(rows, path, prefix + name, name):
            empty.append(prefix + name)
        elif not any(is_direct(file, prefix + name) for file in rows.paths[before:]):
            deep.append(rows.paths[before])
    if empty:
        found.notes.append(f"without images, and left out: {', '.join(empty)}")
    if deep and len(deep) + len(empty) == len(names):
        refuse_deep(path, prefix, deep)
    elif deep:
        found.notes.append(f"images taken from folders within classes, such as {deep[0]}")


def is_direct(file: str, folder: str) -> bool:
    """Return whether a file lies in a folder itself, or in a folder of it that has a usual name."""
    inner = file[len(folder) + 1 :].rpartition("/")[0]
    return not inner or inner.casefold() in INNER


def refuse_deep(path: Path, prefix: str, deep: list[str]) -> None:
    """Raise, since nobody knows which of two levels of folders the classes are."""
    outer, inner = deep[0][len(prefix) :].split("/")[:2]
    raise DataNotFound(
        f"{path} holds images only below a second level of folders, such as {deep[0]}. If the "
        f"class of that one is {inner}, name the folder above, as in folder:{path / prefix / outer}"
        f"; if it is {outer}, put the images into the folder {prefix}{outer} itself"
    )
