"""CLEAR-10 and CLEAR-100: photographs of the same classes over a decade, in time buckets."""

from pathlib import Path

from earl.datasets.cache import open_dataset
from earl.datasets.dataset import Dataset
from earl.datasets.files import FileList, Rows, folders, found_files
from earl.datasets.source import Found, Layout, Source, locate
from earl.errors import DataNotFound

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRAIN = ("train_image_only", "train", "train_images")
TEST = ("test", "test_image_only", "test_images")
IMAGES = "labeled_images"
BACKGROUND = "BACKGROUND"  # photographs of none of the classes


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
    layouts = [Layout(expected, lambda folder: find_tree(name, folder))]
    names = (f"clear{classes}", name, f"CLEAR{classes}", f"CLEAR-{classes}")
    return locate(name, source.root, names, layouts, f"Get it with: earl data download {name}")


def find_tree(name: str, path: Path) -> Found | None:
    """Find <split>/labeled_images/<bucket>/<class>."""
    train = next((split for split in TRAIN if (path / split / IMAGES).is_dir()), None)
    if train is None:
        return None
    test = next((split for split in TEST if (path / split / IMAGES).is_dir()), None)
    if test is None:
        raise DataNotFound(f"{path} holds {train}/{IMAGES} but no {TEST[0]}/{IMAGES}")
    return found_files(name, f"{train}/{IMAGES}/<bucket>", path, lambda: walk(path, train, test))


def walk(path: Path, train: str, test: str) -> FileList:
    """List the images by bucket and class; buckets are counted from 0 in their own order."""
    found = FileList()
    splits = {train: found.train, test: found.test}
    numbers = {int(b) for s in splits for b in folders(path / s / IMAGES) if b.isdecimal()}
    place = {bucket: number for number, bucket in enumerate(sorted(numbers))}
    for split, rows in splits.items():
        buckets = [b for b in folders(path / split / IMAGES) if b.isdecimal()]
        for bucket in sorted(buckets, key=int):
            add_bucket(found, rows, path, f"{split}/{IMAGES}/{bucket}", place[int(bucket)])
    return found


def add_bucket(found: FileList, rows: Rows, path: Path, folder: str, domain: int) -> None:
    """Add the classes of one bucket; the images of none of the classes are left out."""
    for name in folders(path / folder):
        if name != BACKGROUND:
            count = found.add_folder(rows, path, f"{folder}/{name}", name)
            rows.domains.extend([domain] * count)
