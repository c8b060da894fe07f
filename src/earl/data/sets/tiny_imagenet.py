"""TinyImageNet: 200 classes of ImageNet at 64 pixels, as distributed or in plain class folders."""

from dataclasses import replace
from pathlib import Path

from earl.data.cache import open_dataset
from earl.data.dataset import Dataset
from earl.data.files import FileList, folders, found_files
from earl.data.sets.folder import find_folder
from earl.data.sets.parquet import find_parquet
from earl.data.sets.words import find_words
from earl.data.source import Found, Layout, Source, locate
from earl.data.texts import read_lines
from earl.errors import DataNotFound, InvalidInput

NAME = "tiny-imagenet"
FOLDERS = ("tiny-imagenet-200", "tiny-imagenet")
MEAN, STD = (0.4802, 0.4481, 0.3975), (0.2302, 0.2265, 0.2262)


def load(source: Source) -> Dataset:
    """Load TinyImageNet: 100 000 training images; the 10 000 validation images test."""
    return open_dataset(find(source), source, size=64, mean=MEAN, std=STD)


def find(source: Source) -> Found:
    """Find TinyImageNet in the data root."""
    layouts = [
        Layout("tiny-imagenet-200/ as distributed", find_distributed),
        Layout(
            "tiny-imagenet/train/<class>/<image> beside val",
            lambda folder: find_folder(NAME, folder, source),
        ),
        Layout("tiny-imagenet/train-*.parquet", lambda path: find_parquet(NAME, path, source)),
    ]
    get = f"Get it with: earl data download {NAME}"
    found = locate(NAME, source.root, FOLDERS, layouts, get)
    return replace(found, words=lambda: find_words([found.path]))


def find_distributed(path: Path) -> Found | None:
    """Find train/<wnid>/images/ and val/images/ with val/val_annotations.txt."""
    answers = path / "val" / "val_annotations.txt"
    if not answers.is_file() or not (path / "train").is_dir():
        return None
    return found_files(NAME, "as distributed", path, lambda: walk(path, answers))


def walk(path: Path, answers: Path) -> FileList:
    """List the training images by folder, the validation images by their file of answers."""
    found = FileList()
    for wnid in folders(path / "train"):
        found.add_folder(found.train, path, f"train/{wnid}", wnid)
    labels = read_answers(answers)
    found.add_folder(found.test, path, "val/images", "")
    names = [file.rpartition("/")[2] for file in found.test.paths]
    if unknown := [name for name in names if name not in labels]:
        raise InvalidInput(f"{answers} says nothing about {unknown[0]} ({len(unknown)} in all)")
    if lost := sorted(set(labels) - set(names)):
        raise DataNotFound(
            f"{path / 'val' / 'images' / lost[0]} is missing ({len(lost)} in all), although "
            f"{answers.name} names it; unpack the archive again"
        )
    found.test.labels = [labels[name] for name in names]
    return found


def read_answers(file: Path) -> dict[str, str]:
    """Return the class of each validation image, by file name; columns are divided by tabs."""
    labels = {}
    for number, line in enumerate(read_lines(file), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise InvalidInput(f"{file}, line {number}: a name and a class are expected")
        labels[columns[0]] = columns[1]
    return labels


def class_list(root: Path) -> Path | None:
    """Return the file that lists the classes of TinyImageNet, if it is there."""
    files = [root / folder / "wnids.txt" for folder in FOLDERS]
    return next((file for file in files if file.is_file()), None)
