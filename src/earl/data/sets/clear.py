"""CLEAR-10 and CLEAR-100: photographs of the same classes over a decade, in time buckets."""

from pathlib import Path

from earl.data.cache import open_dataset
from earl.data.dataset import Dataset
from earl.data.files import FileList, Rows, folders, found_files
from earl.data.source import Found, Layout, Source, locate
from earl.errors import DataNotFound

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRAIN = ("train_image_only", "train", "train_images")
TEST = ("test", "test_image_only", "test_images")
IMAGES = "labeled_images"
BACKGROUND = "BACKGROUND"  # photographs of none of the classes
# The first bucket to train on. Bucket 0 of CLEAR-10 is for pre-training: its benchmark has the
# buckets 1 to 10, though its archives may hold labelled images of 0 too. CLEAR-100 has all eleven.
FIRST = {10: 1, 100: 0}


def load10(source: Source) -> Dataset:
    """Load CLEAR-10, with each image's time bucket."""
    return open_dataset(find10(source), source, size=224, mean=MEAN, std=STD)


def load100(source: Source) -> Dataset:
    """Load CLEAR-100, with each image's time bucket."""
    return open_dataset(find100(source), source, size=224, mean=MEAN, std=STD)


def find10(source: Source) -> Found:
    """Find CLEAR-10 in the data root."""
    return find(10, source)


def find100(source: Source) -> Found:
    """Find CLEAR-100 in the data root."""
    return find(100, source)


def find(classes: int, source: Source) -> Found:
    name = f"clear-{classes}"
    expected = f"clear{classes}/{TRAIN[0]}/{IMAGES}/<bucket>/<class>/<image>, and test likewise"
    layouts = [Layout(expected, lambda folder: find_tree(name, folder, FIRST[classes]))]
    names = (f"clear{classes}", name, f"CLEAR{classes}", f"CLEAR-{classes}")
    return locate(name, source.root, names, layouts, f"Get it with: earl data download {name}")


def find_tree(name: str, path: Path, first: int) -> Found | None:
    """Find <split>/labeled_images/<bucket>/<class>; buckets before the first are not trained on."""
    train = next((split for split in TRAIN if (path / split / IMAGES).is_dir()), None)
    if train is None:
        return None
    test = next((split for split in TEST if (path / split / IMAGES).is_dir()), None)
    if test is None:
        raise DataNotFound(f"{path} holds {train}/{IMAGES} but no {TEST[0]}/{IMAGES}")
    layout = f"{train}/{IMAGES}/<bucket>"
    return found_files(name, layout, path, lambda: walk(path, train, test, first))


def walk(path: Path, train: str, test: str, first: int) -> FileList:
    """List the images by bucket and class; buckets are counted from 0 in their own order."""
    found = FileList()
    there = {split: buckets_of(path / split / IMAGES) for split in (train, test)}
    if early := [bucket for bucket in there[train] if int(bucket) < first]:
        there[train] = there[train][len(early) :]
        found.notes.append(f"bucket {', '.join(early)} of {train} is not part of the benchmark")
    numbers = {int(bucket) for buckets in there.values() for bucket in buckets}
    place = {bucket: number for number, bucket in enumerate(sorted(numbers))}
    for split, rows in ((train, found.train), (test, found.test)):
        for bucket in there[split]:
            add_bucket(found, rows, path, f"{split}/{IMAGES}/{bucket}", place[int(bucket)])
    return found


def buckets_of(path: Path) -> list[str]:
    """Return the names of the buckets in a folder, in the order of their numbers."""
    return sorted((name for name in folders(path) if name.isdecimal()), key=int)


def add_bucket(found: FileList, rows: Rows, path: Path, folder: str, domain: int) -> None:
    """Add the classes of one bucket; the images of none of the classes are left out."""
    for name in folders(path / folder):
        if name != BACKGROUND:
            count = found.add_folder(rows, path, f"{folder}/{name}", name)
            rows.domains.extend([domain] * count)
